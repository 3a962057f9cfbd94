"""Weights to start from, opened by path or by name (timm:, torchvision:, hf:)"""

import json
import re
from dataclasses import replace
from pathlib import Path

from vit.checkpoints.format import KEY, Description, read_description
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.load import expected_weights, read_described
from vit.checkpoints.model_path import check_local
from vit.checkpoints.run import start_of
from vit.data.preprocess import COLORS
from vit.errors import CheckpointError, first_line
from vit.models.catalog import CATALOG
from vit.models.options import Options, Value
from vit.weights.file import FOLDER_FILES, read_metadata, read_weights_file
from vit.weights.folder import FolderConfig, read_folder
from vit.weights.formats import eva
from vit.weights.formats.detect import NetworkOfTimmError, convert_weights
from vit.weights.formats.timm_model import TimmModel
from vit.weights.formats.weight_format import Converted, Weights
from vit.weights.hubs import from_hugging_face, from_timm, from_torchvision
from vit.weights.licence import UNKNOWN, licence_of
from vit.weights.named_model import named_model
from vit.weights.preprocess_config import PreprocessValues, StatedPreprocess, from_timm_config
from vit.weights.pretrained import OwnNetwork, Pretrained, imagenet_classes

_PREFIX = "model."  # of the tensors of a network of timm inside ours
_DEIT3 = re.compile(r"deit_?3")  # as Meta names its files
_HASH_AND_ENDING = re.compile(r"(-[0-9a-f]{8})?(\.(safetensors|pth|pt|bin|npz|tar|ckpt))*$")


def open_pretrained(source: str) -> Pretrained:
    """Weights of a file, a folder, a run, or a library's model by its name.

    Args:
        source: a path, timm:NAME, torchvision:NAME or hf:ORG/NAME.

    Raises:
        CheckpointError: the weights cannot be read, or are of an unknown format.
        ResourceError: the weights cannot be fetched.
        UsageError: a library has no model of that name.
    """
    library, _, name = source.partition(":")
    if library == "timm":
        weights = from_timm(name)
        return _foreign(source, weights, FolderConfig(model=named_model(name)))
    if library == "torchvision":
        fetched = from_torchvision(name)
        stated = StatedPreprocess(fetched.preprocess, "torchvision's weights")
        return _foreign(source, fetched.weights, FolderConfig(preprocess=stated, class_names=fetched.class_names))
    path = from_hugging_face(name) if library == "hf" else Path(source).expanduser()
    if path.is_dir() and any((path / file).is_file() for file in ("config.json", *FOLDER_FILES)):
        found = _foreign(source, read_weights_file(path), read_folder(path))
        return _with_own_rules(found, path / "model.safetensors")
    path = start_of(path)
    if path.suffix == ".ckpt":
        return _checkpoint(source, path)
    check_local(path)
    if path.suffix == ".safetensors" and path.is_file() and KEY in (metadata := read_metadata(path)):
        return _exported(source, path, metadata[KEY])
    model = named_model(_HASH_AND_ENDING.sub("", path.name))
    return _foreign(source, read_weights_file(path), FolderConfig(model=model))


def _checkpoint(source: str, path: Path) -> Pretrained:
    """A checkpoint of ours: its description says everything."""
    description, weights = read_described(path)
    expected_weights(description, len(weights), path)
    return _described(source, "vit", weights, description, "the checkpoint")


def _exported(source: str, path: Path, words: str) -> Pretrained:
    """A file of `vit export`: its description says everything but how tensors are held."""
    description, weights = _description(path, words), read_weights_file(path)
    expected_weights(description, len(weights), path)
    options = description.spec.options
    if "rope2d" in str(options.get("pos_embed")):
        weights = eva.own_names(weights)  # a file for timm has timm's names
    found = _described(source, "vit export", weights, description, "the file")
    if not description.class_names:
        return replace(found, format="vit pretrain")
    if description.spec.name not in CATALOG:  # a file for timm has timm's names
        is_ours = all(name.startswith(_PREFIX) for name in weights)
        return found if is_ours else replace(found, weights={_PREFIX + name: value for name, value in weights.items()})
    is_fixed = options.get("pos_embed") == "sincos2d" and "pos_embed" in weights  # fixed positions as a tensor
    held: Options = {"pos_embed": "learned"} if is_fixed else {}
    network = OwnNetwork(description.spec.name, description.preprocess.image_size, {**options, **held})
    return replace(found, network=network)


def _with_own_rules(found: Pretrained, path: Path) -> Pretrained:
    """The weights of a folder with the thresholds and scores that `vit export` wrote into their file, if it did."""
    if not path.is_file() or KEY not in (metadata := read_metadata(path)):
        return found
    description = _description(path, metadata[KEY])
    if description.class_names != found.class_names:
        return found
    return replace(
        found,
        multilabel=description.multilabel,
        temperature=description.temperature,
        validation_scores=description.validation_scores,
    )


def _description(path: Path, words: str) -> Description:
    """The description in a file of `vit export`; CheckpointError where it is broken."""
    try:
        plain = json.loads(words)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} has a broken description: {first_line(error)}", "export it again") from error
    return read_description(plain, path, "export it again")


