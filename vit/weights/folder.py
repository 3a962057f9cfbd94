"""The configs beside weights in a folder, as transformers, timm and OpenCLIP write them"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vit.checkpoints.format import MAX_SIDE
from vit.data.pixels.preprocess import COLORS
from vit.errors import CheckpointError
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task
from vit.weights.file import read_config
from vit.weights.formats.timm_model import TimmModel
from vit.weights.license import UNKNOWN, license_of_card
from vit.weights.named_model import named_model
from vit.weights.preprocess_config import (
    Config,
    StatedPreprocess,
    from_hugging_face_config,
    from_open_clip_config,
    from_timm_config,
)
from vit.weights.pretrained import are_numbers
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


def read_folder(folder: Path) -> StatedFacts:
    """The configs of a folder with weights.

    Raises:
        CheckpointError: one of them cannot be read, or asks for something that is not supported.
    """
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
    )


def _model(folder: Path, config: Config, open_clip: Config) -> TimmModel | None:
    """The model of timm that a folder names, if it names one."""
    try:
        tower = open_clip.get("model_cfg", {}).get("vision_cfg", {}).get("timm_model_name")
        arguments = dict(config.get("model_args") or {})
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder} has a config that cannot be used: {error}", "download it again") from error
    name = str(config.get("architecture") or tower or "")
    if not name:
        return None
    size, pool = arguments.get("img_size"), arguments.get("global_pool")
    if isinstance(size, list) and len(size) == 2 and size[0] == size[1]:
        size = size[0]
    is_fine = {  # timm 1.0.31 states these also where they are as it builds the model
        "img_size": size is None or (type(size) is int and 0 < size <= MAX_SIDE),
        "in_chans": arguments.get("in_chans") in (None, COLORS),
        "global_pool": pool is None or isinstance(pool, str),
        "num_classes": True,  # the classifier shows it
    }
    other = [key for key in sorted(map(str, arguments)) if not is_fine.get(key, key in _FREE_ARGUMENTS)]
    if other:
        raise CheckpointError(f"{folder} changes timm's {name} by {', '.join(other)} (model_args in config.json)", _FIX)
    try:
        model = named_model(name, size, pool)
    except ValueError as error:
        raise CheckpointError(f"{folder} changes timm's {name} (model_args in config.json): {error}", _FIX) from error
    if model is None:
        raise CheckpointError(f"{folder} is for {name!r}, which this version of timm does not have", "upgrade timm")
    return model


def _labels(config: Config) -> tuple[str, ...] | None:
    """Class names of a config.json of transformers or timm; None without any, or with LABEL_0, LABEL_1, ...

    timm's `label_names` may be identifiers, such as those of WordNet, that `label_descriptions` explains.
    """
    stated = config.get("pretrained_cfg")
    cfg: Config = {**stated, **config} if isinstance(stated, Mapping) else config
    names = listed_names(cfg.get("id2label")) or listed_names(cfg.get("label_names")) or listed_names(cfg.get("labels"))
    if names is None or names[0] == "LABEL_0":
        return None
    about = cfg.get("label_descriptions")
    described = tuple(str(about.get(name)) for name in names) if isinstance(about, Mapping) else ()
    return described if len(set(described)) == len(names) and are_numbers(names) else names
