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
        fitted: temperature fitted on the calibration images, or else on the validation images; None without either.
        scored: images of all splits but the training images, with the probabilities at the temperature.
    """

    description: Description
    fitted: Temperature | None
    scored: dict[str, ScoredImages]

    @cached_property
    def validation_scores(self) -> ValidationScores | None:
        """What the checkpoint keeps of the images of the fit, for thresholds and prediction sets."""
        if self.fitted is None:
            return None
        found = self.scored[self.fitted.split]
        return ValidationScores.of(found.labels, found.probabilities)

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
    splits = data.source.splits
    scored: dict[str, ScoredImages] = {}
    fitted = None
    calibrated_on = next((split for split in ("calibration", "validation") if split in splits), None)
    if calibrated_on is not None:
        uncalibrated = score(engine, data.evaluation_loader(calibrated_on))
        fitted = fit_temperature(uncalibrated, calibrated_on)
        engine.temperature = fitted.value
        scored[calibrated_on] = uncalibrated.at(engine.temperature)
    for split in ("validation", "test"):
        if split in splits and split not in scored:
            scored[split] = score(engine, data.evaluation_loader(split))
    return MeasuredCheckpoint(description, fitted, scored)
