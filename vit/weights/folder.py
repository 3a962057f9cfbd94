"""What stands beside weights: configs in a folder, as transformers, timm and OpenCLIP write them; settings in a file

torchvision's weights are fetched here, with what torchvision states of them.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vit.checkpoints.format import MAX_SIDE
from vit.data.pixels.preprocess import COLORS
from vit.errors import DAMAGE, CheckpointError, UsageError, explained, first_line, nearest
from vit.models.network_names import import_timm
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task
from vit.weights import preprocess_config
from vit.weights.file import WeightsFile, read_config
from vit.weights.formats.weight_format import TimmModel, Weights
from vit.weights.hubs import UNKNOWN, fetched, license_of_card
from vit.weights.named_model import (
    is_of_timm,
    is_of_torchvision_alone,
    is_published,
    named_model,
    stem_of,
    timm_name,
    timm_weights,
)
from vit.weights.preprocess_config import TIMM_PROGRAM, TIMM_SETTINGS, Config, PreprocessValues, StatedPreprocess
from vit.weights.pretrained import are_numbers
from vit.weights.trainer_file import SIZE_KEYS, Stated

_FIX = "give the weights of a model as timm builds it"
_TORCHVISION, _SWAG = "bsd-3-clause", "cc-by-nc-4.0"  # licenses of torchvision's weights, and of those of SWAG
_FREE_ARGUMENTS = {"dynamic_img_size", "dynamic_img_pad", "strict_img_size"}  # of timm; one size is used here


@dataclass(frozen=True)
class StatedFacts:
    """Facts about weights that stand beside them."""

    config: Config = field(default_factory=dict)  # config.json and open_clip_config.json as one
    model: TimmModel | None = None  # model of timm that is named; None: none is
    named_by: str = ""  # who names it, where it must fit: "--network" or "the file"; "": the name may be an accident
    is_exact: bool = False  # whether these are published weights, by the name in a library or by a tag
    preprocess: StatedPreprocess | None = None  # preprocessing that is stated; None: none is
    class_names: tuple[str, ...] | None = None  # names of the classes; None: unknown
    task: Task = SINGLE_LABEL  # whether the classifier gives an image one class, or several labels
    license: str = UNKNOWN  # license that the card states; "not stated" where it is unknown
    has_size: bool = False  # whether the image size is stated, which a network without positions does not show


def image_side(config: Config) -> int | None:
    """The side of the network's images that a config.json states; None: it does not."""
    tower = config.get("vision_config")
    side = (tower if isinstance(tower, Mapping) else config).get("image_size")
    return side if type(side) is int else None


def read_folder(folder: Path) -> StatedFacts:
    """The configs of a folder with weights; CheckpointError where one cannot be read, or is not supported."""
    config = read_config(folder / "config.json")
    open_clip, preprocessor = (read_config(folder / f"{name}_config.json") for name in ("open_clip", "preprocessor"))
    stated: list[StatedPreprocess] = []

    def reading(file: str) -> AbstractContextManager[None]:  # an untrusted file may hold anything
        problem = f"{folder / file} has preprocessing that cannot be used"
        return explained(CheckpointError, problem, "change this file to what is supported", Exception)

    with reading("preprocessor_config.json"):
        if preprocessor:
            values, side = preprocess_config.from_hugging_face_config(preprocessor, str(config.get("model_type")))
            network_side = image_side(config)
            has_other = None not in (side, network_side) and side != network_side
            more = f", which makes images of {side} pixels, and config.json states {network_side}" * has_other
            stated.append(StatedPreprocess(values, f"preprocessor_config.json{more}", has_other))
    with reading("config.json"):
        if "pretrained_cfg" in config and not (preprocessor and "mean" not in config["pretrained_cfg"]):
            values = preprocess_config.from_timm_config(config["pretrained_cfg"])
            stated.append(StatedPreprocess(values, "config.json"))
    with reading("open_clip_config.json"):
        if "preprocess_cfg" in open_clip:
            values = preprocess_config.from_open_clip_config(open_clip["preprocess_cfg"])
            stated.append(StatedPreprocess(values, "open_clip_config.json"))
    Stated({one.source: one.values for one in stated}).check_pixels(str(folder))
    has_several = config.get("problem_type") == "multi_label_classification"
    return StatedFacts(
        {**config, **open_clip}, _model(folder, config, open_clip), "config.json",
        preprocess=stated[0] if stated else None,
        class_names=_labels(config), task=MULTI_LABEL if has_several else SINGLE_LABEL,
        license=license_of_card(folder), has_size=bool(config.get("pretrained_cfg")),
    )  # fmt: skip


