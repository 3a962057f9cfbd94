"""What leaves: a network with everything around it that decides its answer."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vit.checkpoints.format import Description
from vit.errors import UsageError
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer
from vit.weights.adapt import head_names


@dataclass(frozen=True)
class Trained:
    """The content of a checkpoint: a network in evaluation mode, and what its file says beside the weights."""

    network: Network
    description: Description


class Deployed(nn.Module):
    """Images (B, 3, S, S) uint8 -> probabilities (B, C): preprocessing, network, temperature and softmax in one.

    What a graph cannot hold is left outside: decoding a file, and resizing the picture to S.
    """

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.network = trained.network
        self.preprocess = trained.description.preprocess
        self.temperature = trained.description.temperature

    def forward(self, images: Tensor) -> Tensor:
        logits = self.network(self.preprocess.normalize(images))
        return (logits / self.temperature).softmax(dim=1)


def traced(trained: Trained) -> torch.export.ExportedProgram:
    """The graph of `Deployed` for any number of images, without what it knows of this machine's folders."""
    module = Deployed(trained).eval().requires_grad_(False)
    side = trained.network.image_size
    example = torch.zeros(2, 3, side, side, dtype=torch.uint8)  # a batch of one would become the only size
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def input_words(trained: Trained) -> str:
    """What an exported graph takes, for whoever reads its metadata."""
    plain = trained.description.preprocess
    resized = "both sides" if plain.resize_mode == "squash" else "the shorter side"
    return (
        f"uint8 (batch, 3, {plain.image_size}, {plain.image_size}): RGB, upright, 0 to 255; {resized} resized "
        f"to {plain.resize_side} ({plain.interpolation}, antialiased), then the middle square; normalization is inside"
    )


def calibrated_weights(trained: Trained) -> dict[str, Tensor]:
    """The network's weights with the temperature folded into the last layer: softmax of its logits is calibrated.

    Fixed positions are among them: they are no parameter of ours, but one of other libraries.

    Raises:
        UsageError: there is a temperature, and no last linear layer that could take it up.
    """
    weights = dict(trained.network.state_dict())
    if isinstance(trained.network, VisionTransformer) and trained.network.pos_embed is not None:
        weights["pos_embed"] = trained.network.pos_embed
    temperature = trained.description.temperature
    if temperature == 1.0:
        return weights
    heads = head_names(trained.network)
    if not heads:
        raise UsageError("this network's calibration has no place in these weights", "give --format onnx or pt2")
    return {name: value / temperature if name in heads else value for name, value in weights.items()}
