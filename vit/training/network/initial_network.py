"""The network that a training starts from: its weights, adapters, and batch norm over all processes

Fine-tuning starts from a linear probe: the last layer is fitted first, while the other layers stay as they are. Kumar
et al. 2022, "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution" (arXiv 2202.10054,
LP-FT). From a random last layer, the first steps change the other layers to suit a layer that knows nothing yet.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.checkpoints.format import Description
from vit.checkpoints.label_rules import unfitted_rules
from vit.checkpoints.result import versions
from vit.data.core.samples import Samples
from vit.data.loading.loader import labeled_images
from vit.models.network import Network
from vit.training.distributed.batch_norm import synchronized
from vit.training.lora import add_adapters
from vit.training.network.features import FrozenBackbone, HeadFit, Labeled, labeled, last_layer, probe_loss
from vit.training.optim import matrices_of_blocks
from vit.training.planning.network_choice import keeps_rows, network_of_weights
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.training.recipes.recipe import ModelConfig
from vit.weights.license import UNKNOWN
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
    train, validation = (_some(plan.source.splits[split], plan.recipe.seed) for split in ("train", "validation"))
    if len(train) + len(validation) > MANY:
        notice(f"weights, last layer: computing features of {len(train) + len(validation):,} images for a linear probe")
    head, (features, val_features) = _labeled_features(network, plan, train, validation)
    loss = probe_loss(train, plan.class_balance, plan.recipe.optim.multilabel_loss)
    fit, lowest = HeadFit(features, val_features, network.num_classes, loss), float("inf")
    for penalty in PENALTIES:
        fit.fit(penalty)
        val_loss = fit.metrics()["val/loss"]
        if val_loss < lowest:
            lowest = val_loss
            fit.put_into(head)
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
    kept = [number for number in range(head.out_features) if number not in new]
    length = head.weight[kept].norm(dim=1).mean()
    level = (head.weight[kept] @ center + head.bias[kept]).mean()
    for number in set(new) & means.keys():
        head.weight[number] = length * F.normalize(means[number] - center, dim=0)
        head.bias[number] = level - head.weight[number] @ center


def _labeled_features(network: Network, plan: Plan, *parts: Samples) -> tuple[nn.Linear, list[Labeled]]:
    was_training, backbone = network.training, FrozenBackbone(network, plan)
    features = [labeled(some, backbone.features(labeled_images(some, plan.preprocess))) for some in parts]
    backbone.whole().train(was_training)
    return backbone.head, features


def _some(samples: Samples, seed: int) -> Samples:
    if len(samples) <= MOST_IMAGES:
        return samples
    return samples.select(np.sort(np.random.default_rng(seed).permutation(len(samples))[:MOST_IMAGES]))


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
    license_name, has_new_head, seconds = None, False, 0.0
    new_rows: tuple[str, ...] = ()
    if model.init_from is not None and not resume:
        pretrained = open_pretrained(model.init_from, network_of_weights(model))
        names = plan.source.class_names if has_classes else None
        report = pretrained.fill(network, names, keeps_rows(model, plan.source))
        facts += [*pretrained.facts(plan.preprocess), *report.facts()]
        if guesses := pretrained.guesses_of_training(network, plan.preprocess):
            notice(
                f"WARNING: {model.init_from} does not state these values, so they are guesses: {guesses}; "
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
        seconds = time.perf_counter() - began
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