def _model(folder: Path, config: Config, open_clip: Config) -> TimmModel | None:
    with explained(CheckpointError, f"{folder} has a config that cannot be used", "download it again", DAMAGE):
        tower = open_clip.get("model_cfg", {}).get("vision_cfg", {}).get("timm_model_name")
        size, pool = (config.get("pretrained_cfg") or {}).get("input_size"), config.get("global_pool") or None
        arguments = {"img_size": size and size[-2:], "global_pool": pool, **(config.get("model_args") or {})}
    name = str(config.get("architecture") or tower or "")
    if not name:
        return None
    model = model_with(f"{folder} (config.json)", name, arguments)
    if model is None:
        raise CheckpointError(f"{folder} is for {name!r}, which this version of timm does not have", "upgrade timm")
    return model


def model_with(source: str, name: str, arguments: Config) -> TimmModel | None:
    """The model of timm built with arguments; None: timm lacks it. CheckpointError: they make another network of it."""
    size, pool = arguments.get("img_size"), arguments.get("global_pool")
    if isinstance(size, list | tuple) and len(size) == 2 and size[0] == size[1]:
        size = size[0]
    is_fine = {  # timm 1.0.31 states these also where they are as it builds the model
        "img_size": size is None or (type(size) is int and 0 < size <= MAX_SIDE),
        "in_chans": arguments.get("in_chans") in (None, COLORS),
        "global_pool": pool is None or isinstance(pool, str),
        "num_classes": True,  # the classifier shows it
    }
    keys = sorted(map(str, arguments))  # only a training drops
    changes = [key for key in keys if not is_fine.get(key, key in _FREE_ARGUMENTS or "drop" in key)]
    if changes:
        raise CheckpointError(f"{source} changes timm's {name} by {', '.join(changes)}", _FIX)
    # timm raises many kinds for sizes that it cannot build
    with explained(CheckpointError, f"{source} changes timm's {name}", _FIX, Exception):
        return named_model(name, size, pool)


def arguments_of(settings: Config) -> dict[str, Any]:
    """Arguments of timm.create_model that the settings of a training state: image size, pooling, other changes."""
    sizes = map(settings.get, SIZE_KEYS)
    size = next((size for size in sizes if size and isinstance(size, int | list | tuple)), None)
    arguments: dict[str, Any] = {"img_size": size if isinstance(size, int | None) else size[-2:]}
    if settings.keys() >= TIMM_SETTINGS:
        arguments |= {"global_pool": settings.get("gp")} | {key: settings.get(key) for key in ("bn_eps", "in_chans")}
        arguments |= settings.get("model_kwargs") or {}
    return {key: value for key, value in arguments.items() if value not in (None, "")}


def facts_of_file(path: Path, file: WeightsFile, network: str | None) -> StatedFacts:
    """What a file, its name and the user say of its weights."""
    stated = file.stated
    published, size, facts = published_file(path.name) or ("", None, StatedFacts())
    stem = stem_of(path.name)
    candidates = [(published, ""), (network or "", "--network"), *((one, "the file") for one in stated.networks)]
    candidates = [(one, named_by) for one, named_by in (*candidates, (stem, "")) if one]
    known = [(timm_name(one) or one, named_by) for one, named_by in candidates]
    name, named_by = next((one for one in known if is_of_timm(one[0])), ("", ""))
    if not name and (lacking := next((one for one, _ in candidates if is_of_torchvision_alone(one)), "")):
        fix = f"give --init_from weights of another network; torchvision itself computes {lacking}"
        raise CheckpointError(f"{path}: timm has no network that computes what torchvision's {lacking} does", fix)
    try:
        arguments = arguments_of(stated.settings) | ({"img_size": size} if size else {})
        model = model_with(str(path), name, arguments) if name else None
        base = {} if model is None else model.config
        values, program = preprocess_config.from_settings(stated.settings, base)
    except CheckpointError:
        raise
    except Exception as error:  # an untrusted file may hold anything
        problem = f"{path} has settings that cannot be used: {first_line(error)}"
        raise CheckpointError(problem, "give other weights") from error
    stated.check_pixels(str(path))
    names = stated.class_names(str(path))
    by_name = model is not None and not named_by and is_published(model, name, file.weights)
    preprocess = StatedPreprocess(values, f"{program or 'settings'} in the file") if values else facts.preprocess
    return replace(
        facts, model=model, named_by=named_by, is_exact=facts.is_exact or by_name, preprocess=preprocess,
        class_names=facts.class_names if names is None else names,
        has_size="img_size" in arguments or program == TIMM_PROGRAM,
    )  # fmt: skip


