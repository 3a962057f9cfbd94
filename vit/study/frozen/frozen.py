"""Linear probes on frozen networks: the preliminary answer of a study, and backbones compared

Each image is computed once by each backbone. A head is then fitted in a fraction of a second. The whole curve
takes minutes where fine-tuning takes hours. Fine-tuned networks can rank otherwise.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Labels, Samples, Source
from vit.data.pixels.preprocess import Preprocess
from vit.data.splits.split import SplitRow, read_splits
from vit.data.splits.subset import subset, subset_kind
from vit.errors import DataError
from vit.inference.answers.nearest import neighbor_classifier
from vit.inference.scores.image_groups import effective_number, gathered, numbered
from vit.layout import FEATURES
from vit.models.spec import NetworkSpec
from vit.study.answer.wording import complement, equal_seeds
from vit.study.common_images import of_fold
from vit.study.findings import CellResult, Difference, Interval
from vit.study.folder import collect
from vit.study.frozen.backbones import Backbone
from vit.study.grid import Cell
from vit.study.statistics.paired import difference, hochberg, pairs
from vit.study.statistics.variance_components import Bools, Floats, mean_error
from vit.training.losses import class_balance
from vit.training.network.features import (
    FrozenBackbone,
    HeadFit,
    Labeled,
    SharedFeatures,
    StoredFeatures,
    labeled,
    probe_loss,
)
from vit.training.network.initial_network import initial_network
from vit.training.planning.plan import Plan, plan_of
from vit.training.recipes.recipe import Recipe
from vit.weights.hubs import UNKNOWN

# how often fine-tuned networks had the same one ahead; `make results` writes it, as in docs/atlas.md
AGREEMENT = "on 5 sets the same was ahead in 8 of 11 (73 %, 43 to 90) at 224 pixels and 5 of 12 (42 %, 19 to 68) at 96"
FROZEN_SEEDS = 10
_MOST_SIZES = 8
NEIGHBORS = (1, 5, 20)  # numbers of neighbors, of which validation images choose one


def frozen_sizes(pool: int, num_classes: int) -> list[int]:
    """Up to eight sizes from two images of each class to all, in equal ratios of about 1.5 or more."""
    least = min(pool, max(2 * num_classes, 20))
    count = int(np.clip(1 + np.log(pool / least) / np.log(1.4), 1, _MOST_SIZES))
    return sorted({round(size) for size in np.geomspace(least, pool, count)} | {pool})


def frozen_results(
    name: str, recipe: Recipe, sizes: Sequence[int], sources: Sequence[Source], folder: Path, hashes: Mapping[str, str]
) -> list[CellResult]:
    """Linear probes of one network: a result for each size and seed, without a run folder.

    With all images every seed has the same ones, so that one fit stands for all. The recipe is that of its fine-tuning,
    which names weights to start from, and `hashes` is {path: content hash}. UsageError where the network does not end
    in one linear layer.
    """
    model = replace(recipe.model, freeze="backbone", init_head="random", lora=None)
    alone = replace(recipe, model=model, optim=replace(recipe.optim, best_metric="loss"))
    plan = plan_of(replace(alone, data=replace(alone.data, train_images=None, subset_seed=None)))
    backbone = FrozenBackbone(initial_network(plan, False, lambda _: None, has_classes=False).network, plan)
    shared = SharedFeatures(folder, hashes)

    def features(samples: Samples) -> tuple[Tensor, Labels]:
        values, rows = shared.of(plan, samples, backbone.features_of)
        return values.to(plan.device), rows

    results: list[CellResult] = []
    fitted: dict[tuple[int, int], CellResult] = {}  # by the size, and by the place in memory of the images
    for size in sizes:
        for seed, source in enumerate(sources):
            train, test = source.splits["train"], source.splits["test"]
            same = fitted.get((size, id(source))) if size == len(train) else None
            if same is not None:
                results.append(replace(same, seed=seed))
                continue
            began = time.perf_counter()
            part = subset(train, size, seed, subset_kind(train.labels, plan.recipe.data.subset))
            of_test = features(test)
            known = [labeled(some, features(some)) for some in (part, source.splits["validation"])]
            val_loss, correct = _probed(replace(plan, source=source), part, known[0], known[1], labeled(test, of_test))
            results.append(
                CellResult(
                    series=name,
                    network=plan.spec.name,
                    num_images=size,
                    seed=seed,
                    accuracy=float(correct.mean()),
                    validation_loss=val_loss,
                    batch_size=size,
                    parameters=plan.cost.parameters,
                    flops=plan.cost.flops,
                    seconds=time.perf_counter() - began,
                    correct=correct,
                    groups=numbered(test.select(of_test[1]).groups),
                )
            )
            fitted[size, id(source)] = results[-1]
    least = min(len(one.correct) for one in results)  # folds can differ by an image
    for place, one in enumerate(results):
        if one.groups is None:
            correct = of_fold(one.correct, least, one.seed)
            results[place] = replace(one, correct=correct, accuracy=float(correct.mean()))
    return results


def _probed(plan: Plan, part: Samples, train: Labeled, validation: Labeled, test: Labeled) -> tuple[float, Bools]:
    """(validation loss, whether each test image (T,) is right) of the head with the best penalty."""
    images = replace(plan.source, splits={**plan.source.splits, "train": part})
    balance = class_balance(plan.recipe.optim, plan.recipe.data.sampling, images)
    loss = probe_loss(part, balance, plan.recipe.optim.multilabel_loss)
    best = torch.nn.Linear(train[0].shape[1], len(plan.source.class_names)).to(plan.device)
    lowest = HeadFit(train, validation, len(plan.source.class_names), loss).put_best_into(best)
    with torch.inference_mode():
        return lowest, (best(test[0]).argmax(dim=1) == test[1]).cpu().numpy()


def measured_backbones(study: Path, cells: Sequence[Cell], sources: Mapping[str, str]) -> list[Backbone]:
    """The backbones of a finished study at the largest size that all, or most, have; the most accurate first.

    A backbone without a finished probe does not count. Differences are paired by seed and test image, and tested with a
    correction (`behind_the_first`). `sources` is {series: weights}. DataError where no cell is finished.
    """
    results, protocol, failed = collect(study)
    if not results:
        why = failed[0].error if failed else "none was tried"
        raise DataError(f"none of the probes in {study} is finished: {why}", "see log.txt in their folders")
    having: dict[int, set[str]] = {}
    for one in results:
        having.setdefault(one.num_images, set()).add(one.series)
    size = max(having, key=lambda size: (len(having[size]), size))
    here = {name: [one for one in results if one.series == name and one.num_images == size] for name in sources}
    here = {name: probes for name, probes in here.items() if probes}
    equal = equal_seeds(protocol, [size]) is not None
    seeds = sorted({one.seed for probes in here.values() for one in probes})
    seeds += [seeds[-1] + 1] * (len(seeds) == 1)
    wrong = {name: _wrong(probes, seeds if equal else []) for name, probes in here.items()}
    units = effective_number(results[0].groups)
    errors = {name: mean_error(np.stack(list(of_seeds.values())), units) for name, of_seeds in wrong.items()}
    order = sorted(here, key=lambda name: errors[name].value)
    gaps = behind_the_first({name: wrong[name] for name in order}, size, units)
    recipes = {cell.series: cell.recipe for cell in cells if cell.num_images == size}
    backbones = []
    for name in order:
        runs, gap = here[name], gaps.get(name)
        stored = stored_features(study, recipes[name])
        backbones.append(
            Backbone(
                name=name,
                source=sources[name],
                num_images=size,
                num_seeds=len(runs),
                equal_seeds=equal,
                accuracy=complement(errors[name]),
                behind=gap.gap if gap else Interval(0.0, None, None) if name == order[0] else None,
                p_adjusted=1.0 if gap is None else gap.p_adjusted,
                neighbors=float(np.mean([neighbor_accuracy(study / one.run, stored) for one in runs])),
                seconds_per_image=max(stored, key=lambda one: len(one.values)).seconds_per_image,
                parameters=runs[0].parameters,
                license=RunResult.read(RunDirectory(study / runs[0].run).result_path).license or UNKNOWN,
            )
        )
    return backbones


def behind_the_first(
    wrong: Mapping[str, Mapping[int, Floats]], size: int, groups: float | None = None
) -> dict[str, Difference]:
    """The difference of each backbone to the most accurate one; none without a common seed.

    The tests have Hochberg's correction for all pairs of backbones: the same test images choose the most accurate one,
    so any pair may become a claim. `wrong` is {name: {seed: (T,) wrong test images}}, the most accurate one first.
    """
    first, *_ = wrong
    differences = {
        (better, name): difference(pair)
        for better, name in itertools.combinations(wrong, 2)
        for pair in pairs({size: wrong[name]}, {size: wrong[better]}, groups)
    }
    adjusted = hochberg([one.tested_p for one in differences.values()])
    tested = zip(differences.items(), adjusted, strict=True)
    return {name: replace(one, p_adjusted=p) for ((better, name), one), p in tested if better == first}


def stored_features(study: Path, recipe: Recipe) -> list[StoredFeatures]:
    """The features of a recipe's backbone by the kind of machine that computed them; DataError where they are gone."""
    folder = study / FEATURES
    files = SharedFeatures(folder, {}).all_files(plan_of(recipe))
    if not files:
        raise DataError(f"{folder} has no features of {recipe.model.init_from}", "give --name for a new folder")
    return [StoredFeatures.read(one.values_path) for one in files]


