"""The test images that all runs of a study have measured, and which of these each run has right"""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from vit.checkpoints.result import RunResult, unpack
from vit.checkpoints.run import RunDirectory
from vit.data.split import SplitRow, read_splits
from vit.errors import DataError
from vit.study.variance_components import Bools


def common_answers(runs: Sequence[tuple[RunDirectory, RunResult]]) -> tuple[list[Bools], int]:
    """Which common test images each run has right: an image that one run could not read counts in none.

    Returns:
        (T,) answers of each run, and the number of test images that do not count.

    Raises:
        DataError: two runs were tested on different images, or a list of images is damaged.
    """
    answers = [unpack(result.correct["test"], result.num_images["test"]) for _, result in runs]
    if len({result.fingerprints.get("test") for _, result in runs}) <= 1:
        return answers, 0
    listed = [_test_images(run) for run, _ in runs]
    for (run, _), rows in zip(runs, listed, strict=True):
        if [row[:2] for row in rows] != [row[:2] for row in listed[0]]:
            raise DataError(
                f"{runs[0][0].path} and {run.path} were tested on different images, so they cannot be compared",
                "remove the folder that is not of this study, and give the 'vit study' command again",
            )
    measured = np.stack([_measured(listed[0], result.left_out.get("test", {})) for _, result in runs])
    for (run, _), answer, own in zip(runs, answers, measured, strict=True):
        if own.sum() != len(answer):
            raise DataError(f"{run.result_path} does not fit {run.splits_path.name} beside it", "train this run again")
    common = np.asarray(measured.all(axis=0))
    if not common.any():
        raise DataError(f"the runs of {runs[0][0].path} and others have no test image in common", "repair the images")
    return [answer[common[own]] for answer, own in zip(answers, measured, strict=True)], int((~common).sum())


def _test_images(run: RunDirectory) -> list[SplitRow]:
    return read_splits(run.splits_path).get("test", [])


def _measured(rows: Sequence[SplitRow], left_out: Mapping[str, str]) -> Bools:
    """(T,) whether an image was measured. The names left out are relative to a folder that begins all paths of rows."""
    paths = [row.path for row in rows]
    beginnings = {path.removesuffix(name) for name in left_out for path in paths if path.endswith(f"{os.sep}{name}")}
    base = min((start for start in beginnings if all(path.startswith(start) for path in paths)), key=len, default="")
    return np.array([path.removeprefix(base) not in left_out for path in paths])