def published_file(file_name: str) -> tuple[str, int | None, StatedFacts] | None:
    """(name of the model, side of its images, facts) of weights that a library publishes in a file of this name.

    The name tells more than that of a network: a ResNet-50 of torchvision and one of timm have other preprocessing.
    A side of None: timm's configuration has it. None: no table of addresses has the name.
    """
    from torchvision import models

    stem = file_name.partition(".")[0] if file_name.count(".") == 1 else file_name.rpartition(".")[0]
    for model in models.list_models(module=models):
        for weights in models.get_model_weights(model):
            if weights.url.rpartition("/")[2].rpartition(".")[0] == stem:
                return model, *_of_torchvision(weights)
    timm = import_timm()
    for name in timm.list_pretrained():
        config = timm.models.get_pretrained_cfg(name)
        if config is not None and config.url and config.url.rpartition("/")[2].rpartition(".")[0] == stem:
            return name, None, StatedFacts(is_exact=True)
    return None


def from_torchvision(name: str) -> tuple[Weights, StatedFacts]:
    """Weights of torchvision by a model's name (vit_b_16) or a set's (ViT_B_16_Weights.IMAGENET1K_V1)."""
    from torchvision import models

    model_name, _, set_name = name.partition(".")
    known = [model for model in models.list_models(module=models) if model.startswith("vit") or timm_name(model)]
    model_name = {models.get_model_weights(model).__name__: model for model in known}.get(model_name, model_name)
    if model_name not in known:
        lacks = f"timm has no network that computes what torchvision's {name} does"
        problem = lacks if name in models.list_models(module=models) else f"torchvision has no network {name!r}"
        raise UsageError(problem, nearest(name, known))
    sets = models.get_model_weights(model_name)
    if set_name and set_name not in sets.__members__:
        raise UsageError(f"torchvision's {model_name} has no weights {set_name!r}", nearest(set_name, sets.__members__))
    weights = sets[set_name] if set_name else sets.DEFAULT
    state = dict(fetched(f"torchvision:{name}", lambda: weights.get_state_dict(progress=False, check_hash=True)))
    size, facts = _of_torchvision(weights)
    if not timm_name(model_name):
        return state, facts
    return timm_weights(model_name, state, size), replace(facts, model=named_model(timm_name(model_name), size))


def _of_torchvision(weights: Any) -> tuple[int, StatedFacts]:
    """(side of the images, facts) of a set of torchvision's weights."""
    seen = weights.transforms()
    values: PreprocessValues = {
        "mean": tuple(seen.mean),
        "std": tuple(seen.std),
        "interpolation": seen.interpolation.value,
        "crop_fraction": seen.crop_size[0] / seen.resize_size[0],
    }
    terms = _SWAG if "license" in weights.meta else _TORCHVISION  # those with one of their own are all of SWAG
    preprocess, names = StatedPreprocess(values, "torchvision's weights"), tuple(weights.meta["categories"])
    return seen.crop_size[0], StatedFacts(is_exact=True, preprocess=preprocess, class_names=names, license=terms)


def _labels(config: Config) -> tuple[str, ...] | None:
    """Class names of a config.json; None without any, or with LABEL_0. `label_descriptions` may explain identifiers."""
    about = config.get("pretrained_cfg")
    stated = Stated({"pretrained_cfg": about if isinstance(about, Mapping) else {}, "": config})
    names, about = stated.class_names("config.json"), stated.settings.get("label_descriptions")
    if not names or not isinstance(about, Mapping):
        return names
    described = tuple(str(about.get(name)) for name in names)
    return described if len(set(described)) == len(names) and are_numbers(names) else names
