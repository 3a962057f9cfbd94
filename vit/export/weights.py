"""Weights without a graph: safetensors under their own names, or the names and options of timm

The description stands in the file's metadata. Formats of other libraries hold weights and nothing else. Their last
layer has the temperature inside.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from vit.checkpoints.format import KEY, Description
from vit.data.pixels.preprocess import Preprocess
from vit.errors import UsageError
from vit.export.format import Classify, Format, Peer, check_pictures, closing_code, description_text
from vit.inference.deployment import LoadedModel, calibrated_probabilities
from vit.inference.engine import trained_engine
from vit.models.ablations import AblatedTransformer
from vit.models.spec import NetworkSpec
from vit.models.timm_network import TimmNetwork
from vit.models.vision_transformer import VisionTransformer
from vit.weights.adapt import head_names
from vit.weights.formats.timm import to_timm

_OTHERS = "give --format onnx, pt2 or safetensors"
_VIT_BASE = "vit_base_patch16_224"
# defaults of timm's ViT-B/16, which a call can leave out; fc_norm depends on global_pool there
_DEFAULTS = {name: one.default for name, one in signature(timm.models.VisionTransformer).parameters.items()}
_OF_VIT_BASE = {**_DEFAULTS, "act_layer": "gelu"}
_CROP_MODES = {"shortest": "center", "squash": "squash", "pad": "border"}


class Weights(Format):
    """The weights as they are. `--init_from` accepts the file."""

    ending = ".safetensors"
    imports = "import safetensors.torch"
    next_command = "vit train DATA --init_from {path}"

    def write(self, trained: LoadedModel, path: Path) -> None:
        save_weights(trained.network.state_dict(), path, metadata(trained.description))

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        with safe_open(path, framework="pt") as file:
            description = Description.from_dict(json.loads(file.metadata()[KEY]))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dictionary
        network = description.build()
        network.load_state_dict(weights)
        return trained_engine(LoadedModel(network, description), torch.device("cpu"), "32-true").probabilities

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        return f"weights = safetensors.torch.load_file({str(path)!r})"


def save_weights(weights: Mapping[str, Tensor], path: Path, notes: Mapping[str, str]) -> None:
    """Write a safetensors file with the same bytes every time, so that a hub can tell that nothing has changed.

    safetensors itself writes its metadata in a random order.
    """
    content = save(dict(weights), metadata=dict(notes))
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors stay aligned
    with open(path, "wb") as file:
        file.writelines((len(text).to_bytes(8, "little"), text, memoryview(content)[8 + size :]))


def metadata(description: Description) -> dict[str, str]:
    """Text beside the weights. transformers requires the key `format`."""
    return {"format": "pt", KEY: description_text(description), "classes": json.dumps(description.class_names)}


def folded_metadata(description: Description) -> dict[str, str]:
    """The same for `calibrated_weights`, whose temperature is 1 because it is part of the weights already."""
    rules = description.multilabel
    folded = None if rules is None else replace(rules, temperatures=np.ones(len(rules)))
    return metadata(replace(description, temperature=1.0, multilabel=folded))


def calibrated_weights(trained: LoadedModel) -> dict[str, Tensor]:
    """The network's weights with the temperature folded into the last layer, so that its softmax is calibrated.

    With several labels for an image, each row of the last layer is divided by the temperature of its label. Fixed
    positions are included: other libraries have them as a parameter. UsageError: the temperature is not 1, and the
    network does not end with a linear layer.
    """
    weights, rules = dict(trained.network.state_dict()), trained.description.multilabel
    if isinstance(trained.network, VisionTransformer) and trained.network.pos_embed is not None:
        weights["pos_embed"] = trained.network.pos_embed
    divisors = [trained.description.temperature] if rules is None else rules.temperatures.tolist()
    if all(value == 1.0 for value in divisors):
        return weights
    heads, temperatures = head_names(trained.network), torch.tensor(divisors)  # (1,) or (K,)
    if not heads:
        raise UsageError("these weights cannot hold the temperature of this network", "give --format onnx or pt2")
    return {
        name: value / temperatures.to(value).view(-1, *[1] * (value.ndim - 1)) if name in heads else value
        for name, value in weights.items()
    }


class TimmFile(Format):
    """A .safetensors file for `timm.create_model(NAME, checkpoint_path=PATH, ...)`, with the temperature folded in."""

    ending = ".safetensors"
    imports = "import functools, timm, torch"
    library = "timm"
    next_command = "vit train DATA --init_from {path}"

    def write(self, trained: LoadedModel, path: Path) -> None:
        check_pictures(trained, "timm")
        weights, _, _ = _in_timm(trained)
        contiguous = {key: value.contiguous() for key, value in weights.items()}
        save_weights(contiguous, path, folded_metadata(trained.description))

    def peer(self, trained: LoadedModel, path: Path) -> Peer:
        _, name, options = _in_timm(trained)
        model = timm.create_model(name, checkpoint_path=str(path), **options).eval()
        transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
        rules = trained.description.multilabel
        return Peer("timm", transform, lambda images: calibrated_probabilities(model(images), rules))

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        _, name, options = _in_timm(trained)
        arguments = "".join(f", {key}={_code(value)}" for key, value in options.items())
        return (
            f"model = timm.create_model({name!r}, checkpoint_path={str(path)!r}{arguments}).eval()\n"
            "transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)"
            + closing_code(trained, "model(images)")
        )


def is_in_timm(trained: LoadedModel) -> bool:
    """Whether timm has such a network."""
    try:
        _in_timm(trained)
    except UsageError:
        return False
    return True


def _in_timm(trained: LoadedModel) -> tuple[dict[str, Tensor], str, dict[str, Any]]:
    """(weights with the names of timm, timm's name of the network, other options of create_model)."""
    network, spec, plain = trained.network, trained.description.spec, trained.description.preprocess
    weights = calibrated_weights(trained)
    if isinstance(network, VisionTransformer):
        try:
            weights, name, options = to_timm(weights, network.config)
        except ValueError as error:
            raise UsageError(str(error), _OTHERS) from error
        if name == _VIT_BASE:
            options = {key: value for key, value in options.items() if not _is_default(key, value)}
    elif isinstance(network, TimmNetwork):
        weights = {key.removeprefix("model."): value for key, value in weights.items()}
        name, options = spec.name, _size_if_taken(spec, network.image_size)
    else:
        is_ablated = isinstance(network, AblatedTransformer)
        why = "a ViT that can lack parts of the paper" if is_ablated else "whose stem is made for small images"
        raise UsageError(f"timm does not have {spec.name}, {why}", _OTHERS)
    overlay = {  # read by timm.data.resolve_model_data_config
        "input_size": (3, plain.image_size, plain.image_size), "mean": plain.mean, "std": plain.std,
        "interpolation": plain.interpolation, "crop_pct": _crop_pct(plain), "crop_mode": _CROP_MODES[plain.resize_mode],
    }  # fmt: skip
    return weights, name, {**options, "num_classes": network.num_classes, "pretrained_cfg_overlay": overlay}


def _crop_pct(plain: Preprocess) -> float:
    """The crop_pct for which timm resizes to `resize_side`. timm rounds image_size / crop_pct down."""
    crop_pct = plain.image_size / plain.resize_side
    while math.floor(plain.image_size / crop_pct) < plain.resize_side:
        crop_pct = math.nextafter(crop_pct, 0.0)
    return crop_pct


def _is_default(key: str, value: object) -> bool:
    """Whether timm's ViT-B/16 has this value by default."""
    is_usual_norm = key == "norm_layer" and isinstance(value, partial) and value.keywords == {"eps": 1e-6}
    return is_usual_norm or bool(value == _OF_VIT_BASE.get(key, math.nan))


def _size_if_taken(spec: NetworkSpec, image_size: int) -> dict[str, Any]:
    """The option for the image size, for models of timm with a fixed image size."""
    size = {"img_size": image_size}
    try:
        timm.create_model(spec.name, num_classes=spec.num_classes, **size)
    except TypeError:
        return {}
    return size


def _code(value: object) -> str:
    """A value as Python code."""
    if isinstance(value, partial):
        arguments = "".join(f", {key}={part!r}" for key, part in value.keywords.items())
        return f"functools.partial({_code(value.func)}{arguments})"
    if isinstance(value, type):
        return f"{'torch.nn' if value.__module__.startswith('torch.') else 'timm.layers'}.{value.__name__}"
    return repr(value)
