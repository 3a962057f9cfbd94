"""Fine-tuning starts from a linear probe: the last layer is fitted first, while the other layers stay as they are

Kumar et al. 2022, "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution" (arXiv 2202.10054,
LP-FT). From a random last layer, the first steps change the other layers to suit a layer that knows nothing yet.
"""

from collections.abc import Callable

import numpy as np
from torch import nn

from vit.data.loader import labeled_images
from vit.data.samples import Samples
from vit.inference.engine import Engine
from vit.models.network import Network
from vit.training.choose_loss import choose_loss
from vit.training.features import computed
from vit.training.linear_head import HeadFit, Labeled, labels_of, last_layer
from vit.training.optim import matrices_of_blocks
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.training.recipes.recipe import ModelConfig

MOST_IMAGES = 10_000  # of a split: a start need not be exact, and features of more images cost minutes
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

    Args:
        network: network with pretrained weights below its last layer.
        notice: receiver of what is done, in one line.
    """
    found = last_layer(network)
    if found is None:
        notice("weights, last layer: random, because the network does not end in one linear layer")
        return
    name, head = found
    train, validation = (_some(plan.source.splits[split], plan.recipe.seed) for split in ("train", "validation"))
    if len(train) + len(validation) > MANY:
        notice(f"weights, last layer: computing features of {len(train) + len(validation):,} images for a linear probe")
    was_training = network.training
    network.set_submodule(name, nn.Identity())  # now the network returns the features that its head reads
    try:
        engine = Engine(network, plan.preprocess, plan.device, plan.precision)
        labeled = _labeled(engine, train)
        val_labeled = _labeled(engine, validation)
    finally:
        network.set_submodule(name, head)
        network.train(was_training)
    loss = choose_loss(train, plan.class_balance, plan.recipe.optim.multilabel_loss, label_smoothing=0.0)
    fit, lowest = HeadFit(labeled, val_labeled, network.num_classes, loss), float("inf")
    for penalty in PENALTIES:
        fit.fit(penalty)
        val_loss = fit.metrics()["val/loss"]
        if val_loss < lowest:
            lowest = val_loss
            fit.put_into(head)
    notice(f"weights, last layer: a linear probe on {len(labeled[1]):,} training images, validation loss {lowest:.3f}")


def _some(samples: Samples, seed: int) -> Samples:
    """At most `MOST_IMAGES` images, in their order."""
    if len(samples) <= MOST_IMAGES:
        return samples
    return samples.select(np.sort(np.random.default_rng(seed).permutation(len(samples))[:MOST_IMAGES]))


def _labeled(engine: Engine, samples: Samples) -> Labeled:
    """Features (n, D) float32 and labels of the images that can be read."""
    values, kept = computed(engine, labeled_images(samples, engine.preprocess))
    return values, labels_of(samples, kept.numpy(), values.device)
