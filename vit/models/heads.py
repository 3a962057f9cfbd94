"""The last layers of a network, and a network that also gives the features which these layers read"""

import copy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer


def classifier_names(network: Network) -> tuple[str, ...]:
    """Names of the modules that compute logits from features; () where `get_classifier` does not say which they are."""
    model: Any = network if hasattr(network, "get_classifier") else getattr(network, "model", None)
    last_layers: Any = model.get_classifier() if hasattr(model, "get_classifier") else ()
    parts = last_layers if isinstance(last_layers, tuple | list) else (last_layers,)
    return tuple(
        name
        for name, module in network.named_modules()
        if not isinstance(module, nn.Identity) and any(module is part for part in parts)
    )


def token_logits(network: Network, images: Tensor) -> tuple[Tensor, Tensor]:
    """Images (B, 3, S, S) -> logits of the class and the distillation token (B, C) each, by a ViT of pool cls_dist."""
    assert isinstance(network, VisionTransformer)
    assert network.head_dist is not None
    tokens = network.encode(images)  # (B, 2, D)
    return network.head(tokens[:, 0]), network.head_dist(tokens[:, 1])


class _LogitsAndFeatures(nn.Module):
    """A last layer whose output also has what it read: features (B, D, ...) -> (B, C + D, ...) float32."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat((self.layer(features).float(), features.float()), dim=1)


def with_features(module: nn.Module, classifiers: tuple[str, ...]) -> nn.Module:
    """A copy of a module with the same weights: images (B, 3, S, S) -> logits and features (B, C + D), averaged where
    the logits of several classifiers are. They leave in the output, not through a hook: several threads use one module.
    """
    plain = (value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor))
    shared: dict[int, Any] = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers(), plain)}
    made = copy.deepcopy(module, shared)
    for name, part in list(made.named_modules()):
        if name.removeprefix("network.") in classifiers:
            made.set_submodule(name, _LogitsAndFeatures(part))
    return made
