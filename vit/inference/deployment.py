"""The graph of a network with preprocessing and calibrated probabilities: what exports and other engines compute"""

import json
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vit.checkpoints.format import Description
from vit.checkpoints.label_rules import LabelRules
from vit.data.pixels.preprocess import COLORS, to_device
from vit.models.network import Network


@dataclass(frozen=True)
class LoadedModel:
    """The content of a checkpoint: a network in evaluation mode, and its description."""

    network: Network
    description: Description


def probabilities_of(logits: Tensor, temperature: float, rules: LabelRules | None) -> Tensor:
    """The probabilities (B, C) of logits (B, C): a softmax over one temperature, or a sigmoid for each label.

    Everything that gives a probability computes it here, so that a model with several labels never gives a softmax.

    Args:
        rules: rules of the labels, if an image may have several; None: one class for an image.
    """
    if rules is None:
        return (logits / temperature).softmax(dim=1)
    temperatures = torch.tensor(rules.temperatures.tolist(), dtype=torch.float32)
    return (logits / to_device(temperatures, logits.device)).sigmoid()


def calibrated_probabilities(logits: Tensor, rules: LabelRules | None) -> Tensor:
    """The probabilities (B, C) of logits that are divided by their temperatures already, as in a file of weights."""
    return logits.softmax(dim=1) if rules is None else logits.sigmoid()


class DeploymentGraph(nn.Module):
    """Images (B, K, S, S) uint8 -> probabilities (B, C): normalization, network and calibration in one.

    A graph cannot decode a file or resize a picture to S, so both steps stay outside.
    """

    def __init__(self, trained: LoadedModel) -> None:
        super().__init__()
        self.network = trained.network
        self.preprocess = trained.description.preprocess
        self.temperature, self.rules = trained.description.temperature, trained.description.multilabel

    def forward(self, images: Tensor) -> Tensor:
        logits = self.network(self.preprocess.normalize(images))
        return probabilities_of(logits, self.temperature, self.rules)


def traced(trained: LoadedModel) -> torch.export.ExportedProgram:
    """The graph of `DeploymentGraph` for any batch size, without the paths of this machine."""
    module = DeploymentGraph(trained).eval().requires_grad_(False)
    side = trained.network.image_size
    # with a batch of one, one would become the only size
    example = torch.zeros(2, trained.network.in_chans, side, side, dtype=torch.uint8)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def notes(trained: LoadedModel) -> dict[str, str]:
    """What an exported graph says about itself, as text: classes, input and output, beside our own description."""
    description = trained.description
    count, rules = len(description.class_names), description.multilabel
    words = {"classes": json.dumps(description.class_names), "input": describe_input(trained)}
    if rules is None:
        return words | {"output": f"float32 (batch, {count}): probabilities, in the order of classes"}
    return words | {
        "output": f"float32 (batch, {count}): probability of each label, in the order of classes; they do not add up "
        "to 1; an image has a label from its threshold on",
        "thresholds": json.dumps(rules.thresholds.tolist()),
    }


def describe_input(trained: LoadedModel) -> str:
    """The input of an exported graph in words, for its metadata."""
    plain = trained.description.preprocess
    resized = {"shortest": "the shorter side", "squash": "both sides", "pad": "the longer side"}[plain.resize_mode]
    filled = f", where a shorter side is filled up with {plain.fill}" * (plain.resize_mode == "pad")
    pairs = list(zip(plain.window[::2], plain.window[1::2], strict=True)) if plain.window else []
    kind = "gray " if len(pairs) == 1 else ""
    levels = ", ".join(f"{low:g} to 0, {high:g} to 255" for low, high in pairs)
    window = f"; {kind}values of more than 8 bits: {levels}" * bool(pairs)
    colors = {1: "gray", 3: "RGB"}.get(plain.channels, f"{plain.channels} channels")
    if plain.color_profiles == "convert" and plain.channels == COLORS:
        colors = "sRGB (embedded ICC profiles converted)"
    return (
        f"uint8 (batch, {plain.channels}, {plain.image_size}, {plain.image_size}): {colors}, upright, 0 to 255; "
        f"{resized} resized to {plain.resize_side} ({plain.interpolation}, antialiased), then the middle square{filled}"
        f"; normalization is inside{window}"
    )
