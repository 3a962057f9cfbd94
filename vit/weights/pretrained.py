"""Pretrained weights from anywhere: what they are, the network they need, their preprocessing and their class names."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from vit.checkpoints.format import (
    KEY,
    PREFIX,
    Description,
    check_local,
    checked_network,
    description_of,
    first_line,
    read,
)
from vit.checkpoints.run import checkpoint_of
from vit.errors import CheckpointError
from vit.models.catalog import CATALOG
from vit.models.vision_transformer import VisionTransformer
from vit.weights.file import FOLDER_FILES, read_metadata, read_weights_file
from vit.weights.folder import read_folder
from vit.weights.formats.find import read_weights
from vit.weights.formats.reading import options_of
from vit.weights.formats.timm_models import TimmModel, timm_model
from vit.weights.hubs import from_hugging_face, from_timm, from_torchvision
from vit.weights.preprocess_config import from_timm_config

_SIZE = ("patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio")
_NOT_SHOWN = ("num_heads", "activation", "layer_scale", "pool", "norm_placement", "norm_eps")  # by shapes, of a ViT
_DEIT3 = re.compile(r"deit_?3")  # as Meta names its files
_TELL = "set it with --model.network.NAME ('vit convert': --NAME), or rename the file as timm names the model"
_HASH_AND_ENDING = re.compile(r"(-[0-9a-f]{8})?(\.\w+)*$")


@dataclass(frozen=True)
class Pretrained:
    """Weights to start from.

    Attributes:
        where: as the user gave it.
        dialect: whose names the weights had.
        weights: in our names.
        num_classes: of their classifier; 0: they have none.
        class_names: their names; None: unknown.
        preprocess: mean, std, interpolation, crop_fraction, as `Preprocess` takes them.
        preprocess_from: who said so.
        dropped: foreign names that have no place in a network of ours, and why.
        described: the network's description where it is known; {}: shapes and `known` show it.
        known: values of the network that shapes do not show.
        undecided: values of the network that nothing shows, and that published networks choose differently.
    """

    where: str
    dialect: str
    weights: dict[str, Tensor]
    num_classes: int
    class_names: tuple[str, ...] | None
    preprocess: dict[str, Any]
    preprocess_from: str
    dropped: dict[str, str] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for the terminal."""
        values = ", ".join(f"{name} {_short(value)}" for name, value in self.preprocess.items())
        return [("names", self.dialect), ("preprocessing", f"{values} ({self.preprocess_from})")]

    def network(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The description of the network that these weights are for: {"name", "image_size", values...}.

        Args:
            given: values that the user has set; they stand above what shapes and configs say.

        Raises:
            CheckpointError: the weights do not say enough, or are no ViT's.
        """
        if self.described:
            return {**self.described, **(given or {})}
        known = {**self.known, **(given or {})}
        missing = [name for name in self.undecided if name not in known]
        if missing:
            raise CheckpointError(f"{self.where}: names and shapes do not show its {' and '.join(missing)}", _TELL)
        try:
            values = options_of(self.weights, known)
        except Exception as error:
            raise CheckpointError(f"{self.where}: {first_line(error)}", _TELL) from error
        return {"name": _catalog_name(values), **values}


def open_pretrained(source: str) -> Pretrained:
    """Weights of a file, a folder, a run, or a library's model by its name.

    Args:
        source: a path, timm:NAME, torchvision:NAME or hf:ORG/NAME.

    Raises:
        CheckpointError: the weights cannot be read, or are of no dialect that is known.
        ResourceError: they cannot be fetched.
        UsageError: a library has no model of that name.
    """
    library, _, name = source.partition(":")
    if library == "timm":
        return _from_timm(source, name)
    if library == "torchvision":
        fetched = from_torchvision(name)
        return _foreign(
            source, fetched.weights, {}, None, (fetched.preprocess, "torchvision's weights"), fetched.class_names
        )
    path = from_hugging_face(name) if library == "hf" else Path(source).expanduser()
    if path.is_dir() and any((path / file).is_file() for file in ("config.json", *FOLDER_FILES)):
        return _from_folder(source, path)
    path = checkpoint_of(path)
    if path.suffix == ".ckpt":
        return _own(source, path)
    check_local(path)
    if path.suffix == ".safetensors" and path.is_file() and KEY in (metadata := read_metadata(path)):
        return _exported(source, path, metadata[KEY])
    return _foreign(source, read_weights_file(path), {}, timm_model(_HASH_AND_ENDING.sub("", path.name)))


def _own(source: str, path: Path) -> Pretrained:
    content = read(path)
    description = description_of(content, path)
    weights = {key.removeprefix(PREFIX): v for key, v in content["state_dict"].items() if key.startswith(PREFIX)}
    checked_network(description, len(weights), path)
    preprocess = {key: value for key, value in vars(description.preprocess).items() if key != "image_size"}
    described = {key: value for key, value in description.network.items() if key not in ("num_classes", "model")}
    class_names = description.class_names
    return Pretrained(
        source, "vit", weights, len(class_names), class_names, preprocess, "the checkpoint", described=described
    )


def _exported(source: str, path: Path, words: str) -> Pretrained:
    """What `vit export` has written: its description says what shapes do not."""
    try:
        description = Description.from_dict(json.loads(words))
    except Exception as error:  # an untrusted file may hold anything
        raise CheckpointError(f"{path} has a broken description: {first_line(error)}", "export it again") from error
    weights, network, class_names = read_weights_file(path), description.network, description.class_names
    checked_network(description, len(weights), path)
    preprocess = {key: value for key, value in vars(description.preprocess).items() if key != "image_size"}
    known = {name: network[name] for name in _NOT_SHOWN if name in network}
    described = {} if known else {key: value for key, value in network.items() if key not in ("num_classes", "model")}
    return Pretrained(
        source,
        "vit export",
        weights,
        len(class_names),
        class_names,
        preprocess,
        "the file",
        described=described,
        known=known,
    )


def _from_timm(source: str, name: str) -> Pretrained:
    weights = from_timm(name)
    model = timm_model(name)
    assert model is not None
    return _foreign(source, weights, {}, model)


def _from_folder(source: str, folder: Path) -> Pretrained:
    told = read_folder(folder)
    return _foreign(source, read_weights_file(folder), told.config, told.model, told.preprocess, told.class_names)


def _foreign(
    source: str,
    weights: dict[str, Tensor],
    config: Mapping[str, Any],
    model: TimmModel | None,
    preprocess: tuple[dict[str, Any], str] | None = None,
    class_names: tuple[str, ...] | None = None,
) -> Pretrained:
    """Foreign weights with what a library or a config says of them; else the dialect's defaults."""
    if model is not None and model.values is None:
        return _of_timm(source, weights, model, preprocess, class_names)
    try:
        dialect, reading = read_weights(weights, config)
    except ValueError as error:
        raise CheckpointError(f"{source}: {first_line(error)}", "give the weights of a plain ViT") from error
    known, kernel = dict(reading.values), reading.weights.get("patch_embed.proj.weight")
    is_named = _DEIT3.search(Path(source).name) is not None and "pos_embed" in reading.weights
    if model is not None and model.values is not None and kernel is not None:
        values = dict(model.values)
        if values.pop("embed_dim") == kernel.shape[0]:  # else only the name is that of a model of timm
            is_named = True
            known |= {key: value for key, value in values.items() if key != "pool" or "head.weight" in reading.weights}
            known.setdefault("activation", "gelu")
            preprocess = preprocess or (from_timm_config(model.config), f"timm's configuration of {model.name}")
    if reading.doubt and not is_named:
        raise CheckpointError(
            f"{source}: names and shapes fit a plain ViT, and {reading.doubt} as well",
            "rename the file as timm names the model, or give a folder with timm's config.json, or timm:NAME",
        )
    head = reading.weights.get("head.weight")
    outputs = 0 if head is None else len(head)
    return Pretrained(
        source,
        dialect.name,
        reading.weights,
        outputs,
        class_names if class_names and len(class_names) == outputs else imagenet_classes(outputs),
        *(preprocess or (reading.preprocess, f"the default of {dialect.name} weights")),
        reading.dropped,
        known=known,
        undecided=reading.undecided,
    )


def _of_timm(
    source: str,
    weights: dict[str, Tensor],
    model: TimmModel,
    preprocess: tuple[dict[str, Any], str] | None,
    class_names: tuple[str, ...] | None,
) -> Pretrained:
    """Weights of a model of timm that is not a plain ViT: timm's own network computes with them."""
    try:
        own, outputs = model.weights_of(weights)
    except ValueError as error:
        raise CheckpointError(
            f"{source} is named as timm's {model.name}, whose tensors are others: {error}",
            f"rename the file if it is another network, or give timm:{model.name}",
        ) from error
    return Pretrained(
        source,
        "timm",
        {f"model.{key}": value for key, value in own.items()},
        outputs,
        class_names if class_names and len(class_names) == outputs else imagenet_classes(outputs),
        *(preprocess or (from_timm_config(model.config), f"timm's configuration of {model.name}")),
        described={"name": model.name, "image_size": model.image_size},
    )


def _short(value: Any) -> str:
    """A value of the preprocessing for the terminal; numbers with four digits."""
    if isinstance(value, tuple | list):
        return " ".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def imagenet_classes(outputs: int) -> tuple[str, ...] | None:
    """The names of ImageNet's 1,000 classes in their usual order; None for another number of outputs."""
    if outputs != 1000:
        return None
    from torchvision.models import ViT_B_16_Weights

    return tuple(ViT_B_16_Weights.IMAGENET1K_V1.meta["categories"])


def _catalog_name(values: Mapping[str, Any]) -> str:
    """The entry of the same size, else "vit"."""
    same = (
        name
        for name, entry in CATALOG.items()
        if entry.network is VisionTransformer and all(entry.values[key] == values[key] for key in _SIZE)
    )
    return next((name for name in same if name != "vit"), "vit")
