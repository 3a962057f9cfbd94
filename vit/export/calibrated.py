"""Weights with the temperature inside, for formats that hold weights and nothing else"""

import torch
from torch import Tensor

from vit.checkpoints.format import Description
from vit.errors import UsageError
from vit.inference.deployed import Trained
from vit.models.vision_transformer import VisionTransformer
from vit.weights.adapt import head_names


def calibrated_weights(trained: Trained) -> dict[str, Tensor]:
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
