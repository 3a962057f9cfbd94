"""Fine-tuning starts from a linear probe: the last layer is fitted first, while the other layers stay as they are

Kumar et al. 2022, "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution" (arXiv 2202.10054,
LP-FT). From a random last layer, the first steps change the other layers to suit a layer that knows nothing yet.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from vit.data.core.samples import Samples
from vit.data.loading.loader import labeled_images
from vit.models.network import Network
from vit.training.network.backbone import Backbone, labeled, last_layer
from vit.training.network.linear_head import HeadFit, probe_loss
from vit.training.optim import matrices_of_blocks
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.training.recipes.recipe import ModelConfig

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

    Args:
        network: network with pretrained weights below its last layer.
        notice: receiver of what is done, in one line.
    """
    if last_layer(network) is None:
        notice("weights, last layer: random, because the network does not end in one linear layer")
        return
    train, validation = (_some(plan.source.splits[split], plan.recipe.seed) for split in ("train", "validation"))
    if len(train) + len(validation) > MANY:
        notice(f"weights, last layer: computing features of {len(train) + len(validation):,} images for a linear probe")
    was_training = network.training
    backbone = Backbone(network, plan)
    features, val_features = (
        labeled(some, backbone.features(labeled_images(some, plan.preprocess))) for some in (train, validation)
    )
    backbone.whole().train(was_training)
    loss = probe_loss(train, plan.class_balance, plan.recipe.optim.multilabel_loss)
    fit, lowest = HeadFit(features, val_features, network.num_classes, loss), float("inf")
    for penalty in PENALTIES:
        fit.fit(penalty)
        val_loss = fit.metrics()["val/loss"]
        if val_loss < lowest:
            lowest = val_loss
            fit.put_into(backbone.head)
    notice(f"weights, last layer: a linear probe on {len(features[1]):,} training images, validation loss {lowest:.3f}")


def start_rows(network: Network, plan: Plan, new: Sequence[str]) -> None:
    """Give the rows of new classes weights of the mean feature of their training images; the other rows stay.

    A row has the direction from the mean of all classes to that of its class, and the mean length of the other rows. At
    the mean of all classes its logit is the mean of the others. As the imprinted weights of Qi et al. 2018, "Low-Shot
    Learning with Imprinted Weights" (arXiv 1712.07136), for a layer with a bias and features that are not of length 1.
    """
    train, was_training = plan.source.splits["train"], network.training
    order = np.random.default_rng(plan.recipe.seed).permutation(len(train))
    number_of = {name: number for number, name in enumerate(plan.source.class_names)}
    places = [order[train.labels[order] == number][:ROW_IMAGES] for number in number_of.values()]
    samples = train.select(np.sort(np.concatenate(places)))
    backbone = Backbone(network, plan)
    values, labels = labeled(samples, backbone.features(labeled_images(samples, plan.preprocess)))
    backbone.whole().train(was_training)
    means = {number: values[labels == number].mean(dim=0) for number in labels.unique().tolist()}
    center, added = torch.stack(list(means.values())).mean(dim=0), [number_of[name] for name in new]
    kept = [number for number in number_of.values() if number not in added]
    with torch.no_grad():
        weight, bias = backbone.head.weight, backbone.head.bias
        length, level = weight[kept].norm(dim=1).mean(), (weight[kept] @ center + bias[kept]).mean()
        for number in set(added) & means.keys():
            weight[number] = length * F.normalize(means[number] - center, dim=0)
            bias[number] = level - weight[number] @ center


def _some(samples: Samples, seed: int) -> Samples:
    """At most `MOST_IMAGES` images, in their order."""
    if len(samples) <= MOST_IMAGES:
        return samples
    return samples.select(np.sort(np.random.default_rng(seed).permutation(len(samples))[:MOST_IMAGES]))
