"""Preprocessing that comes with weights, from the configs of timm, transformers and OpenCLIP

Padding as transformers and OpenCLIP do is refused, because `Preprocess` pads with the mean color, as timm does.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from vit.data.pixels.preprocess import ColorProfiles, Interpolation, ResizeMode, Window

Channels = tuple[float, ...]  # of red, green and blue, or of each channel
Config = Mapping[str, Any]  # JSON from elsewhere


class PreprocessValues(TypedDict, total=False):
    """The values of `Preprocess` that are known before an image size is chosen; the others have its defaults."""

    mean: Channels
    std: Channels
    interpolation: Interpolation
    crop_fraction: float
    resize_mode: ResizeMode
    window: Window
    channels: int
    color_profiles: ColorProfiles


@dataclass(frozen=True)
class StatedPreprocess:
    """Preprocessing, and who states it."""

    values: PreprocessValues  # values of `Preprocess`
    source: str  # file or library that states them, for the terminal
    has_other_size: bool = False  # whether a processor makes images of another size than the network's config states


IMAGENET: PreprocessValues = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF: PreprocessValues = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
CLIP: PreprocessValues = {
    "mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)
}  # fmt: skip

_PIL = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
_COARSE = ("nearest", "nearest-exact", "box", "hamming")
_TIMM_CROP = 0.875  # timm.data's default
_TIMM_MODES: Mapping[Any, ResizeMode] = {None: "shortest", "center": "shortest", "squash": "squash", "border": "pad"}
_OPEN_CLIP_MODES: Mapping[Any, ResizeMode] = {None: "shortest", "shortest": "shortest", "squash": "squash"}
_SHORTEST = ("CLIP", "ChineseCLIP", "Bit", "Llava")  # processors for which a single number is the shorter side
# Processors whose pixels equal those of `Preprocess`. Others resize, pad or normalize in ways of their own.
_PROCESSORS = ("", "ViT", "DeiT", "Beit", "Siglip", "ConvNext", "DPT", "Blip", "Pvt", "DINOv3ViT", *_SHORTEST)
_BILINEAR = ("ViT", "DINOv3ViT")  # processors whose class resizes so where `resample` is missing; others are bicubic
_EITHER = ("", "ConvNext", "Pvt")  # versions of transformers differ
_SUFFIX = re.compile(r"(ImageProcessor(Fast|Pil)?|FeatureExtractor)$")
_UNSUPPORTED = ("do_flip_channel_order", "do_pad", "keep_aspect_ratio", "do_center_pad")  # settings that are not false
TIMM_SETTINGS = {"mean", "std", "crop_pct", "interpolation"}  # timm's train.py keeps all, also where they are None
TIMM_PROGRAM = "timm's train.py"
_CONVNEXT, _CONVNEXT_CROP, _CONVNEXT_SQUASHED = "ConvNext", 224 / 256, 384  # the crop below this side alone


def from_timm_config(config: Config) -> PreprocessValues:
    """timm's pretrained_cfg; the side before the crop is rounded down (224 / 0.9 is 248). ValueError: crop_mode."""
    side = square_side("input_size", (config.get("input_size") or (3, 224, 224))[-2:])
    crop = config.get("crop_pct") or _TIMM_CROP
    return {
        "mean": _three(config.get("mean") or IMAGENET["mean"]),
        "std": _deviations(config.get("std") or IMAGENET["std"]),
        "interpolation": _interpolation(config.get("interpolation") or "bicubic"),
        "crop_fraction": _floored_crop(side, crop),
        "resize_mode": _mode("crop_mode", config.get("crop_mode"), _TIMM_MODES),
    }


def from_settings(settings: Config, base: Config) -> tuple[PreprocessValues, str]:
    """(preprocessing that the settings of a training state, the program that keeps them; "" if one is not known).

    `base` is timm's configuration of the network, which timm's train.py takes where a setting is empty; {}: unknown.
    ValueError: a setting is not what the program would write.
    """
    stated = {key: value for key, value in settings.items() if value not in (None, "")}
    for key in {"mean", "std"} & stated.keys():
        numbers = [stated[key]] if isinstance(stated[key], float | int) else [*stated[key]]
        stated[key] = numbers * 3 if len(numbers) == 1 else numbers
    is_of_bytes = max([*stated.get("mean", ()), *stated.get("std", ())], default=0) > 1
    if is_of_bytes:  # programs differ in what they do with such numbers, so they state nothing
        stated = {key: value for key, value in stated.items() if key not in ("mean", "std")}
    if settings.keys() >= TIMM_SETTINGS:
        size = stated.get("input_size") or [stated.get("img_size") or base.get("input_size", (3, 224, 224))[-1]]
        known = {key: stated[key] for key in (*TIMM_SETTINGS, "crop_mode") if key in stated}
        values = from_timm_config({**base, **known, "input_size": (3, size[-1], size[-1])})
        if is_of_bytes:
            del values["mean"], values["std"]
        return values, TIMM_PROGRAM
    if {"val_resize_size", "val_crop_size"} <= stated.keys():
        crop = _fraction(stated["val_crop_size"] / stated["val_resize_size"])
        word = _interpolation(stated.get("interpolation", "bilinear"))
        return {**IMAGENET, "interpolation": word, "crop_fraction": crop}, "torchvision's train.py"
    if "mean" in stated and "std" in stated:
        return {"mean": _three(stated["mean"]), "std": _deviations(stated["std"])}, ""
    return {}, ""


