"""The network that a training starts from, and the linear probe, which is a training of its last layer alone

Fine-tuning starts from a linear probe: the last layer is fitted first, while the other layers stay as they are. Kumar
et al. 2022, "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution" (arXiv 2202.10054,
LP-FT). From a random last layer, the first steps change the other layers to suit a layer that knows nothing yet.

A probe fits a linear head to features. The penalties are logarithmically spaced, as in Kornblith et al. 2019 (arXiv
1805.08974, appendix A.4), the strongest first. Each is an "epoch" of metrics.csv, whose fit starts from the previous
one. The probe keeps the head with the smallest validation loss, or the highest value of `optim.best_metric`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.label_rules import unfitted_rules
from vit.checkpoints.load import load
from vit.checkpoints.novelty import Novelty, TrainingFeatures
from vit.checkpoints.result import versions
from vit.checkpoints.run import RunDirectory
from vit.csv_files import new_table
from vit.data.core.samples import Labels, Samples
from vit.data.loading.module import ImageDataModule
from vit.inference.answers.calibration import fit_temperature
from vit.inference.deployment import can_pack
from vit.inference.devices import autocast
from vit.inference.scores.image_groups import in_groups
from vit.inference.scores.scored_images import ScoredImages
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.distributed.devices import synchronized
from vit.training.lora import add_adapters
from vit.training.network.features import (
    FrozenBackbone,
    HeadFit,
    Labeled,
    SharedFeatures,
    labeled,
    last_layer,
    probe_loss,
)
from vit.training.observers import Listener
from vit.training.optim import matrices_of_blocks
from vit.training.planning.network_choice import keeps_rows, network_of_weights
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.training.recipes.recipe import ModelConfig
from vit.training.running.result import Measured, MeasuredCheckpoint, TrainingStats, measure_checkpoint
from vit.weights.hubs import UNKNOWN
from vit.weights.open import open_pretrained

MOST_IMAGES = 10_000  # of a split: a start need not be exact, and features of more images cost minutes
ROW_IMAGES = 50  # of a class: its mean feature need not be exact
MANY = 1_000  # images whose features take long enough for a line before


def fits_head(model: ModelConfig, network: Network) -> bool:
    """Whether a fine-tuning fits a new last layer first.

    "auto": of a CNN alone. With 140 photographs it gained 3.2 points by it, and a ViT 0.5 (`clothing_start`,
    docs/results.md). Neither is certain with 5 seeds. Where batch norms do not keep their statistics, it was 30 points.
    """
    if model.freeze == "backbone" or model.init_head == "random":
        return False
    return model.init_head == "probe" or not matrices_of_blocks(network.named_parameters())


def start_head(network: Network, plan: Plan, notice: Callable[[str], None]) -> None:
    """Give the last layer the weights of a linear probe, with the penalty of the lowest validation loss.

    Every process computes all features and so gets the same layer, up to rounding, without waiting for another. A
    network that does not end in one linear layer stays as it is.
    """
    if last_layer(network) is None:
        notice("weights, last layer: random, because the network does not end in one linear layer")
        return
    train, validation = (
        some.select(np.sort(np.random.default_rng(plan.recipe.seed).permutation(len(some))[:MOST_IMAGES]))
        for some in (plan.source.splits["train"], plan.source.splits["validation"])
    )
    if len(train) + len(validation) > MANY:
        notice(f"weights, last layer: computing features of {len(train) + len(validation):,} images for a linear probe")
    head, (features, val_features) = _labeled_features(network, plan, train, validation)
    loss = probe_loss(train, plan.class_balance, plan.recipe.optim.multilabel_loss)
    lowest = HeadFit(features, val_features, network.num_classes, loss).put_best_into(head)
    notice(f"weights, last layer: a linear probe on {len(features[1]):,} training images, validation loss {lowest:.3f}")


def start_rows(network: Network, plan: Plan, new: Sequence[str]) -> None:
    """Give the rows of new classes the values of `add_rows`, from some training images of every class."""
    train = plan.source.splits["train"]
    order = np.random.default_rng(plan.recipe.seed).permutation(len(train))
    number_of = {name: number for number, name in enumerate(plan.source.class_names)}
    places = [order[train.labels[order] == number][:ROW_IMAGES] for number in number_of.values()]
    head, [known] = _labeled_features(network, plan, train.select(np.sort(np.concatenate(places))))
    add_rows(head, *known, [number_of[name] for name in new])


@torch.no_grad()
def add_rows(head: nn.Linear, features: Tensor, labels: Tensor, new: Sequence[int]) -> None:
    """Give the rows of new classes weights of the mean feature (D,) of their images (n,); the other rows stay.

    A row has the direction from the mean of all classes to that of its class, and the mean length of the other rows. At
    the mean of all classes its logit is the mean of the others. As the imprinted weights of Qi et al. 2018, "Low-Shot
    Learning with Imprinted Weights" (arXiv 1712.07136), for a layer with a bias and features that are not of length 1.
    A new class without an image keeps its row.
    """
    means = {number: features[labels == number].mean(dim=0) for number in labels.unique().tolist()}
    center = torch.stack(list(means.values())).mean(dim=0)
    known = [number for number in range(head.out_features) if number not in new]
    length = head.weight[known].norm(dim=1).mean()
    level = (head.weight[known] @ center + head.bias[known]).mean()
    for number in set(new) & means.keys():
        head.weight[number] = length * F.normalize(means[number] - center, dim=0)
        head.bias[number] = level - head.weight[number] @ center


def _labeled_features(network: Network, plan: Plan, *parts: Samples) -> tuple[nn.Linear, list[Labeled]]:
    was_training = network.training
    backbone = FrozenBackbone(network, plan)
    features = [labeled(some, backbone.features_of(some)) for some in parts]
    backbone.whole().train(was_training)
    return backbone.head, features


@dataclass(frozen=True)
class InitialNetwork:
    """The network that a training starts from."""

    network: Network
    license: str | None = None  # license of its weights; None: random weights, not stated, or a resumed training
    seconds: float = 0.0  # time of the linear probe that fitted the last layer, or of the features of new classes


def initial_network(
    plan: Plan, resume: bool, notice: Callable[[str], None], has_classes: bool = True
) -> InitialNetwork:
    """The network of a plan, ready to train. `notice` gets the origin of all weights, line by line.

    Args:
        resume: whether a checkpoint will replace the weights, so that pretrained weights are not needed.
        has_classes: whether the layers for classes stay, so that their initial values are worth a line.
    """
    network = plan.build_network()
    model = plan.recipe.model
    facts: list[tuple[str, str]] = []
    license_name, has_new_head = None, False
    new_rows: tuple[str, ...] = ()
    if model.init_from is not None and not resume:
        pretrained = open_pretrained(model.init_from, network_of_weights(model))
        names = plan.source.class_names if has_classes else None
        report = pretrained.fill(network, names, keeps_rows(model, plan.source))
        facts += [*pretrained.facts(plan.preprocess), *report.facts()]
        if guesses := pretrained.guesses_of_training(network, plan.preprocess):
            notice(
                f"WARNING: {model.init_from} does not settle these values, so they are guesses: {guesses}; "
                "--model.network.num_heads and --model.preprocess.mean, ... replace them"
            )
        has_new_head, new_rows = bool(report.initialized), report.new_rows
        license_name = None if pretrained.license == UNKNOWN else pretrained.license
    if model.lora is not None:
        facts += add_adapters(network, model.lora)
    for name, value in facts if has_classes else (fact for fact in facts if fact[0] != "initialized"):
        notice(f"weights, {name}: {value}")
    began = time.perf_counter()
    if new_rows:
        start_rows(network, plan, new_rows)
    elif has_new_head and has_classes and fits_head(model, network):
        start_head(network, plan, notice)
    seconds = time.perf_counter() - began
    if plan.world_size > 1:
        network = synchronized(network, plan.device)
    return InitialNetwork(network.laid_out_for(plan.device), license_name, seconds)


def describe(plan: Plan, license: str | None) -> Description:
    """The description that every checkpoint of a training holds, with the license of the weights it starts from."""
    names = plan.source.class_names
    rules = unfitted_rules(plan.source.task, len(names))
    return Description(
        names, plan.spec, plan.preprocess, plan.precision, versions=versions(), multilabel=rules, license=license
    )


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
            if number == 0 or sign * metrics[metric] > best:  # of features that are not finite, all are NaN
                best = max(best, sign * metrics[metric])
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
    by_split = {split: _features(backbone, split, data, plan, shared) for split in splits}
    scored = {split: _scored(backbone, data.source.splits[split], plan, *by_split[split]) for split in splits}
    fitted = fit_temperature(scored[splits[0]], splits[0])
    training = TrainingFeatures.chosen(features, plan.recipe.seed)
    novelty = Novelty.of(training, training.distances(by_split[splits[0]][0].cpu()), scored[splits[0]].groups)
    calibrated: dict[str, ScoredImages] = {split: one.at(fitted.value) for split, one in scored.items()}
    if "test" in calibrated:
        calibrated["test"] = replace(calibrated["test"], novelty=novelty.of_features(by_split["test"][0].cpu()))
    return MeasuredCheckpoint(description, fitted, calibrated, novelty)


def _features(
    backbone: FrozenBackbone, split: str, data: ImageDataModule, plan: Plan, shared: SharedFeatures | None
) -> tuple[Tensor, Labels]:
    """As the backbone's; those that other trainings have computed are not computed again."""
    if shared is None:
        return backbone.features(data.evaluation_loader(split))
    values, readable = shared.of(plan, data.source.splits[split], backbone.features_of)
    return values.to(backbone.engine.device), readable


@torch.inference_mode()
def _scored(backbone: FrozenBackbone, samples: Samples, plan: Plan, features: Tensor, readable: Labels) -> ScoredImages:
    """Images of a split by the features (n, D) of those that can be read, which are at the indices `readable` (n,)."""
    is_packed = features.device.type == "cpu" and can_pack(torch.bfloat16)
    is_exact = is_packed and isinstance(backbone.network, VisionTransformer)  # as `prepared` computes the head
    with autocast("32-true" if is_exact else plan.precision, features.device):
        logits = backbone.head.to(features.device)(features).float()
    probabilities = logits.softmax(dim=1).cpu().numpy()
    left_out = {samples.paths[index]: "cannot be read" for index in np.setdiff1d(np.arange(len(samples)), readable)}
    paths = tuple(samples.paths[index] for index in readable)
    return in_groups(ScoredImages(paths, samples.labels[readable], probabilities, left_out=left_out), samples)
