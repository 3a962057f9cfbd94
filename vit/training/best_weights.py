"""Calibrates the best checkpoint of a training, and scores the validation and test images with it"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from vit.checkpoints.format import Description
from vit.checkpoints.load import load
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.module import ImageDataModule
from vit.inference.calibration import Temperature, fit_temperature
from vit.inference.engine import Engine, score
from vit.inference.scored_images import ScoredImages
from vit.training.distributed.meeting import readable_by_all
from vit.training.planning.plan import Plan


@dataclass(frozen=True)
class MeasuredCheckpoint:
    """A checkpoint with its scores.

    Attributes:
        description: description of the checkpoint.
        fitted: temperature fitted on the validation images; None without validation images.
        scored: validation and test images with the probabilities of the checkpoint at its temperature.
    """

    description: Description
    fitted: Temperature | None
    scored: dict[str, ScoredImages]

    @cached_property
    def validation_scores(self) -> ValidationScores | None:
        """What the checkpoint keeps of its validation images, for thresholds and prediction sets."""
        found = self.scored.get("validation")
        return None if found is None else ValidationScores.of(found.labels, found.probabilities)

    @property
    def temperature(self) -> float:
        """The number that divides the logits."""
        return 1.0 if self.fitted is None else self.fitted.value


def measure_checkpoint(path: Path, plan: Plan, data: ImageDataModule, device: torch.device) -> MeasuredCheckpoint:
    """Calibrate and score a checkpoint of the first process.

    Args:
        path: path of the checkpoint, as the first process sees it.
        device: device on which this process has trained.
    """
    with readable_by_all(path) as file:
        network, description = load(file)
    engine = Engine(network, plan.preprocess, device, plan.precision)
    scored: dict[str, ScoredImages] = {}
    fitted = None
    if "validation" in data.source.splits:
        validation = score(engine, data.evaluation_loader("validation"))
        fitted = fit_temperature(validation)
        engine.temperature = fitted.value
        scored["validation"] = validation.at(engine.temperature)
    if "test" in data.source.splits:
        scored["test"] = score(engine, data.evaluation_loader("test"))
    return MeasuredCheckpoint(description, fitted, scored)
