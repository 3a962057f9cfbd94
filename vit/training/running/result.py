"""What a training leaves: its best checkpoint, calibrated, with the scores of its images, and the result of its run"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.format import Description
from vit.checkpoints.io import store_calibration
from vit.checkpoints.label_rules import LabelRules, unfitted_rules
from vit.checkpoints.load import load
from vit.checkpoints.novelty import MOST_FEATURES, Novelty, TrainingFeatures
from vit.checkpoints.result import RunResult, pack, versions
from vit.checkpoints.validation_scores import ValidationScores, fitted_split
from vit.data.core.samples import Samples
from vit.data.loading.loader import labeled_images
from vit.data.loading.module import ImageDataModule
from vit.errors import DivergedError
from vit.inference.answers.calibration import (
    LabelTemperatures,
    LabelThresholds,
    Temperature,
    fit_label_temperatures,
    fit_label_thresholds,
    fit_temperature,
)
from vit.inference.devices import matrix_peak
from vit.inference.engine import Engine, NoveltyOf, features_of, score
from vit.inference.metrics.measured_answers import measure_answers
from vit.inference.metrics.metrics import by_level, uncalibrated, with_intervals
from vit.inference.metrics.multilabel_metrics import multilabel_metrics, uncalibrated_labels
from vit.inference.scores.image_groups import in_groups, number_of
from vit.inference.scores.scored_images import Scored, ScoredImages, ScoredLabels
from vit.training.callbacks.checks import FIX
from vit.training.distributed.processes import readable_by_all
from vit.training.planning.plan import Plan

MFU_SECONDS = 30.0  # of the shortest training whose MFU is measured: the matrix peak costs 0.1 seconds
PASSES = 3  # forward passes that a training step costs: the backward pass costs two


@dataclass(frozen=True)
class MeasuredCheckpoint:
    """A checkpoint with the scores of the images of all splits but the training images."""

    description: Description
    fitted: Temperature | None  # on the calibration images, or else on the validation images; None without either
    scored: Mapping[str, ScoredImages]  # with the probabilities at the temperature
    novelty: Novelty | None = None  # recognizes images unlike the training images; None where it cannot be computed

    @cached_property
    def validation_scores(self) -> ValidationScores | None:
        """What the checkpoint keeps of the images of the fit, for thresholds and prediction sets."""
        if self.fitted is None:
            return None
        fit, names = self.scored[self.fitted.split], self.description.class_names
        return ValidationScores.of(fit.labels, fit.probabilities, fit.groups, self.fitted.split, names)

    @property
    def temperature(self) -> float:
        return 1.0 if self.fitted is None else self.fitted.value

    def describe(self) -> list[str]:
        return [] if self.fitted is None else [f"temperature {self.fitted.describe()}"]

    def store(self, path: Path, keep_state: bool) -> None:
        store_calibration(path, self.temperature, self.validation_scores, self.novelty, keep_state=keep_state)

    def measurements(self) -> dict[str, Any]:
        """The fields of a result that the scored images give."""
        correct = {split: pack(some.correct) for split, some in self.scored.items()}
        fields: dict[str, Any] = {"correct": correct, "metrics": {}, "temperature": self.temperature}
        if "test" in self.scored:
            tested, names, scores = self.scored["test"], self.description.class_names, self.validation_scores
            fields["metrics"] = with_intervals(tested, len(names)).to_dict()
            fields["test_groups"] = number_of(tested.groups)
            fields["uncalibrated"] = uncalibrated(tested).to_dict()
            fields["answers"] = {} if scores is None else asdict(measure_answers(tested, scores, names))
            fields["levels"] = [asdict(level) for level in by_level(tested, names)] or None
        return fields


@dataclass(frozen=True)
class MeasuredLabels:
    """As `MeasuredCheckpoint`, of a network that gives several labels for an image."""

    description: Description
    temperatures: LabelTemperatures  # fitted on the calibration images, or else on the validation images
    thresholds: LabelThresholds  # chosen on the same images, at these temperatures
    scored: Mapping[str, ScoredLabels]  # with the probabilities at the temperatures

    @property
    def rules(self) -> LabelRules:
        return LabelRules(np.array(self.temperatures.values), np.array(self.thresholds.values))

    def describe(self) -> list[str]:
        names = self.description.class_names
        return [f"temperatures {self.temperatures.describe()}", *self.thresholds.describe(names)]

    def store(self, path: Path, keep_state: bool) -> None:
        store_calibration(path, rules=self.rules, keep_state=keep_state)

    def measurements(self) -> dict[str, Any]:
        thresholds = self.thresholds.values
        correct = {split: pack(some.exact(thresholds)) for split, some in self.scored.items()}
        fields: dict[str, Any] = {"correct": correct, "metrics": {}, "multilabel": self.rules.to_plain()}
        if "test" in self.scored:
            tested = self.scored["test"]
            fields["metrics"] = multilabel_metrics(tested, thresholds).to_dict()
            fields["test_groups"] = number_of(tested.groups)
            fields["uncalibrated"] = uncalibrated_labels(tested).to_dict()
        return fields


Measured = MeasuredCheckpoint | MeasuredLabels


def measure_checkpoint(
    path: Path, plan: Plan, data: ImageDataModule, device: torch.device, features: Tensor | None = None
) -> Measured:
    """Calibrate and score a checkpoint of the first process. `features` (n, D): of the training images, if known.

    DivergedError: no validation had a loss that is a number, so that these weights are the first that were validated.
    """
    with readable_by_all(path) as file:
        network, description = load(file)
    if not math.isfinite(description.metrics["val/loss"]):
        raise DivergedError("the validation loss is not a number for any weights of this training", FIX)
    rules = unfitted_rules(description.task, len(description.class_names))  # a resumed run may have fitted others
    engine = Engine(network, plan.preprocess, device, plan.precision, rules=rules)
    if rules is not None:
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
            novelty = Novelty.of(training, uncalibrated.novelty, uncalibrated.groups)
    for split in ("validation", "test"):
        if split in splits and split not in scored:
            scored[split] = _score(engine, data, split, None if novelty is None else novelty.of_features)
    return MeasuredCheckpoint(description, fitted, scored, novelty)


def _score(engine: Engine, data: ImageDataModule, split: str, novelty_of: NoveltyOf | None) -> ScoredImages:
    scored = score(engine, data.evaluation_loader(split), novelty_of)
    assert isinstance(scored, ScoredImages)
    return in_groups(scored, data.source.splits[split])


def _measure_labels(
    engine: Engine, description: Description, data: ImageDataModule, min_precision: float | None
) -> MeasuredLabels:
    """Fit temperatures, then thresholds, and score all splits at the temperatures."""
    scored: dict[str, ScoredLabels] = {}
    for split in ("calibration", "validation", "test"):
        if split in data.source.splits:
            split_scores = score(engine, data.evaluation_loader(split))
            assert isinstance(split_scores, ScoredLabels)
            scored[split] = in_groups(split_scores, data.source.splits[split])
    fitted_on = next(iter(scored))  # every training has validation images
    fit = scored[fitted_on]
    temperatures = fit_label_temperatures(fit.labels, fit.probabilities, fitted_on, fit.groups)
    scored = {split: some.at(temperatures.values) for split, some in scored.items()}
    thresholds = fit_label_thresholds(fit.labels, scored[fitted_on].probabilities, min_precision)
    return MeasuredLabels(description, temperatures, thresholds, scored)


def _training_features(
    engine: Engine, data: ImageDataModule, seed: int, known: Tensor | None
) -> TrainingFeatures | None:
    """Features of training images chosen by a seed, without augmentation; None for a network of unknown last layer."""
    if not engine.keep_features():
        return None
    if known is not None:
        return TrainingFeatures.chosen(known, seed)
    samples = data.source.splits["train"]
    indices = np.random.default_rng(seed).permutation(len(samples))[:MOST_FEATURES]
    features = features_of(engine, labeled_images(samples.select(np.sort(indices)), data.preprocess))
    return TrainingFeatures(features) if len(features) else None


@dataclass(frozen=True)
class TrainingStats:
    """Duration and counts of a training."""

    seconds: float  # duration of the whole training; the parts of an interrupted training add up
    images_per_second: float  # training images per second, without validation and saving
    steps: int  # number of optimizer steps
    skipped_steps: int = 0  # number of steps without an update, because a loss or gradient was not finite
    unreadable_images: int = 0  # number of training images that could not be read
    is_first_process: bool = True  # whether this is the first of the processes that trained together
    last_validation: Mapping[str, float] = field(default_factory=dict)  # of the last weights; {}: no choice by epoch
    image_wait: float = math.nan  # fraction of the training time in which steps waited for images; NaN: not known


@dataclass(frozen=True)
class FitResult:
    """A finished training."""

    result: RunResult  # content of result.json
    scored: Mapping[str, Scored]  # validation and test images with the probabilities of the best checkpoint
    data: ImageDataModule  # the loaders, with the images that they keep in memory
    is_first_process: bool  # whether this is the first of the processes that trained together


def run_result(plan: Plan, stats: TrainingStats, best: Measured) -> RunResult:
    """The result of a run, from its plan, its training and its best checkpoint."""
    scored: Mapping[str, Scored] = best.scored
    measured = {
        split: samples.without(scored[split].left_out) if split in scored else samples
        for split, samples in plan.source.splits.items()
    }
    metrics = best.description.metrics
    counts = measured["test"].class_counts(plan.spec.num_classes) if "test" in measured else np.ones(1)
    return RunResult(
        **training_facts(plan, stats, measured),
        tested_classes=None if counts.all() else int((counts > 0).sum()),
        best_epoch=int(metrics["epoch"]),
        best_metric=plan.recipe.optim.best_metric,
        last_validation=dict(stats.last_validation),
        validation={name: value for name, value in metrics.items() if name.startswith("val/")},
        left_out={split: dict(some.left_out) for split, some in scored.items() if some.left_out},
        mfu=training_mfu(plan, stats),
        license=best.description.license,
        teacher=None if plan.teacher is None else f"{plan.teacher.description.spec.name}, {plan.teacher.path}",
        seen_before=list(plan.seen_before) or None,
        **best.measurements(),
    )


def training_facts(plan: Plan, stats: TrainingStats, images: Mapping[str, Samples]) -> dict[str, Any]:
    """The fields of a result that the plan and the statistics give, for these images of each split."""
    epochs, batch_size = stats.steps / plan.steps_per_epoch, plan.batch_size
    rounds = stats.steps // plan.steps_per_round
    if plan.recipe.model.freeze == "backbone":  # L-BFGS takes all images in each step
        epochs, batch_size = float(stats.steps), len(images["train"]) - stats.unreadable_images
        rounds = plan.rounds
    threads = torch.get_num_threads()
    device = f"{plan.device.type}, {threads} thread{'s' * (threads != 1)}"
    if plan.device.type == "cuda":
        device = torch.cuda.get_device_name(plan.device)
    return {
        "spec": plan.spec,
        "image_size": plan.preprocess.image_size,
        "parameters": plan.cost.parameters,
        "flops": plan.cost.flops,
        "data": plan.source.name,
        "num_images": {split: len(samples) for split, samples in images.items()},
        "fingerprints": {split: samples.fingerprint() for split, samples in images.items()},
        "seed": plan.recipe.seed,
        "epochs": epochs,
        "steps": stats.steps,
        "batch_size": batch_size,
        "rounds": rounds,
        "validation_name": plan.validation_name,
        "seconds": stats.seconds,
        "images_per_second": stats.images_per_second,
        "image_wait": None if math.isnan(stats.image_wait) else stats.image_wait,
        "device": device,
        "precision": plan.precision,
        "versions": versions(),
        "skipped_steps": stats.skipped_steps,
        "unreadable_images": stats.unreadable_images,
    }


def training_mfu(plan: Plan, stats: TrainingStats) -> float | None:
    """The MFU of a training: its FLOP/s over the matrix peak of its precision, which is measured now.

    None for a short training, where some weights are not trained, because their steps compute less, and with a teacher,
    whose steps compute more. All processes are taken to have devices like this one.
    """
    model = plan.recipe.model
    if stats.seconds < MFU_SECONDS or model.freeze == "backbone" or model.lora is not None or plan.teacher:
        return None
    peak = matrix_peak(plan.device, plan.precision) * plan.world_size
    return PASSES * plan.cost.flops * stats.images_per_second / peak
