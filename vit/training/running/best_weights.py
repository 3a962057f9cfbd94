"""Calibrates the best checkpoint of a training, and scores the validation and test images with it"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.format import Description
from vit.checkpoints.io import store_calibration, store_label_rules
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.load import load
from vit.checkpoints.novelty import MOST_FEATURES, Novelty, TrainingFeatures
from vit.checkpoints.validation_scores import ValidationScores, fitted_split
from vit.data.loading.loader import labeled_images
from vit.data.loading.module import ImageDataModule
from vit.inference.answers.calibration import (
    LabelTemperatures,
    LabelThresholds,
    Temperature,
    fit_label_temperatures,
    fit_label_thresholds,
    fit_temperature,
)
from vit.inference.engine import Engine, NoveltyOf, features_of, score
from vit.inference.scores.image_groups import in_groups
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels
from vit.training.distributed.rendezvous import readable_by_all
from vit.training.planning.plan import Plan


@dataclass(frozen=True)
class MeasuredCheckpoint:
    """A checkpoint with its scores."""

    description: Description  # description of the checkpoint
    # temperature fitted on the calibration images, or else on the validation images; None without either
    fitted: Temperature | None
    # images of all splits but the training images, with the probabilities at the temperature
    scored: Mapping[str, ScoredImages]
    # what recognizes images unlike the training images; None where it cannot be computed
    novelty: Novelty | None = None

    @cached_property
    def validation_scores(self) -> ValidationScores | None:
        """What the checkpoint keeps of the images of the fit, for thresholds and prediction sets."""
        if self.fitted is None:
            return None
        found = self.scored[self.fitted.split]
        names = self.description.class_names
        return ValidationScores.of(found.labels, found.probabilities, found.groups, self.fitted.split, names)

    @property
    def temperature(self) -> float:
        """The number that divides the logits."""
        return 1.0 if self.fitted is None else self.fitted.value

    def describe(self) -> list[str]:
        """What was fitted, for people."""
        return [] if self.fitted is None else [f"temperature {self.fitted.describe()}"]

    def store(self, path: Path, keep_state: bool) -> None:
        """Write what was fitted into the checkpoint, as `store_calibration`."""
        store_calibration(path, self.temperature, self.validation_scores, self.novelty, keep_state)


@dataclass(frozen=True)
class MeasuredLabels:
    """A checkpoint of a network that gives several labels for an image, with its scores."""

    description: Description  # description of the checkpoint
    temperatures: LabelTemperatures  # fitted on the calibration images, or else on the validation images
    thresholds: LabelThresholds  # chosen on the same images, at these temperatures
    split: str  # split of these images
    # images of all splits but the training images, with the probabilities at the temperatures
    scored: Mapping[str, ScoredLabels]

    @property
    def rules(self) -> LabelRules:
        """The temperatures and thresholds that the checkpoint keeps."""
        return LabelRules(np.array(self.temperatures.values), np.array(self.thresholds.values))

    def describe(self) -> list[str]:
        """What was fitted, for people."""
        names = self.description.class_names
        return [f"temperatures {self.temperatures.describe(names)}", *self.thresholds.describe(names)]

    def store(self, path: Path, keep_state: bool) -> None:
        """Write what was fitted into the checkpoint, as `store_label_rules`."""
        store_label_rules(path, self.rules, keep_state)


Measured = MeasuredCheckpoint | MeasuredLabels


def measure_checkpoint(
    path: Path, plan: Plan, data: ImageDataModule, device: torch.device, features: Tensor | None = None
) -> Measured:
    """Calibrate and score a checkpoint of the first process.

    Args:
        path: path of the checkpoint, as the first process sees it.
        device: device on which this process has trained.
        features: features (n, D) of the training images, if they are known; None: some are computed.
    """
    with readable_by_all(path) as file:
        network, description = load(file)
    labels = description.multilabel
    unfitted = (
        None if labels is None else LabelRules.unfitted(len(labels))
    )  # a resumed run may have fitted them already
    engine = Engine(network, plan.preprocess, device, plan.precision, rules=unfitted)
    if labels is not None:
        return _measure_labels(engine, description, data, plan.recipe.optim.min_precision)
    splits = data.source.splits
    scored: dict[str, ScoredImages] = {}
    fitted, novelty = None, None
    calibrated_on = fitted_split(splits)
    if calibrated_on is not None:
        training = _training_features(engine, data, plan.recipe.seed, features)
        distances = None if training is None else training.distances
        uncalibrated = _score(engine, data, calibrated_on, distances)
        fitted = fit_temperature(uncalibrated, calibrated_on)
        engine.temperature = fitted.value
        scored[calibrated_on] = replace(uncalibrated.at(engine.temperature), novelty=None)
        if training is not None and uncalibrated.novelty is not None:
            novelty = Novelty.of(training, uncalibrated.novelty)
    for split in ("validation", "test"):
        if split in splits and split not in scored:
            scored[split] = _score(engine, data, split, None if novelty is None else novelty.of_features)
    return MeasuredCheckpoint(description, fitted, scored, novelty)


def _score(engine: Engine, data: ImageDataModule, split: str, novelty_of: NoveltyOf | None) -> ScoredImages:
    found = score(engine, data.evaluation_loader(split), novelty_of)
    assert isinstance(found, ScoredImages)
    return in_groups(found, data.source.splits[split])


def _measure_labels(
    engine: Engine, description: Description, data: ImageDataModule, min_precision: float | None
) -> MeasuredLabels:
    """Fit temperatures, then thresholds, and score all splits at the temperatures."""
    scored: dict[str, ScoredLabels] = {}
    for split in ("calibration", "validation", "test"):
        if split in data.source.splits:
            found = score(engine, data.evaluation_loader(split))
            assert isinstance(found, ScoredLabels)
            scored[split] = in_groups(found, data.source.splits[split])
    fitted_on = next(iter(scored))  # every training has validation images
    fit = scored[fitted_on]
    temperatures = fit_label_temperatures(fit.labels, fit.probabilities, fitted_on, fit.groups)
    scored = {split: some.at(temperatures.values) for split, some in scored.items()}
    thresholds = fit_label_thresholds(fit.labels, scored[fitted_on].probabilities, min_precision)
    return MeasuredLabels(description, temperatures, thresholds, fitted_on, scored)


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
