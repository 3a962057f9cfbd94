"""The contract of an objective: what a backbone learns from images without labels"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from vit.errors import UsageError
from vit.models.heads import classifier_names
from vit.models.network import Network

BACKBONE = "network."  # in front of the names of the backbone's weights, in an objective's and in a checkpoint's


class Objective(nn.Module, ABC):
    """A backbone with the layers that only its pretraining needs.

    Args:
        network: network whose layers for classes are gone; see `without_classes`.

    Attributes:
        network: the backbone. Only its weights are kept.
        resting_fraction: fraction of the optimizer steps, from the first on, in which the backbone does not change.
    """

    resting_fraction = 0.0

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    @abstractmethod
    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        """The loss of a batch.

        Args:
            images: (B, 3, S, S) augmented and normalized images.
            indices: (B,) number of each image among all training images.
            draw_seeds: (B,) seeds on the CPU for all random draws of an image in this epoch; see `Batch.draw_seed`.
        """

    def reconstructions(self, images: Tensor) -> dict[str, Tensor]:
        """What the objective makes of normalized images (B, 3, S, S), for the page: {title: (B, 3, S, S) normalized}.

        Empty for an objective that makes no pictures.
        """
        return {}

    def no_weight_decay(self) -> set[str]:
        """Names of parameters without weight decay, besides vectors."""
        return {BACKBONE + name for name in self.network.no_weight_decay()}

    def layers_above(self) -> dict[str, int]:
        """Number of blocks between each parameter and the head, by the parameter's name, or {} without an order."""
        return {BACKBONE + name: above for name, above in self.network.layers_above().items()}


def without_classes(network: Network, name: str) -> Network:
    """The same network, which now returns the features that its head reads: (B, 3, S, S) -> (B, D).

    Args:
        name: name of the network, for the error.

    Raises:
        UsageError: the last layer of the network is not known.
    """
    heads = classifier_names(network)
    if not heads:
        raise UsageError(
            f"{name} does not say which of its layers computes the classes", "choose another --network for vit pretrain"
        )
    for head in heads:
        network.set_submodule(head, nn.Identity())
    return network


@torch.no_grad()
def feature_width(network: Network) -> int:
    """The number of features D that a network without classes returns."""
    device, was_training = next(network.parameters()).device, network.training
    network.eval()  # batch norm needs more than one image in training
    size = network.image_size
    width = network(torch.zeros(1, network.in_chans, size, size, device=device)).flatten(1).shape[1]
    network.train(was_training)
    return int(width)