def _described(source: str, format: str, weights: Weights, description: Description, told_by: str) -> Pretrained:
    preprocess, class_names = description.preprocess, description.class_names
    values: PreprocessValues = {
        "crop_fraction": preprocess.crop_fraction,
        "mean": preprocess.mean,
        "std": preprocess.std,
        "interpolation": preprocess.interpolation,
        "resize_mode": preprocess.resize_mode,
    }
    if preprocess.window is not None:
        values["window"] = preprocess.window
    if preprocess.channels != COLORS:
        values["channels"] = preprocess.channels
    network = OwnNetwork(description.spec.name, preprocess.image_size, description.spec.options)
    return Pretrained(
        source, format, weights, len(class_names), class_names, values, told_by, network=network,
        multilabel=description.multilabel, temperature=description.temperature,
        validation_scores=description.validation_scores, licence=description.licence or UNKNOWN,
    )  # fmt: skip


def _foreign(source: str, weights: Weights, told: FolderConfig) -> Pretrained:
    """Foreign weights with what a library or a config says of them, else with the defaults of their format."""
    model = told.model
    if model is not None and model.options is None:
        return _of_timm(source, weights, model, told)
    try:
        found, converted = convert_weights(weights, told.config)
    except NetworkOfTimmError as error:
        raise CheckpointError(f"{source}: {error}", error.fix) from error
    except ValueError as error:
        fix = "give the weights of a plain ViT, or timm:NAME"
        raise CheckpointError(f"{source}: {first_line(error)}", fix) from error
    named = _options_of_model(model, converted)
    if converted.doubt and named is None and not _is_deit3(source, converted):
        raise CheckpointError(
            f"{source}: names and shapes fit a plain ViT, and {converted.doubt} as well",
            "rename the file as timm names the model, or give a folder with timm's config.json, or timm:NAME",
        )
    stated = told.preprocess
    if stated is None and named is not None and model is not None:
        stated = StatedPreprocess(from_timm_config(model.config), _told_by(model))
    stated = stated or StatedPreprocess(converted.preprocess, f"the default of {found.name} weights")
    head = converted.weights.get("head.weight")
    num_classes = 0 if head is None else len(head)
    return Pretrained(
        source,
        found.name,
        converted.weights,
        num_classes,
        _class_names(told.class_names, num_classes),
        stated.values,
        stated.source,
        converted.dropped,
        options={**converted.options, **(named or {})},
        image_size=model.image_size if named is not None and model is not None else None,
        undecided=converted.undecided,
        multilabel=LabelRules.unfitted(num_classes) if told.is_multilabel and num_classes else None,
        licence=_licence(told, model if named is not None else None),
    )


def _is_deit3(source: str, converted: Converted) -> bool:
    return _DEIT3.search(Path(source).name) is not None and "pos_embed" in converted.weights


def _options_of_model(model: TimmModel | None, converted: Converted) -> dict[str, Value] | None:
    """The options that timm's model of the file's name has; None where only the name is that of a model of timm."""
    kernel = converted.weights.get("patch_embed.proj.weight")
    if model is None or model.options is None or kernel is None or model.options["embed_dim"] != kernel.shape[0]:
        return None
    has_head = "head.weight" in converted.weights
    left_out = {"embed_dim"} if has_head else {"embed_dim", "pool"}
    named = {name: value for name, value in model.options.items() if name not in left_out}
    return {**named, "activation": named.get("activation", converted.options.get("activation", "gelu"))}


def _of_timm(source: str, weights: Weights, model: TimmModel, told: FolderConfig) -> Pretrained:
    """Weights of a model of timm that is not a plain ViT: timm's own network computes with them."""
    try:
        own, num_classes = model.weights_of(weights)
    except ValueError as error:
        raise CheckpointError(
            f"{source} is named as timm's {model.name}, whose tensors are others: {error}",
            f"rename the file if it is another network, or give timm:{model.name}",
        ) from error
    stated = told.preprocess or StatedPreprocess(from_timm_config(model.config), _told_by(model))
    return Pretrained(
        source,
        "timm",
        {f"{_PREFIX}{key}": value for key, value in own.items()},
        num_classes,
        _class_names(told.class_names, num_classes),
        stated.values,
        stated.source,
        network=OwnNetwork(model.name, model.image_size),
        licence=_licence(told, model),
    )


def _told_by(model: TimmModel) -> str:
    """timm's words for a preprocessing, with the tag of the weights: timm has one where a file's name has none."""
    tag = model.config.get("tag")
    return f"timm's configuration of {model.name}" + f".{tag}" * bool(tag)


def _licence(told: FolderConfig, model: TimmModel | None) -> str:
    """The licence on the card beside the weights; without a card, the one that timm states for the model."""
    return licence_of(model) if told.licence == UNKNOWN else told.licence


def _class_names(told: tuple[str, ...] | None, num_classes: int) -> tuple[str, ...] | None:
    """The names that a config tells, where they are as many as the classes; else those of ImageNet, if they fit."""
    return told if told and len(told) == num_classes else imagenet_classes(num_classes)
