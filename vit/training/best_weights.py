"""Calibrates the best checkpoint of a training, and scores the validation and test images with it"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.format import Description
from vit.checkpoints.load import load
from vit.checkpoints.novelty import MOST_FEATURES, Novelty, TrainingFeatures
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.loader import labeled_images
from vit.data.module import ImageDataModule
from vit.inference.calibration import Temperature, fit_temperature
from vit.inference.engine import Engine, features_of, score
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
        novelty: what recognizes images unlike the training images; None where it cannot be computed.
    """

    description: Description
    fitted: Temperature | None
    scored: dict[str, ScoredImages]
    novelty: Novelty | None = None

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


def measure_checkpoint(
    path: Path, plan: Plan, data: ImageDataModule, device: torch.device, features: Tensor | None = None
) -> MeasuredCheckpoint:
    """Calibrate and score a checkpoint of the first process.

    Args:
        path: path of the checkpoint, as the first process sees it.
        device: device on which this process has trained.
        features: features (n, D) of the training images, if they are known; None: some are computed.
    """
    with readable_by_all(path) as file:
        network, description = load(file)
    engine = Engine(network, plan.preprocess, device, plan.precision)
    splits = data.source.splits
    scored: dict[str, ScoredImages] = {}
    fitted, novelty = None, None
    calibrated_on = next((split for split in ("calibration", "validation") if split in splits), None)
    if calibrated_on is not None:
        training = _training_features(engine, data, plan.recipe.seed, features)
        distances = None if training is None else training.distances
        uncalibrated = score(engine, data.evaluation_loader(calibrated_on), distances)
        fitted = fit_temperature(uncalibrated, calibrated_on)
        engine.temperature = fitted.value
        scored[calibrated_on] = replace(uncalibrated.at(engine.temperature), novelty=None)
        if training is not None and uncalibrated.novelty is not None:
            novelty = Novelty.of(training, uncalibrated.novelty)
    for split in ("validation", "test"):
        if split in splits and split not in scored:
            scored[split] = score(
                engine, data.evaluation_loader(split), None if novelty is None else novelty.of_features
            )
    return MeasuredCheckpoint(description, fitted, scored, novelty)


def _training_features(
    engine: Engine, data: ImageDataModule, seed: int, known: Tensor | None
) -> TrainingFeatures | None:
    """Features of training images chosen by a seed, without augmentation; None for a network of unknown last layer."""
    if not engine.keep_features():
        return None
    if known is not None:
        return TrainingFeatures.chosen(known, seed)
    samples = data.source.splits["train"]
    chosen = np.random.default_rng(seed).permutation(len(samples))[:MOST_FEATURES]
    found = features_of(engine, labeled_images(samples.select(np.sort(chosen)), data.preprocess))
    return TrainingFeatures(found) if len(found) else None
