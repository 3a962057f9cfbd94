"""The images of finished runs, as their splits.csv list them: common test images, their contents, and images learned

A list of ImageNet has 1.3 million rows. So the bytes of the lists are compared first. Rows are read where these differ.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from vit.checkpoints.result import RunResult, unpack
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Labels
from vit.data.splits.split import SplitRow, lists_groups, read_splits
from vit.errors import DataError
from vit.inference.scores.image_groups import numbered
from vit.study.statistics.variance_components import Bools

_CHOOSING = ("validation", "calibration")  # splits that no seed of a training draws, and that choose or fit
FinishedRuns = Sequence[tuple[RunDirectory, RunResult]]


@dataclass(frozen=True)
class CommonAnswers:
    """Which test images each run has right, of those that all runs have measured."""

    correct: list[Bools]  # (T,) answers of each run
    groups: Labels | None  # (T,) number of each image's group; None where images have none
    num_left_out: int

    @classmethod
    def of(cls, runs: FinishedRuns) -> Self:
        """The answers of runs.

        DataError where two runs were tested on different images or list different groups, fewer than two images are
        common, or a list of images is damaged.
        """
        correct = [unpack(result.correct["test"], result.num_images["test"]) for _, result in runs]
        num_left_out = 0
        if len({result.fingerprints.get("test") for _, result in runs}) <= 1:
            groups = [
                numbered([row.group for row in _measured_rows(run, result, read_splits(run.splits_path)["test"])])
                if lists_groups(run.splits_path)
                else None
                for run, result in runs
            ]
        else:
            listed = [read_splits(run.splits_path).get("test", []) for run, _ in runs]
            for (run, _), rows in zip(runs, listed, strict=True):
                if [row[:2] for row in rows] != [row[:2] for row in listed[0]]:
                    raise DataError(
                        f"{runs[0][0].path} and {run.path} were tested on different images, so they cannot be compared",
                        "move the folder that is not of this study elsewhere, and give the 'vit study' command again",
                    )
            measured = np.stack([_are_measured(run, result, listed[0]) for run, result in runs])
            common = np.asarray(measured.all(axis=0))
            correct = [answer[common[mask]] for answer, mask in zip(correct, measured, strict=True)]
            groups = [numbered([rows[place].group for place in np.flatnonzero(common)]) for rows in listed]
            num_left_out = int((~common).sum())
        if runs and len(correct[0]) < 2:  # one image has no scatter
            problem = f"the runs of {runs[0][0].path} and others have fewer than two test images in common"
            raise DataError(problem, "repair or add test images, and give the 'vit study' command again")
        check_same_groups([run.path for run, _ in runs], groups)
        return cls(correct, groups[0] if groups else None, num_left_out)

    @classmethod
    def of_folds(cls, runs: FinishedRuns, seeds: Sequence[int]) -> Self:
        """The answers of runs where each seed tests its own fold, whose images its runs share.

        Each fold has as many answers as the smallest (`of_fold`). The analysis of crossed seeds and images finds no
        effect of an image that is common to the seeds, and their scatter shows everything (benchmarks/study_folds.py).
        """
        of_seed = {
            seed: cls.of([run for run_seed, run in zip(seeds, runs, strict=True) if run_seed == seed])
            for seed in dict.fromkeys(seeds)
        }
        least = min((len(common.correct[0]) for common in of_seed.values()), default=0)
        answers = {seed: iter(common.correct) for seed, common in of_seed.items()}
        correct = [of_fold(next(answers[seed]), least, seed) for seed in seeds]
        return cls(correct, None, sum(common.num_left_out for common in of_seed.values()))


def of_fold(correct: Bools, count: int, seed: int) -> Bools:
    """Some answers (count,) of a seed's fold (T,), at random: its last images are of one class. Networks share them."""
    return correct[np.sort(np.random.default_rng(seed).permutation(len(correct))[:count])]


def check_same_groups(paths: Sequence[Path], groups: Sequence[Labels | None]) -> None:
    """Raise DataError where two runs have different groups (T,) of the same images: intervals count one kind."""
    first = groups[0] if groups else None
    for path, own in zip(paths, groups, strict=True):
        if (own is None) != (first is None) or (own is not None and first is not None and (own != first).any()):
            raise DataError(
                f"{paths[0]} and {path} list different groups of the same test images, and intervals count one kind",
                "train all runs with the same groups (data.groups, or the same column of the CSV)",
            )