def write_random(network: str, path: Path) -> None:
    """A checkpoint of a network with random weights, drawn from a fixed seed."""
    spec = NetworkSpec.named(network, 2)
    preprocess = Preprocess(spec.default_image_size)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = spec.build(preprocess.image_size).state_dict()
    write_checkpoint(checkpoint_content(Description(("a", "b"), spec, preprocess), weights), path)


def _wrong(results: Sequence[CellResult], equal: Sequence[int]) -> dict[int, Floats]:
    """{seed: (T,) which test images are wrong}. Of seeds that are all equal, one tells what each other one would."""
    wrong = {one.seed: gathered(~one.correct, one.groups) for one in results}
    return dict.fromkeys(equal, wrong[min(wrong)]) | wrong


def neighbor_accuracy(run: Path, stored: Sequence[StoredFeatures]) -> float:
    """Accuracy of nearest training images by cosine distance on the test images of a run.

    Of several numbers of neighbors the one with the highest validation accuracy counts. The run has read all its
    features from one item of `stored`.
    """
    splits = read_splits(RunDirectory(run).splits_path)
    names = {row.content_hash for rows in splits.values() for row in rows}
    features = max(stored, key=lambda one: len(names & one.place.keys()))
    (train, labels), (validation, val_labels), (test, test_labels) = (
        _features(splits[split], features) for split in ("train", "validation", "test")
    )
    fits = []
    for count in sorted({min(count, len(train)) for count in NEIGHBORS}):
        fitted = neighbor_classifier(train, labels, count)
        fits.append((fitted.score(validation, val_labels), -count, fitted))
    best = max(fits, key=lambda one: one[:2])[2]  # of equally good ones the fewest neighbors
    return float(best.score(test, test_labels))


def _features(rows: list[SplitRow], stored: StoredFeatures) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]:
    """Features (n, D) and labels (n,) of the images that have features."""
    own = [row for row in rows if row.content_hash in stored.place]
    return stored.values[[stored.place[row.content_hash] for row in own]].numpy(), np.array([row.label for row in own])