def from_hugging_face_config(config: Config, model_type: str = "") -> tuple[PreprocessValues, int | None]:
    """(a preprocessor_config.json of transformers, side of its images); `model_type` tells the class of old files.

    Without `do_resize` nothing states a resize or a side (None). ValueError: what it does is not supported.
    """
    if not config.get("do_rescale", True):
        raise ValueError("do_rescale is false, and only pixels from 0 to 1 are supported")
    if not math.isclose(config.get("rescale_factor", 1 / 255), 1 / 255, rel_tol=1e-3):
        raise ValueError(f"rescale_factor is {config['rescale_factor']!r}, not 1/255")
    stated = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "")
    kind = stated or ("ViT" if model_type == "vit" else "")
    family = _SUFFIX.sub("", kind)
    if family not in _PROCESSORS or any(config.get(key) for key in _UNSUPPORTED):
        raise ValueError(f"{kind or 'the processor'} resizes, pads or normalizes in a way that is not supported")
    normalized, crops = config.get("do_normalize", True), bool(config.get("do_center_crop", "crop_size" in config))
    values: PreprocessValues = {
        "mean": _three(_stated(config, "image_mean")) if normalized else (0.0, 0.0, 0.0),
        "std": _deviations(_stated(config, "image_std")) if normalized else (1.0, 1.0, 1.0),
    }
    if not config.get("do_resize", True):
        if crops:
            raise ValueError("do_resize is false, and a crop of pictures that are not resized is not supported")
        return values, None
    resized, mode = _side(_stated(config, "size")), _resize_mode(config, stated, crops)
    side = _side(_stated(config, "crop_size")) if crops else resized
    crop_fraction = _fraction(side / resized) if side and resized else 1.0
    if kind.startswith(_CONVNEXT) and resized:
        cropped = _floored_crop(resized, config.get("crop_pct") or _CONVNEXT_CROP)
        crop_fraction, mode = (cropped, "shortest") if resized < _CONVNEXT_SQUASHED else (1.0, "squash")
    resample = 2 if family in _BILINEAR else 3  # numbers of Pillow's filters; classes differ
    if config.get("resample") is not None or family in _EITHER:
        resample = _stated(config, "resample")
    values |= {"interpolation": _interpolation(resample), "crop_fraction": crop_fraction, "resize_mode": mode}
    return values, side


def _side(size: Any) -> int:
    """The side of a size: a number, a height, or the shorter edge."""
    return int(size.get("shortest_edge") or size.get("height") or 0) if isinstance(size, Mapping) else int(size)


def _stated(config: Config, key: str) -> Any:
    """A value that the classes of transformers have different defaults for, so that none can be taken for granted."""
    if config.get(key) is None:
        raise ValueError(
            f"preprocessor_config.json has no {key}, and transformers takes it from the class of the processor: write "
            f"it into the file, as AutoImageProcessor.from_pretrained(FOLDER).save_pretrained(FOLDER) does"
        )
    return config[key]


def _resize_mode(config: Config, kind: str, crops: bool) -> ResizeMode:
    """Whether a processor resizes both sides or the shorter one. A single number means either, by the type."""
    size = config.get("size")
    if isinstance(size, Mapping):
        if "longest_edge" in size and "shortest_edge" not in size:
            raise ValueError("size has longest_edge, and padding a picture is not supported")
        if "shortest_edge" not in size and size.get("height") != size.get("width"):
            raise ValueError(f"size is {size!r}, not a square")
        squashes = "shortest_edge" not in size
    else:
        squashes = not kind.startswith(_SHORTEST) if kind else not crops
    return "squash" if squashes else "shortest"


def from_open_clip_config(config: Config) -> PreprocessValues:
    """The "preprocess_cfg" of an open_clip_config.json; ValueError where pictures are padded ("longest")."""
    return {
        "mean": _three(config["mean"]),
        "std": _deviations(config["std"]),
        "interpolation": _interpolation(config.get("interpolation", "bicubic")),
        "crop_fraction": 1.0,
        "resize_mode": _mode("resize_mode", config.get("resize_mode"), _OPEN_CLIP_MODES),
    }


def _mode(name: str, word: Any, modes: Mapping[Any, ResizeMode]) -> ResizeMode:
    if word not in modes:
        raise ValueError(f"{name} is {word!r}, and only {', '.join(filter(None, modes))} are supported")
    return modes[word]


def square_side(name: str, size: Any) -> int:
    """The side of a size in pixels: one number, or height and width. ValueError: it is not a square."""
    sides = set(map(int, size if isinstance(size, list | tuple) else (size,)))
    if len(sides) != 1:
        raise ValueError(f"{name} is {size!r}, and only squares are supported")
    return sides.pop()


def _three(numbers: Any) -> Channels:
    three = tuple(float(number) for number in numbers)
    if len(three) != 3 or not all(-1 <= number <= 1 for number in three):
        more = "; divide numbers of pixels from 0 to 255 by 255" if len(three) == 3 else ""
        raise ValueError(f"{numbers!r} are not three numbers for pixels from 0 to 1{more}")
    return three[0], three[1], three[2]


def _deviations(numbers: Any) -> Channels:
    if min(three := _three(numbers)) <= 0:
        raise ValueError(f"the standard deviations {numbers!r} are not above 0")
    return three


def _fraction(value: Any) -> float:
    if not float(value) > 0:
        raise ValueError(f"the crop is {value!r}")
    return min(1.0, float(value))


def _floored_crop(side: float, crop: Any) -> float:
    """The part of the resized side that a crop keeps, where the resized side is rounded down (224 / 0.9 is 248)."""
    return _fraction(side / math.floor(side / _fraction(crop)))


def _interpolation(word: Any) -> Interpolation:
    """One of the two that `Preprocess` has. Lanczos is nearest to bicubic. ValueError for coarse ones."""
    name = _PIL.get(word, str(word))
    if name in _COARSE:
        raise ValueError(f"interpolation {name!r} is not supported; write 'bilinear' to have pictures resized so")
    return "bilinear" if name == "bilinear" else "bicubic"
