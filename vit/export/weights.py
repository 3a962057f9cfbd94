"""safetensors: weights under their own names, with the description in the file's metadata

Formats of other libraries hold weights and nothing else. Their last layer has the temperature inside.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from vit.checkpoints.format import KEY, Description
from vit.errors import UsageError
from vit.export.format import Classify, Format, description_text
from vit.inference.deployment import LoadedModel
from vit.inference.engine import trained_engine
from vit.models.vision_transformer import VisionTransformer
from vit.weights.adapt import head_names


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
        device = torch.device("cpu")
        return trained_engine(LoadedModel(network, description), device, "32-true").probabilities

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

    With several labels for an image, each row of the last layer is divided by the temperature of its label.

    Fixed positions are included. They are not a parameter here, but they are one in other libraries.

    Raises:
        UsageError: the temperature is not 1, and the network does not end with a linear layer.
    """
    weights = dict(trained.network.state_dict())
    if isinstance(trained.network, VisionTransformer) and trained.network.pos_embed is not None:
        weights["pos_embed"] = trained.network.pos_embed
    temperatures = _temperatures(trained.description)
    if bool((temperatures == 1.0).all()):
        return weights
    heads = head_names(trained.network)
    if not heads:
        raise UsageError("these weights cannot hold the temperature of this network", "give --format onnx or pt2")
    return {
        name: value / temperatures.to(value).view(-1, *[1] * (value.ndim - 1)) if name in heads else value
        for name, value in weights.items()
    }


def _temperatures(description: Description) -> Tensor:
    """The divisors of the logits: (1,) for a softmax, (K,) for several labels."""
    rules = description.multilabel
    return torch.tensor([description.temperature] if rules is None else rules.temperatures.tolist())
