"""What stands beside weights: configs in a folder, as transformers, timm and OpenCLIP write them; settings in a file"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vit.checkpoints.format import MAX_SIDE
from vit.data.pixels.preprocess import COLORS
from vit.errors import CheckpointError
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task
from vit.weights.file import WeightsFile, read_config
from vit.weights.formats.weight_format import TimmModel
from vit.weights.license import UNKNOWN, license_of_card
from vit.weights.named_model import is_of_timm, is_published, named_model, published_file, stem_of
from vit.weights.preprocess_config import (
    TIMM_PROGRAM,
    TIMM_SETTINGS,
    Config,
    StatedPreprocess,
    from_hugging_face_config,
    from_open_clip_config,
    from_settings,
    from_timm_config,
)
from vit.weights.pretrained import are_numbers
from vit.weights.torchvision_networks import is_of_torchvision_alone, timm_name
from vit.weights.trainer_file import listed_names

_FIX = "give the weights of a model as timm builds it"
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
    # whether the classifier gives an image one class or several labels, as transformers states it
    task: Task = SINGLE_LABEL
    license: str = UNKNOWN  # license that the card states; "not stated" where it is unknown
    has_size: bool = False  # whether the image size is stated, which a network without positions does not show


def read_folder(folder: Path) -> StatedFacts:
    """The configs of a folder with weights; CheckpointError where one cannot be read, or is not supported."""
    config = read_config(folder / "config.json")
    open_clip, preprocessor = (read_config(folder / f"{name}_config.json") for name in ("open_clip", "preprocessor"))
    preprocess = None
    try:
        if preprocessor:
            preprocess = StatedPreprocess(
                from_hugging_face_config(preprocessor, str(config.get("model_type"))), "preprocessor_config.json"
            )
        elif "pretrained_cfg" in config:
            preprocess = StatedPreprocess(from_timm_config(config["pretrained_cfg"]), "config.json")
        elif "preprocess_cfg" in open_clip:
            preprocess = StatedPreprocess(from_open_clip_config(open_clip["preprocess_cfg"]), "open_clip_config.json")
    except Exception as error:  # an untrusted file may hold anything
        raise CheckpointError(
            f"{folder} has preprocessing that cannot be used: {error!r}", "change its config to what is supported"
        ) from error
    model = _model(folder, config, open_clip)
    return StatedFacts(
        {**config, **open_clip},
        model,
        "config.json",
        preprocess=preprocess,
        class_names=_labels(config),
        task=MULTI_LABEL if config.get("problem_type") == "multi_label_classification" else SINGLE_LABEL,
        license=license_of_card(folder),
        has_size=bool(config.get("pretrained_cfg")),
    )


def _model(folder: Path, config: Config, open_clip: Config) -> TimmModel | None:
    """The model of timm that a folder names, if it names one."""
    try:
        tower = open_clip.get("model_cfg", {}).get("vision_cfg", {}).get("timm_model_name")
        size = (config.get("pretrained_cfg") or {}).get("input_size")
        arguments = {**({"img_size": size[-2:]} if size else {}), **(config.get("model_args") or {})}
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder} has a config that cannot be used: {error}", "download it again") from error
    name = str(config.get("architecture") or tower or "")
    if not name:
        return None
    model = model_with(f"{folder} (config.json)", name, arguments)
    if model is None:
        raise CheckpointError(f"{folder} is for {name!r}, which this version of timm does not have", "upgrade timm")
    return model


def model_with(source: str, name: str, arguments: Config) -> TimmModel | None:
    """The model of timm that a program builds with these arguments; None where timm does not have the name.

    CheckpointError: an argument makes another network of it, whose tensors may have the same shapes.
    """
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
    other = [key for key in keys if not is_fine.get(key, key in _FREE_ARGUMENTS or "drop" in key)]
    if other:
        raise CheckpointError(f"{source} changes timm's {name} by {', '.join(other)}", _FIX)
    try:
        return named_model(name, size, pool)
    except Exception as error:  # timm raises many kinds for sizes that it cannot build
        raise CheckpointError(f"{source} changes timm's {name}: {error}", _FIX) from error


def arguments_of(settings: Config) -> dict[str, Any]:
    """Arguments of timm.create_model that the settings of a training state: image size, pooling, other changes."""
    sizes = (settings.get(key) for key in ("input_size", "img_size", "image_size", "val_crop_size"))
    size = next((size for size in sizes if size and isinstance(size, int | list | tuple)), None)
    found: dict[str, Any] = {"img_size": size if isinstance(size, int | None) else size[-2:]}
    if settings.keys() >= TIMM_SETTINGS:
        found |= {"global_pool": settings.get("gp"), "bn_eps": settings.get("bn_eps")}
        found |= settings.get("model_kwargs") or {}
    return {key: value for key, value in found.items() if value not in (None, "")}


def facts_of_file(path: Path, file: WeightsFile, network: str | None) -> StatedFacts:
    """What a file, its name and the user say of its weights."""
    published, stated = published_file(path.name), file.stated
    candidates = [(published.model, "")] if published is not None else []
    candidates += [(network, "--network")] if network else []
    candidates += [*((name, "the file") for name in stated.networks), (stem_of(path.name), "")]
    known = [(timm_name(name) or name, named_by) for name, named_by in candidates]
    name, named_by = next((one for one in known if is_of_timm(one[0])), ("", ""))
    if not name and (lacking := next((one for one, _ in candidates if is_of_torchvision_alone(one)), "")):
        fix = f"give --init_from weights of another network; torchvision itself computes {lacking}"
        raise CheckpointError(f"{path}: timm has no network that computes what torchvision's {lacking} does", fix)
    try:
        arguments = arguments_of(stated.settings)
        if published is not None and published.image_size:
            arguments["img_size"] = published.image_size
        model = model_with(str(path), name, arguments) if name else None
        values, program = from_settings(stated.settings, {} if model is None else model.config)
    except CheckpointError:
        raise
    except Exception as error:  # an untrusted file may hold anything
        raise CheckpointError(f"{path} has settings that cannot be used: {error!r}", "give other weights") from error
    by_name = model is not None and not named_by and is_published(model, name, file.weights)
    preprocess = StatedPreprocess(values, f"{program or 'settings'} in the file") if values else None
    if preprocess is None and published is not None and published.preprocess:
        preprocess = StatedPreprocess(published.preprocess, "torchvision's weights")
    names = stated.class_names or (None if published is None else published.class_names)
    return StatedFacts(
        model=model,
        named_by=named_by,
        is_exact=published is not None or by_name,
        preprocess=preprocess,
        class_names=names,
        license=UNKNOWN if published is None else published.license,
        has_size="img_size" in arguments or program == TIMM_PROGRAM,
    )


def _labels(config: Config) -> tuple[str, ...] | None:
    """Class names of a config.json; None without any, or with LABEL_0. `label_descriptions` may explain identifiers."""
    stated = config.get("pretrained_cfg")
    cfg: Config = {**stated, **config} if isinstance(stated, Mapping) else config
    keys = ("id2label", "label2id", "label_names", "labels")
    names = next((names for key in keys if (names := listed_names(cfg.get(key)))), None)
    if names is None or names[0] == "LABEL_0":
        return None
    numbers = cfg.get("label2id")
    if isinstance(numbers, Mapping) and set(numbers) == set(names) and listed_names(numbers) not in (None, names):
        problem = "config.json: id2label and label2id number the classes in different orders"
        raise CheckpointError(problem, "correct one of them, or remove label2id")
    about = cfg.get("label_descriptions")
    described = tuple(str(about.get(name)) for name in names) if isinstance(about, Mapping) else ()
    return described if len(set(described)) == len(names) and are_numbers(names) else names
