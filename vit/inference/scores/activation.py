"""Logits -> probabilities: a softmax over one temperature, or a sigmoid for each label over its own

Everything that gives a probability computes it here, so that a model with several labels never gives a softmax.
"""

import torch
from torch import Tensor

from vit.checkpoints.label_rules import LabelRules
from vit.data.pixels.preprocess import to_device


def probabilities_of(logits: Tensor, temperature: float, rules: LabelRules | None) -> Tensor:
    """The probabilities (B, C) of logits (B, C).

    Args:
        temperature: divisor of the logits of one softmax.
        rules: rules of the labels, if an image may have several; None: one class for an image.
    """
    if rules is None:
        return (logits / temperature).softmax(dim=1)
    temperatures = torch.tensor(rules.temperatures.tolist(), dtype=torch.float32)
    return (logits / to_device(temperatures, logits.device)).sigmoid()


def calibrated_probabilities(logits: Tensor, rules: LabelRules | None) -> Tensor:
    """The probabilities (B, C) of logits that are divided by their temperatures already, as in a file of weights."""
    return logits.softmax(dim=1) if rules is None else logits.sigmoid()
