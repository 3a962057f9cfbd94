"""The configs beside weights in a folder, as transformers, timm and OpenCLIP write them"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vit.checkpoints.format import MAX_SIDE
from vit.errors import CheckpointError
from vit.weights.file import read_config
from vit.weights.formats.timm_model import TimmModel
from vit.weights.licence import UNKNOWN, licence_of_card
from vit.weights.named_model import named_model
from vit.weights.preprocess_config import (
    Config,
    StatedPreprocess,
    from_hugging_face_config,
    from_open_clip_config,
    from_timm_config,
)

_FREE_ARGUMENTS = {"dynamic_img_size", "dynamic_img_pad", "strict_img_size"}  # of timm; one size is used here


@dataclass(frozen=True)
class FolderConfig:
    """Facts about weights that stand beside them.

    Attributes:
        config: config.json and open_clip_config.json as one.
        model: model of timm that is named; None: none is.
        preprocess: preprocessing that is stated; None: none is.
        class_names: names of the classes; None: unknown.
        is_multilabel: whether the classifier gives an image several labels, as transformers states it.
        licence: licence that the card states; "not stated" where it is unknown.
    """

    config: Config = field(default_factory=dict)
    model: TimmModel | None = None
    preprocess: StatedPreprocess | None = None
    class_names: tuple[str, ...] | None = None
    is_multilabel: bool = False
    licence: str = UNKNOWN


def read_folder(folder: Path) -> FolderConfig:
    """The configs of a folder with weights.

    Raises:
        CheckpointError: one of them cannot be read, or asks for something that is not supported.
    """
    config = read_config(folder / "config.json")
    open_clip, preprocessor = (read_config(folder / f"{name}_config.json") for name in ("open_clip", "preprocessor"))
    preprocess = None
    try:
        if preprocessor:
            preprocess = StatedPreprocess(from_hugging_face_config(preprocessor), "preprocessor_config.json")
        elif "pretrained_cfg" in config:
            preprocess = StatedPreprocess(from_timm_config(config["pretrained_cfg"]), "config.json")
        elif "preprocess_cfg" in open_clip:
            preprocess = StatedPreprocess(from_open_clip_config(open_clip["preprocess_cfg"]), "open_clip_config.json")
    except Exception as error:  # an untrusted file may hold anything
        raise CheckpointError(
            f"{folder} has preprocessing that cannot be used: {error!r}", "change its config to what is supported"
        ) from error
    is_multilabel = config.get("problem_type") == "multi_label_classification"
    model = _model(folder, config, open_clip)
    return FolderConfig(
        {**config, **open_clip}, model, preprocess, _labels(config), is_multilabel, licence_of_card(folder)
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
    size = arguments.pop("img_size", None)
    other = sorted(map(str, arguments.keys() - _FREE_ARGUMENTS))
    if other or not (size is None or (type(size) is int and 0 < size <= MAX_SIDE)):
        raise CheckpointError(
            f"{folder} changes timm's {name} by {', '.join(other or ['img_size'])} (model_args in config.json)",
            "give the weights of a model as timm builds it",
        )
    model = named_model(name, size)
    if model is None:
        raise CheckpointError(f"{folder} is for {name!r}, which this version of timm does not have", "upgrade timm")
    return model


def _labels(config: Config) -> tuple[str, ...] | None:
    """Class names of a config.json; None without any, or with the placeholders LABEL_0, LABEL_1, ..."""
    labels = config.get("id2label")
    if not isinstance(labels, Mapping) or not all(str(key).isdigit() for key in labels):
        return None
    names = tuple(str(labels[key]) for key in sorted(labels, key=lambda key: int(key)))
    return None if names[:1] == ("LABEL_0",) else names
