"""Preprocessing as other libraries write it down, as values of `Preprocess`: mean, std, interpolation, crop_fraction.

What ours cannot do exactly is said, never passed over: where theirs squashes a picture to a square, ours cuts its
middle (`squashes`).
"""

import math
from collections.abc import Mapping
from typing import Any

from vit.data.preprocess import Interpolation

Values = dict[str, Any]

_PIL = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}


def from_timm_config(config: Mapping[str, Any]) -> Values:
    """timm's pretrained_cfg; as timm, the side before the crop is rounded down (224 / 0.9 is 248)."""
    side = int(config.get("input_size", (3, 224, 224))[-1])
    return {
        "mean": _three(config["mean"]),
        "std": _three(config["std"]),
        "interpolation": _interpolation(config.get("interpolation", "bicubic")),
        "crop_fraction": _share(side / math.floor(side / _share(config.get("crop_pct") or 1.0))),
    }


def from_hugging_face_config(config: Mapping[str, Any]) -> Values:
    """A preprocessor_config.json of transformers.

    Raises:
        ValueError: pixels are scaled in a way that mean and standard deviation cannot express.
    """
    if config.get("do_rescale", True) and not math.isclose(
        config.get("rescale_factor", 1 / 255), 1 / 255, rel_tol=1e-3
    ):
        raise ValueError(f"rescale_factor is {config['rescale_factor']!r}, not 1/255")
    normalised = config.get("do_normalize", True)
    size = config.get("size", 224)
    resized = size if isinstance(size, int | float) else size.get("shortest_edge") or size.get("height")
    crop = config.get("crop_size") if config.get("do_center_crop", "crop_size" in config) else None
    side = crop.get("height") if isinstance(crop, Mapping) else crop
    return {
        "mean": _three(config["image_mean"]) if normalised and config.get("image_mean") else (0.0, 0.0, 0.0),
        "std": _three(config["image_std"]) if normalised and config.get("image_std") else (1.0, 1.0, 1.0),
        "interpolation": _interpolation(config.get("resample", 2)),
        "crop_fraction": _share(side / resized) if side and resized else 1.0,
    }


def squashes(config: Mapping[str, Any]) -> bool:
    """Whether a preprocessor_config.json of transformers makes pictures square without keeping their proportions."""
    size = config.get("size", 224)
    keeps = isinstance(size, Mapping) and "shortest_edge" in size
    return bool(config.get("do_resize", True)) and not keeps and not config.get("do_center_crop", "crop_size" in config)


def from_open_clip_config(config: Mapping[str, Any]) -> Values:
    """ "preprocess_cfg" of an open_clip_config.json."""
    return {
        "mean": _three(config["mean"]),
        "std": _three(config["std"]),
        "interpolation": _interpolation(config.get("interpolation", "bicubic")),
        "crop_fraction": 1.0,
    }


def _three(numbers: Any) -> tuple[float, ...]:
    three = tuple(float(number) for number in numbers)
    if len(three) != 3 or not all(map(math.isfinite, three)):
        raise ValueError(f"{numbers!r} are no three numbers")
    return three


def _share(value: Any) -> float:
    if not float(value) > 0:
        raise ValueError(f"the crop is {value!r}")
    return min(1.0, float(value))


def _interpolation(word: Any) -> Interpolation:
    """Ours has two; the others are sharper than bilinear and nearest to bicubic."""
    name = _PIL.get(word, str(word))
    return "bilinear" if name == "bilinear" else "bicubic"
