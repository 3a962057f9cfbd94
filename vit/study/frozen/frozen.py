"""The preliminary answer of a study: linear probes on frozen networks, at many sizes and with many seeds

Each image is computed once by each backbone. A head is then fitted in a fraction of a second. The whole curve
takes minutes where fine-tuning takes hours. Fine-tuned networks can rank otherwise.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vit.data.core.samples import Labels, Samples, Source
from vit.data.loading.loader import labeled_images
from vit.data.splits.subset import subset, subset_kind
from vit.inference.scores.image_groups import numbered
from vit.study.cells import CellResult
from vit.study.statistics.variance_components import Bools
from vit.training.losses import class_balance
from vit.training.network.features import (
    FrozenBackbone,
    HeadFit,
    Labeled,
    SharedFeatures,
    computed,
    labeled,
    probe_loss,
)
from vit.training.network.initial_network import initial_network
from vit.training.planning.plan import Plan, plan_of
from vit.training.recipes.recipe import Recipe

# how often fine-tuned networks had the same one ahead; `make results` writes it, as in docs/atlas.md
AGREEMENT = "the same network was ahead in 6 of 15 cases (40 %, 20 to 64) on 5 sets of photographs, 4 at 96 pixels"
FROZEN_SEEDS = 10
_MOST_SIZES = 8


def frozen_sizes(pool: int, num_classes: int) -> list[int]:
    """Up to eight sizes from two images of each class to all, in equal ratios of about 1.5 or more."""
    least = min(pool, max(2 * num_classes, 20))
    count = int(np.clip(1 + np.log(pool / least) / np.log(1.4), 1, _MOST_SIZES))
    return sorted({round(size) for size in np.geomspace(least, pool, count)} | {pool})


def frozen_results(
    name: str, recipe: Recipe, sizes: Sequence[int], sources: Sequence[Source], folder: Path, hashes: Mapping[str, str]
) -> list[CellResult]:
    """Linear probes of one network: a result for each size and seed, without a run folder.

    With all images every seed has the same ones, so that one fit stands for all. UsageError where the network does not
    end in one linear layer.

    Args:
        recipe: recipe of its fine-tuning, which names weights to start from.
        hashes: {path: content hash} of all images.
    """
    model = replace(recipe.model, freeze="backbone", init_head="random", lora=None)
    alone = replace(recipe, model=model, optim=replace(recipe.optim, best_metric="loss"))
    plan = plan_of(replace(alone, data=replace(alone.data, train_images=None, subset_seed=None)))
    backbone = FrozenBackbone(initial_network(plan, False, lambda _: None, has_classes=False).network, plan)
    shared = SharedFeatures(folder, hashes)

    def compute(some: Samples) -> tuple[Tensor, Tensor]:
        return computed(backbone.engine, labeled_images(some, plan.preprocess))

    def features(samples: Samples) -> tuple[Tensor, Labels]:
        values, kept = shared.of(plan, samples, compute)
        return values.to(plan.device), kept

    found: list[CellResult] = []
    fitted: dict[tuple[int, int], CellResult] = {}  # by the size, and by the place in memory of the images
    for size in sizes:
        for seed, source in enumerate(sources):
            train, test = source.splits["train"], source.splits["test"]
            same = fitted.get((size, id(source))) if size == len(train) else None
            if same is not None:
                found.append(replace(same, seed=seed))
                continue
            began = time.perf_counter()
            part = subset(train, size, seed, subset_kind(train.labels, plan.recipe.data.subset))
            of_test = features(test)
            known = [labeled(some, features(some)) for some in (part, source.splits["validation"])]
            val_loss, correct = _probed(replace(plan, source=source), part, known[0], known[1], labeled(test, of_test))
            found.append(
                CellResult(
                    series=name,
                    network=plan.spec.name,
                    num_images=size,
                    seed=seed,
                    accuracy=float(correct.mean()),
                    validation_loss=val_loss,
                    steps=0,
                    batch_size=size,
                    epochs=0.0,
                    best_round=0,
                    parameters=plan.cost.parameters,
                    flops=plan.cost.flops,
                    seconds=time.perf_counter() - began,
                    images_per_second=0.0,
                    last_is_better=False,
                    run="",
                    correct=correct,
                    groups=numbered(test.select(of_test[1]).groups),
                )
            )
            fitted[size, id(source)] = found[-1]
    least = min(len(one.correct) for one in found)  # folds can differ by an image
    return [replace(one, correct=one.correct[:least]) if one.groups is None else one for one in found]


def _probed(plan: Plan, part: Samples, train: Labeled, validation: Labeled, test: Labeled) -> tuple[float, Bools]:
    """(validation loss, whether each test image (T,) is right) of the head with the best penalty."""
    images = replace(plan.source, splits={**plan.source.splits, "train": part})
    balance = class_balance(plan.recipe.optim, plan.recipe.data.sampling, images)
    loss = probe_loss(part, balance, plan.recipe.optim.multilabel_loss)
    best = torch.nn.Linear(train[0].shape[1], len(plan.source.class_names)).to(plan.device)
    lowest = HeadFit(train, validation, len(plan.source.class_names), loss).put_best_into(best)
    with torch.inference_mode():
        return lowest, (best(test[0]).argmax(dim=1) == test[1]).cpu().numpy()
