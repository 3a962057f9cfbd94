"""Prediction sets: for each image, a set of classes that contains the true one with a chosen probability

Split conformal prediction: a score of each validation image says how far down its true class stands. The sets of new
images hold the classes that stand no further down than most validation images. The coverage holds for any network, on
average over images like the validation images. Where images belong together, it holds for an image of a new group, and
each group of validation images counts once (Lee, Barber and Willett 2023, arXiv 2306.06342, hierarchical conformal
prediction).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.checkpoints.validation_scores import ValidationScores

SetMethod = Literal["lac", "aps", "class_conditional"]
SET_METHODS: tuple[SetMethod, ...] = ("lac", "aps", "class_conditional")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PredictionSets:
    """A rule from probabilities to sets of classes, fitted on validation images. A set is never empty."""

    # "lac": classes above one probability, the smallest sets on average (Sadinle et al. 2019, arXiv 1609.00451). "aps":
    # the most probable classes until their sum is large enough, with a random last step (Romano et al. 2020, arXiv
    # 2006.02544); sets of difficult images are larger. "class_conditional": lac with one threshold for each class, so
    # that the coverage holds in each class.
    method: SetMethod
    coverage: float  # probability that the set has the true class
    # (C,) largest score of a class that is in a set; infinite where a class has too few validation images
    limits: Floats

    @classmethod
    def fit(cls, scores: ValidationScores, method: SetMethod, coverage: float, num_classes: int) -> "PredictionSets":
        """The rule for a coverage between 0 and 1."""
        if method == "aps":
            draws = np.random.default_rng(0).random(len(scores))
            limit = _quantile(scores.above + draws * scores.own, coverage, scores.groups)
            return cls(method, coverage, np.full(num_classes, limit))
        missing = 1.0 - scores.own.astype(np.float64)
        if method == "lac":
            return cls(method, coverage, np.full(num_classes, _quantile(missing, coverage, scores.groups)))
        limits = []
        for number in range(num_classes):
            own = scores.labels == number
            groups = None if scores.groups is None else scores.groups[own]
            limits.append(_quantile(missing[own], coverage, groups))
        return cls(method, coverage, np.array(limits))

    def members(self, probabilities: npt.NDArray[np.float32], draws: Floats) -> npt.NDArray[np.bool_]:
        """Which classes are in the set of each image, (n, C). The most probable class always is.

        Args:
            probabilities: (n, C) calibrated probabilities.
            draws: (n,) random numbers from 0 to 1, which "aps" uses.
        """
        if self.method == "aps":
            order = np.argsort(-probabilities, axis=1, kind="stable")
            falling = np.take_along_axis(probabilities, order, axis=1).astype(np.float64)
            before = np.zeros_like(probabilities, dtype=np.float64)
            np.put_along_axis(before, order, np.cumsum(falling, axis=1) - falling, axis=1)
            scores = before + draws[:, None] * probabilities
        else:
            scores = 1.0 - probabilities.astype(np.float64)
        inside = np.asarray(scores <= self.limits)
        inside[np.arange(len(inside)), probabilities.argmax(axis=1)] = True
        return inside

    @property
    def unlimited(self) -> list[int]:
        """Classes that are in every set, because too few validation images of them exist."""
        return np.flatnonzero(np.isinf(self.limits)).tolist()


def fewest_images(coverage: float) -> int:
    """The smallest number of validation images, or of their groups, with which sets are not all classes."""
    return math.ceil(coverage / (1 - coverage) * (1 - 1e-9))  # 0.9 / (1 - 0.9) is a little above 9


def _quantile(scores: npt.NDArray[np.floating], coverage: float, groups: npt.NDArray[np.int64] | None) -> float:
    """The ceil((n + 1) coverage)-th smallest of n scores; infinite where n is too small.

    With groups (n,), n is their number, and the images of a group share its place.
    """
    shares = np.ones(len(scores))
    if groups is not None and len(groups):
        _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        shares = 1 / sizes[numbers]
    order = np.argsort(scores, kind="stable")
    places = np.cumsum(shares[order]).round(9)
    rank = round((float(shares.sum().round()) + 1) * coverage, 9)
    found = int(np.searchsorted(places, rank))
    return math.inf if found == len(scores) else float(scores[order[found]])
