"""What a training leaves: its duration and counts, the scores of its best checkpoint, and the result of its run"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch

from vit.checkpoints.result import RunResult, pack, versions
from vit.data.core.samples import Samples
from vit.data.loading.module import ImageDataModule
from vit.inference.devices import matrix_peak, mfu
from vit.inference.metrics.measured_answers import measure_answers
from vit.inference.metrics.metrics import by_level, uncalibrated, with_intervals
from vit.inference.metrics.multilabel_metrics import multilabel_metrics, uncalibrated_labels
from vit.inference.scores.image_groups import number_of
from vit.inference.scores.scored_images import Scored
from vit.training.planning.plan import Plan
from vit.training.running.best_weights import Measured, MeasuredLabels

MFU_SECONDS = 30.0  # of the shortest training whose MFU is measured: the matrix peak costs 0.1 seconds
PASSES = 3  # forward passes that a training step costs: the backward pass costs two


@dataclass(frozen=True)
class TrainingStats:
    """Duration and counts of a training."""

    seconds: float  # duration of the whole training; the parts of an interrupted training add up
    images_per_second: float  # training images per second, without validation and saving
    steps: int  # number of optimizer steps
    skipped_steps: int = 0  # number of steps without an update, because a loss or gradient was not finite
    unreadable_images: int = 0  # number of training images that could not be read
    is_first_process: bool = True  # whether this is the first of the processes that trained together
    # validation metrics of the last weights; {} where nothing is chosen by epoch
    last_validation: Mapping[str, float] = field(default_factory=dict)
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
        **_training_facts(plan, stats, measured),
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
        **_measurements(best),
    )


def pretrain_result(
    plan: Plan, method: str, stats: TrainingStats, metrics: Mapping[str, float], license: str | None
) -> RunResult:
    """The result of a pretraining, which has no classes and no test.

    Args:
        method: what was learned.
        metrics: validation metrics of the last weights.
        license: license of the weights that the pretraining started from.
    """
    facts = _training_facts(plan, stats, plan.source.splits)
    return RunResult(
        **{**facts, "spec": replace(plan.spec, num_classes=0)},
        best_epoch=plan.rounds - 1,
        validation={name: value for name, value in metrics.items() if name.startswith("val/")},
        metrics={},
        method=method,
        license=license,
    )


def _training_facts(plan: Plan, stats: TrainingStats, images: Mapping[str, Samples]) -> dict[str, Any]:
    """The fields of a result that the plan and the statistics give.

    Args:
        images: images of each split that the result is about.
    """
    epochs, batch_size = stats.steps / plan.steps_per_epoch, plan.batch_size
    rounds = stats.steps // plan.steps_per_round
    if plan.recipe.model.freeze == "backbone":  # L-BFGS takes all images in each step
        epochs, batch_size = float(stats.steps), len(images["train"]) - stats.unreadable_images
        rounds = plan.rounds
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
        "device": _device_name(plan.device),
        "precision": plan.precision,
        "versions": versions(),
        "skipped_steps": stats.skipped_steps,
        "unreadable_images": stats.unreadable_images,
    }


def _measurements(best: Measured) -> dict[str, Any]:
    """The fields of a result that the scored images give."""
    found: dict[str, Any] = {"metrics": {}}
    if isinstance(best, MeasuredLabels):
        labels, thresholds = best.scored, best.thresholds.values
        found |= {"correct": {split: pack(some.exact(thresholds)) for split, some in labels.items()}}
        found |= {"multilabel": best.rules.to_plain()}
        if "test" in labels:
            several = labels["test"]
            found |= {"metrics": multilabel_metrics(several, thresholds).to_dict()}
            found |= {"test_groups": number_of(several.groups)}
            found["uncalibrated"] = uncalibrated_labels(several).to_dict()
        return found
    scored, names, scores = best.scored, best.description.class_names, best.validation_scores
    found |= {"correct": {split: pack(some.correct) for split, some in scored.items()}}
    found |= {"temperature": best.temperature}
    if "test" in scored:
        tested = scored["test"]
        found |= {"metrics": with_intervals(tested, len(names)).to_dict(), "test_groups": number_of(tested.groups)}
        found["uncalibrated"] = uncalibrated(tested).to_dict()
        found["answers"] = {} if scores is None else measure_answers(tested, scores, names).to_dict()
        found["levels"] = [asdict(level) for level in by_level(tested, names)] or None
    return found


def training_mfu(plan: Plan, stats: TrainingStats) -> float | None:
    """The MFU of a training: its FLOP/s over the matrix peak of its precision, which is measured now.

    None for a short training, where some weights are not trained, because their steps compute less, and with a teacher,
    whose steps compute more. All processes are taken to have devices like this one.
    """
    model = plan.recipe.model
    if stats.seconds < MFU_SECONDS or model.freeze == "backbone" or model.lora is not None or plan.teacher:
        return None
    peak = matrix_peak(plan.device, plan.precision) * plan.world_size
    return mfu(PASSES * plan.cost.flops, stats.images_per_second, peak)


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' * (threads != 1)}"
