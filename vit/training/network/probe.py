"""A linear probe: computes the features of a frozen backbone once, and fits a linear head to them

The penalties are logarithmically spaced, as in Kornblith et al. 2019 (arXiv 1805.08974, appendix A.4), the strongest
first. Each is an "epoch" of metrics.csv, whose fit starts from the previous one. The probe keeps the head with the
smallest validation loss, or the highest value of `optim.best_metric`.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.format import checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.load import load
from vit.checkpoints.novelty import Novelty, TrainingFeatures
from vit.checkpoints.run import RunDirectory
from vit.csv_files import new_table
from vit.data.core.samples import Labels, Samples
from vit.data.loading.loader import labeled_images
from vit.data.loading.module import ImageDataModule
from vit.inference.answers.calibration import fit_temperature
from vit.inference.devices import autocast
from vit.inference.prepared import can_pack
from vit.inference.scores.image_groups import in_groups
from vit.inference.scores.scored_images import ScoredImages
from vit.models.vision_transformer import VisionTransformer
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.network.features import FrozenBackbone, HeadFit, SharedFeatures, computed, labeled, probe_loss
from vit.training.network.initial_network import InitialNetwork, describe
from vit.training.observers import Listener
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.training.running.result import Measured, MeasuredCheckpoint, TrainingStats, measure_checkpoint


def probe(
    start: InitialNetwork,
    data: ImageDataModule,
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener],
    shared: SharedFeatures | None = None,
) -> tuple[TrainingStats, Measured]:
    """Fit the head of a network, write best.ckpt and metrics.csv, and measure best.ckpt.

    UsageError: the network does not end in one linear layer.
    """
    began = time.perf_counter()
    backbone, splits = FrozenBackbone(start.network, plan), plan.source.splits
    features, labels = labeled(splits["train"], _features(backbone, "train", data, plan, shared))
    images_per_second = len(labels) / (time.perf_counter() - began)
    validation = labeled(splits["validation"], _features(backbone, "validation", data, plan, shared))
    network, head = backbone.whole(), backbone.head

    loss = probe_loss(splits["train"], plan.class_balance, plan.recipe.optim.multilabel_loss)
    fit = HeadFit((features, labels), validation, network.num_classes, loss)
    metric = f"val/{plan.recipe.optim.best_metric}"
    sign = -1.0 if metric == "val/loss" else 1.0
    best, steps = float("-inf"), 0
    columns = columns_with(plan.source.task.validation_columns)
    with new_table(run.metrics_path, columns) as table:
        for number, penalty in enumerate(PENALTIES):
            train_loss, iterations = fit.fit(penalty)
            steps += iterations
            metrics = fit.metrics()
            row = {"epoch": number, "step": steps, "train/loss": train_loss, **metrics}
            row |= {"train/images_per_second": images_per_second, "seconds": time.perf_counter() - began}
            table.row(row.get(name) for name in columns)
            for listener in listeners:
                listener.row(row, steps)
            if sign * metrics[metric] > best:
                best = sign * metrics[metric]
                fit.put_into(head)
                about = replace(describe(plan, start.license), metrics={**metrics, "epoch": number})
                write_checkpoint(checkpoint_content(about, network.state_dict()), run.best_path)
    num_unreadable = len(splits["train"]) - len(labels)
    stats = TrainingStats(time.perf_counter() - began, images_per_second, steps, unreadable_images=num_unreadable)
    if shared is None or not plan.source.task.is_exclusive:  # temperatures and thresholds of labels need all images
        return stats, measure_checkpoint(run.best_path, plan, data, plan.device, features)
    return stats, _measure(run.best_path, data, plan, shared, features)


def _measure(
    path: Path, data: ImageDataModule, plan: Plan, shared: SharedFeatures, features: Tensor
) -> MeasuredCheckpoint:
    """Calibrate and score a checkpoint of `probe` by its head and the shared features: no image is computed twice."""
    network, description = load(path)
    backbone = FrozenBackbone(network, plan)
    splits = [split for split in ("calibration", "validation", "test") if split in data.source.splits]
    found = {split: _features(backbone, split, data, plan, shared) for split in splits}
    scored = {split: _scored(backbone, data.source.splits[split], plan, *found[split]) for split in splits}
    fitted = fit_temperature(scored[splits[0]], splits[0])
    training = TrainingFeatures.chosen(features, plan.recipe.seed)
    novelty = Novelty.of(training, training.distances(found[splits[0]][0].cpu()))
    calibrated: dict[str, ScoredImages] = {split: one.at(fitted.value) for split, one in scored.items()}
    if "test" in calibrated:
        calibrated["test"] = replace(calibrated["test"], novelty=novelty.of_features(found["test"][0].cpu()))
    return MeasuredCheckpoint(description, fitted, calibrated, novelty)


def _features(
    backbone: FrozenBackbone, split: str, data: ImageDataModule, plan: Plan, shared: SharedFeatures | None
) -> tuple[Tensor, Labels]:
    """As the backbone's; those that other trainings have computed are not computed again."""
    if shared is None:
        return backbone.features(data.evaluation_loader(split))
    values, kept = shared.of(
        plan, data.source.splits[split], lambda some: computed(backbone.engine, labeled_images(some, plan.preprocess))
    )
    return values.to(backbone.engine.device), kept


@torch.inference_mode()
def _scored(backbone: FrozenBackbone, samples: Samples, plan: Plan, features: Tensor, kept: Labels) -> ScoredImages:
    """Images of a split by the features (n, D) of those that can be read, which are at the indices `kept` (n,)."""
    is_packed = features.device.type == "cpu" and can_pack(torch.bfloat16)
    is_exact = is_packed and isinstance(backbone.network, VisionTransformer)  # as `prepared` computes the head
    with autocast("32-true" if is_exact else plan.precision, features.device):
        logits = backbone.head.to(features.device)(features).float()
    probabilities = logits.softmax(dim=1).cpu().numpy()
    left_out = {samples.paths[index]: "cannot be read" for index in np.setdiff1d(np.arange(len(samples)), kept)}
    paths = tuple(samples.paths[index] for index in kept)
    return in_groups(ScoredImages(paths, samples.labels[kept], probabilities, left_out=left_out), samples)