def _measured_rows(run: RunDirectory, result: RunResult, rows: Sequence[SplitRow]) -> list[SplitRow]:
    """The rows of the test images that a run has measured, in the order of its predictions."""
    return [row for row, is_one in zip(rows, _are_measured(run, result, rows), strict=True) if is_one]


def _are_measured(run: RunDirectory, result: RunResult, rows: Sequence[SplitRow]) -> Bools:
    """(T,) whether a run has measured an image; DataError where its result counts other images."""
    left_out = result.left_out.get("test", {})
    measured = np.array([row.name not in left_out for row in rows])
    if measured.sum() != result.num_images["test"]:
        raise DataError(f"{run.result_path} does not fit {run.splits_path.name} beside it", "train this run again")
    return measured


@dataclass(frozen=True)
class LearnedImages:
    """The training, validation and calibration images of a run."""

    num_train: int
    train: str  # hash of the training images, their contents and labels, in any order and any folder
    choosing: str  # hash of the others
    paths: Labels  # (n,) number of each training image's path, within this process
    contents: Labels  # (n,) number of each training image's content, within this process; 0: it could not be read

    @classmethod
    def of(cls, listed: Mapping[str, Sequence[SplitRow]]) -> Self:
        train = listed.get("train", ())
        return cls(
            len(train),
            _hash({"train": train}),
            _hash({split: listed.get(split, ()) for split in _CHOOSING}),
            np.fromiter((hash(row.path) for row in train), dtype=np.int64, count=len(train)),
            np.fromiter((hash(row.content_hash) for row in train), dtype=np.int64, count=len(train)),
        )

    def is_same(self, other: "LearnedImages", is_same_draw: bool) -> bool:
        """Whether nothing but the draw of a subset tells the images of two runs apart.

        `is_same_draw`: both use all training images, or subsets that one seed has drawn. Subsets of other seeds are
        other images, and an image of both must have one content.
        """
        if self.choosing != other.choosing:
            return False
        if is_same_draw:
            return self.train == other.train
        _, mine, theirs = np.intersect1d(self.paths, other.paths, return_indices=True)
        pairs = self.contents[mine], other.contents[theirs]
        return not ((pairs[0] != pairs[1]) & (pairs[0] != 0) & (pairs[1] != 0)).any()


@dataclass(frozen=True)
class StudyImages:
    """The images of a run. Everything is empty where all runs have the same list."""

    test: Sequence[str] = ()  # content hash of each measured test image
    groups: Labels | None = None  # (T,) number of each measured test image's group; None where images have none
    learned: LearnedImages | None = None  # images that the run has learned from; None: not read


def listed_images(runs: FinishedRuns) -> list[StudyImages]:
    """What the list of each run says of images. Equal lists are read once, and only for their groups.

    DataError where a list is damaged, or does not fit the result of its run.
    """
    hashes = []
    for run, _ in runs:
        with open(run.splits_path, "rb") as file:
            hashes.append(hashlib.file_digest(file, "blake2b").hexdigest())
    known: dict[tuple[str, str], StudyImages] = {}
    images = []
    for (run, result), file_hash in zip(runs, hashes, strict=True):
        key = (file_hash, f"{result.left_out.get('test')} {result.num_images['test']}")
        if key not in known:
            known[key] = StudyImages()
            if len(set(hashes)) > 1 or lists_groups(run.splits_path):
                listed = read_splits(run.splits_path)
                rows = _measured_rows(run, result, listed.get("test", []))
                groups = numbered([row.group for row in rows])
                known[key] = StudyImages([row.content_hash for row in rows], groups, LearnedImages.of(listed))
        images.append(known[key])
    return images


def changed_places(first: StudyImages, other: StudyImages) -> list[int]:
    """The places of test images whose contents differ between two runs."""
    pairs = enumerate(zip(first.test, other.test, strict=True))
    return [place for place, (mine, theirs) in pairs if mine != theirs]


def _hash(listed: Mapping[str, Sequence[SplitRow]]) -> str:
    """A hash of the images of some splits. Images that could not be read count by their paths."""
    lines = [f"{split}\0{row.label}\0{row.content_hash or row.path}" for split, rows in listed.items() for row in rows]
    digest = hashlib.blake2b(digest_size=16)
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
