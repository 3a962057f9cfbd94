"""A cross-validation: a cell for each fold of all images, and what all of them have predicted

A cell is an ordinary run with the option `data.fold`, in a folder that a hash of everything that decides its result
names, as in a study. So a finished fold is never trained again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from vit.atomic_files import write_json
from vit.checkpoints.run import RunDirectory, slug
from vit.data.core.samples import Labels
from vit.data.splits.split import read_splits
from vit.errors import DAMAGE, BadInputsError, DataError, UsageError, explained
from vit.inference.scores.image_groups import NORMAL_QUANTILE, effective_number, numbered, variance_of_sum
from vit.inference.scores.intervals import Metric, wilson
from vit.layout import CELLS, CrossvalLayout
from vit.plain_files import read_json
from vit.study.answer.answer_warnings import last_weights_warning
from vit.study.findings import ALPHA, Interval, JsonValue
from vit.study.fold_table import FoldPredictions
from vit.study.grid import Cell, Inputs, key_of
from vit.study.statistics.variance_components import Bools
from vit.training.recipes.recipe import Recipe


@dataclass(frozen=True)
class FoldAccuracy:
    """The accuracy of a cross-validation over all images."""

    accuracy: Interval  # fraction of right images, with the interval that respects folds and groups
    naive: Interval  # the same fraction with Wilson's interval, which takes all images for independent
    folds: tuple[Interval, ...]  # (K,) accuracy of each fold, each with an interval of its images, or of its groups
    num_images: tuple[int, ...]
    num_groups: int | None  # number of groups; None where images have none


def fold_accuracy(correct: Bools, folds: Labels, groups: Sequence[str] | None = None) -> FoldAccuracy:
    """The accuracy of a cross-validation from two or more folds, with an interval that respects its folds.

    Any two networks share most of their training images, so that the errors of the images are correlated. An interval
    that takes them for independent is too narrow (Bates, Hastie and Tibshirani 2023, arXiv 2104.00673). This is the
    interval of Nadeau and Bengio 2003, "Inference for the generalization error", Machine Learning 52: its variance is
    (1 / K + test images / training images) S^2 = (1 / K + 1 / (K - 1)) S^2 with the variance S^2 of the folds'
    accuracies, and Student's t with K - 1 degrees of freedom. Images that validate a training count as training images
    (half the interval would be 3 % longer without a tenth), whatever `data.train_images` is. S^2 of five folds may be
    small by chance, so the interval is never narrower than that of independent images, or of independent groups where
    images have groups. docs/measurements.md has the measured coverage.

    Args:
        folds: (n,) number of each image's fold.
    """
    _, fold, sizes = np.unique(folds, return_inverse=True, return_counts=True)
    num_images, share = len(correct), float(correct.mean())
    of_fold, count = np.bincount(fold, correct) / sizes, len(sizes)
    # Nadeau and Bengio's variance of the mean, and the quantile of its interval
    spread = float((sizes / num_images * (of_fold - share) ** 2).sum()) * count / (count - 1)
    by_folds, quantile = (1 / count + 1 / (count - 1)) * spread, float(stdtrit(count - 1, 1 - ALPHA / 2))
    numbers = numbered(groups)
    by_units = variance_of_sum(correct.astype(np.float64) - share, numbers) / num_images**2
    reach = max(quantile * by_folds**0.5, NORMAL_QUANTILE * by_units**0.5)
    variance = max(by_folds, by_units)
    if variance > 0:
        interval = wilson(share, share * (1 - share) / variance, reach / variance**0.5)
    else:  # all images right, or all wrong
        interval = wilson(share, effective_number(numbers) or float(num_images), NORMAL_QUANTILE)
    places = [np.flatnonzero(fold == one) for one in range(count)]
    in_folds = [None if groups is None else numbered([groups[place] for place in rows.tolist()]) for rows in places]
    return FoldAccuracy(
        interval,
        wilson(share, float(num_images), NORMAL_QUANTILE),
        tuple(Metric.share(correct[rows], group) for rows, group in zip(places, in_folds, strict=True)),
        tuple(map(int, sizes)),
        None if groups is None else len(set(groups)),
    )


@dataclass(frozen=True)
class CrossvalResult:
    """What a cross-validation found."""

    description: Mapping[str, JsonValue]  # data, network, folds and seed, as crossval.json holds them
    predictions: FoldPredictions
    accuracy: FoldAccuracy
    runs: tuple[Path, ...]
    num_last_better: int  # folds whose last weights are clearly more accurate on validation images than the checkpoint
    left_out: Mapping[str, str] = field(default_factory=dict)  # images that could not be read, each with the reason
    seen_before: Sequence[str] = ()  # sentences about images that the first weights of all folds know already

    @property
    def judges(self) -> str:
        """The networks that predict the images of a fold."""
        return "the networks of other folds" if self.seen_before else "networks that have not trained on them"

    @property
    def warnings(self) -> list[str]:
        """Why the accuracy may be worth less than it seems."""
        return [*self.seen_before, *self.predictions.guessing]

    @property
    def left_out_text(self) -> str:
        """How many images are in no number; empty where all are tested."""
        if not self.left_out:
            return ""
        name, reason = next(iter(self.left_out.items()))
        more = f", and {len(self.left_out) - 1:,} more" if len(self.left_out) > 1 else ""
        return f"Could not be read, and is in no number: {name} ({reason}){more}"

    @property
    def last_weights_warning(self) -> str:
        remedy = "predicted: --optim.best_metric last predicts with the last weights."
        return last_weights_warning(self.num_last_better, len(self.runs), "folds", remedy)


def fold_cells(recipe: Recipe, network: str, inputs: Sequence[Inputs], num_images: Sequence[int]) -> list[Cell]:
    """The cell of each fold."""
    cells, folds = [], len(inputs)
    for number, (hashes, count) in enumerate(zip(inputs, num_images, strict=True), 1):
        fold_recipe = replace(recipe, data=replace(recipe.data, fold=f"{number}/{folds}"))
        folder = f"{CELLS}/{slug(network)}/fold{number}of{folds}-{key_of(fold_recipe, hashes)}"
        cells.append(Cell(network, count, recipe.seed, "", folder, fold_recipe, is_fold=True))
    return cells


class CrossvalDirectory(CrossvalLayout):
    """The folder of a cross-validation."""

    def describe(self, cells: Sequence[Cell], facts: Mapping[str, JsonValue]) -> None:
        """Write crossval.json. UsageError where the folder holds finished folds of other options, images or weights."""
        folders = [cell.folder for cell in cells]
        runs = self.runs() if self.description_path.is_file() else []
        known = {self.path / folder for folder in folders}
        lost = [run for run in runs if run.result_path.is_file() and run.path not in known]
        if lost:
            raise UsageError(
                f"{self.path} holds another cross-validation, of other options, images or weights: "
                f"{len(lost)} of its finished folds would be missing, such as {lost[0].path}",
                "give --name for a new folder, or repeat the options of that cross-validation",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.description_path, {**facts, "cells": folders})

    def description(self) -> dict[str, JsonValue]:
        """The content of crossval.json; DataError where it is damaged."""
        with explained(DataError, f"{self.description_path} is damaged", "run 'vit crossval' again", DAMAGE):
            content = read_json(self.description_path)
            if not all(isinstance(folder, str) for folder in content["cells"]):
                raise ValueError("its cells are not folders")
        return dict(content)

    @property
    def seen_before(self) -> list[str]:
        """Sentences about images that the first weights of all folds know already; DataError as for `description`."""
        sentences = self.description().get("seen_before", [])
        return [str(sentence) for sentence in sentences] if isinstance(sentences, list) else []

    def runs(self) -> list[RunDirectory]:
        folders = self.description()["cells"]
        assert isinstance(folders, list)
        return [RunDirectory(self.path / str(folder)) for folder in folders]

    def content_hashes(self) -> dict[str, str]:
        """{path: content hash} of the images that the folds have tested, as they were then, where the hash is known."""
        tested = (row for run in self.runs() for row in read_splits(run.splits_path)["test"])
        return {row.path: row.content_hash for row in tested if row.content_hash}

    def unfinished(self) -> BadInputsError:
        runs = self.runs()
        missing = [run for run in runs if not run.result_path.is_file()] or runs
        path = missing[0].failure_path
        why = f": {path.read_text(encoding='utf-8', errors='replace').strip()}" if path.is_file() else ""
        return BadInputsError(
            f"{len(missing):,} of {len(runs):,} folds are not finished, such as {missing[0].path}{why}",
            f"see {missing[0].log_path.name} there, and give the same 'vit crossval' command again",
        )

    def collect(self) -> CrossvalResult:
        """What all folds have predicted; writes predictions.csv and summary.json. BadInputsError: not finished."""
        runs = self.runs()
        results = [result for run in runs if (result := run.read_result()) is not None]
        if len(results) < len(runs):
            raise self.unfinished()
        joined = FoldPredictions.joined([FoldPredictions.read(run.fold_path) for run in runs])
        accuracy = fold_accuracy(joined.correct, joined.folds, joined.groups if any(joined.groups) else None)
        joined.write(self.predictions_path)
        description = self.description()
        left_out = {path: why for result in results for path, why in result.left_out.get("test", {}).items()}
        further = {"left_out": left_out} if left_out else {}
        write_json(self.summary_path, {**description, **asdict(accuracy), **further})
        num_early = sum(result.last_is_better for result in results)
        paths = tuple(run.path for run in runs)
        return CrossvalResult(description, joined, accuracy, paths, num_early, left_out, self.seen_before)
