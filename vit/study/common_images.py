"""The test images that all runs of a study have measured, and which of these each run has right"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vit.checkpoints.result import RunResult, unpack
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Labels
from vit.data.splits.split import SplitRow, lists_groups, read_splits
from vit.errors import DataError
from vit.inference.scores.image_groups import numbered
from vit.study.statistics.variance_components import Bools


@dataclass(frozen=True)
class CommonAnswers:
    """Which common test images each run has right."""

    correct: list[Bools]  # (T,) answers of each run
    groups: Labels | None  # (T,) number of each image's group; None where images have none
    num_left_out: int


def common_answers(runs: Sequence[tuple[RunDirectory, RunResult]]) -> CommonAnswers:
    """Which common test images each run has right: an image that one run could not read counts in none.

    Raises:
        DataError: two runs were tested on different images or list different groups, fewer than two images are common,
            or a list of images is damaged.
    """
    answers = [unpack(result.correct["test"], result.num_images["test"]) for _, result in runs]
    if len({result.fingerprints.get("test") for _, result in runs}) <= 1:
        if answers:
            _check_enough(runs, len(answers[0]))
        groups = [group_numbers(*run) for run in runs]
        check_same_groups([run.path for run, _ in runs], groups)
        return CommonAnswers(answers, groups[0] if groups else None, 0)
    listed = [_test_images(run) for run, _ in runs]
    for (run, _), rows in zip(runs, listed, strict=True):
        if [row[:2] for row in rows] != [row[:2] for row in listed[0]]:
            raise DataError(
                f"{runs[0][0].path} and {run.path} were tested on different images, so they cannot be compared",
                "move the folder that is not of this study elsewhere, and give the 'vit study' command again",
            )
    measured = np.stack([_measured(listed[0], result.left_out.get("test", {})) for _, result in runs])
    for (run, _), answer, own in zip(runs, answers, measured, strict=True):
        if own.sum() != len(answer):
            raise DataError(f"{run.result_path} does not fit {run.splits_path.name} beside it", "train this run again")
    common = np.asarray(measured.all(axis=0))
    _check_enough(runs, int(common.sum()))
    shared = [answer[common[own]] for answer, own in zip(answers, measured, strict=True)]
    of_runs = [numbered([rows[place].group for place in np.flatnonzero(common)]) for rows in listed]
    check_same_groups([run.path for run, _ in runs], of_runs)
    return CommonAnswers(shared, of_runs[0], int((~common).sum()))


def answers_of(runs: Sequence[tuple[int, RunDirectory, RunResult]], has_folds: bool) -> CommonAnswers:
    """The answers of all runs, with one number of test images.

    Where each seed tests its own fold, its runs share their images. A fold of one image more than another lacks its
    last one here. Rows of the seeds are then of other images: the analysis of crossed seeds and images finds no effect
    of an image that is common to the seeds, and the scatter of the seeds shows everything (benchmarks/study_folds.py).
    """
    if not has_folds:
        return common_answers([(run, result) for _, run, result in runs])
    of_seed = {
        seed: common_answers([(run, result) for own, run, result in runs if own == seed])
        for seed in dict.fromkeys(seed for seed, _, _ in runs)
    }
    least = min((len(found.correct[0]) for found in of_seed.values()), default=0)
    places = {seed: iter(found.correct) for seed, found in of_seed.items()}
    correct = [next(places[seed])[:least] for seed, _, _ in runs]
    return CommonAnswers(correct, None, sum(found.num_left_out for found in of_seed.values()))


def check_same_groups(paths: Sequence[Path], groups: Sequence[Labels | None]) -> None:
    """Raise DataError where two runs have different groups of the same images, because intervals count one kind.

    Args:
        groups: (T,) numbers of the groups of the same images, as each run lists them; None: no groups.
    """
    first = groups[0] if groups else None
    for path, own in zip(paths, groups, strict=True):
        if (own is None) != (first is None) or (own is not None and first is not None and (own != first).any()):
            raise DataError(
                f"{paths[0]} and {path} list different groups of the same test images, and intervals count one kind",
                "train all runs with the same groups (data.groups, or the same column of the CSV)",
            )


def group_numbers(run: RunDirectory, result: RunResult) -> Labels | None:
    """(T,) number of each measured test image's group; None where images have none."""
    if not lists_groups(run.splits_path):
        return None
    return numbered([row.group for row in measured_rows(run, result, _test_images(run))])


def measured_rows(run: RunDirectory, result: RunResult, rows: Sequence[SplitRow]) -> list[SplitRow]:
    """The rows of the test images that a run has measured, in the order of its predictions.

    Raises:
        DataError: the result counts other images.
    """
    measured = _measured(rows, result.left_out.get("test", {}))
    if measured.sum() != result.num_images["test"]:
        raise DataError(f"{run.result_path} does not fit {run.splits_path.name} beside it", "train this run again")
    return [row for row, is_measured in zip(rows, measured, strict=True) if is_measured]


def _check_enough(runs: Sequence[tuple[RunDirectory, RunResult]], num_common: int) -> None:
    """Raise DataError where there are fewer than two common test images: one image has no scatter."""
    if num_common < 2:
        raise DataError(
            f"the runs of {runs[0][0].path} and others have fewer than two test images in common",
            "repair or add test images, and give the 'vit study' command again",
        )


def _test_images(run: RunDirectory) -> list[SplitRow]:
    return read_splits(run.splits_path).get("test", [])


def _measured(rows: Sequence[SplitRow], left_out: Mapping[str, str]) -> Bools:
    """(T,) whether an image was measured. The names left out are relative to a folder that begins all paths of rows."""
    paths = [row.path for row in rows]
    beginnings = {path.removesuffix(name) for name in left_out for path in paths if path.endswith(f"{os.sep}{name}")}
    base = min((start for start in beginnings if all(path.startswith(start) for path in paths)), key=len, default="")
    return np.array([path.removeprefix(base) not in left_out for path in paths])
