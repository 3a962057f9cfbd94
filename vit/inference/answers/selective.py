"""Selective prediction: a network that answers only where it is sure enough, and what that brings

Coverage is the fraction of the images that get an answer. Risk is the fraction of wrong answers among them (Geifman and
El-Yaniv 2017, "Selective Classification for Deep Neural Networks", arXiv 1705.08500).

Where images belong together, each group counts as one image that is wrong by a fraction. The mean of such fractions
scatters at most as much as that of images that are right or wrong, so the bounds for these are wide enough. Groups of
more images count no more than others, or few large groups would decide alone (docs/measurements.md, "Thresholds of
images in groups").
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from vit.checkpoints.validation_scores import ValidationScores
from vit.data.core.samples import Labels
from vit.inference.scores.image_groups import variance_of_sum
from vit.inference.scores.intervals import Metric, class_mean

CONFIDENCE = 0.95  # that the accuracy of the kept images is at least the one that was asked for

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Confidences = npt.NDArray[np.floating]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RiskCoverage:
    """Risk against coverage: a point for each of m distinct confidences, highest first."""

    coverage: Floats  # (m,) fraction of the images that are at least as confident
    risk: Floats  # (m,) fraction of wrong predictions among them
    low: Floats  # (m,) lower end of the 95 % interval of the risk
    high: Floats  # (m,) upper end
    area: Metric  # area under the curve (AURC), which is the mean risk over all coverages, with its 95 % interval


def threshold_for(target: float, highest: Confidences, correct: Bools, groups: Labels | None = None) -> float:
    """The lowest probability with an answer, which keeps most images while the accuracy of these is at least `target`.

    With probability 95 % over the validation images, this holds for new images like them. Thresholds are tested from
    the highest one down, each with the exact binomial bound, until the first that fails: a fixed sequence needs no
    correction for the number of tests (Angelopoulos et al. 2021, "Learn then Test", arXiv 2110.01052, section 3.2).
    The first test is at the fewest images that can pass. Infinity: no threshold has the guarantee.

    With groups (n,) as of `image_groups.numbered`, the promise is about images of new groups, and all groups count
    alike: it is about one image of each. The kept validation images keep it as well.
    """
    above = _Above.of(highest, correct, groups)
    first = int(np.searchsorted(above.units, fewest_images(target)))
    passes = _highest_risk(np.maximum(above.risk, above.unit_risk), above.units, CONFIDENCE)[first:] <= 1 - target
    passed = len(passes) if passes.all() else int(passes.argmin())
    return float(above.values[first + passed - 1]) if passed else math.inf


def level_thresholds(target: float, scores: ValidationScores) -> list[float]:
    """The smallest probability of an answer among the classes, and among the groups of each level, the deepest first.

    An image gets the answer of the first of these that is sure. So each level is fitted on the images that have none
    yet. The search before it has not seen whether these are right, but for those of its last test, which have an error.
    So the promise of `threshold_for` holds for each level. Infinity: no answer of a level has the guarantee.
    """
    left, thresholds = np.ones(len(scores), dtype=bool), list[float]()
    for level in (scores, *scores.levels):
        here = left & (level.highest > 0)
        groups = None if scores.groups is None else scores.groups[here]
        thresholds.append(threshold_for(target, level.highest[here], level.correct[here], groups))
        left &= level.highest < thresholds[-1]
    return thresholds


@dataclass(frozen=True)
class _Above:
    """The images that are at least as confident as each of m distinct confidences, highest first."""

    values: Floats  # (m,) the confidences
    images: Counts  # (m,) numbers of images
    errors: Counts  # (m,) numbers of wrong ones
    units: Counts  # (m,) numbers of independent units, which are images or groups
    unit_risk: Floats  # (m,) mean over the units of the fraction of wrong images
    # (m,) number of equally large units that tell as much as these, as `image_groups.effective_number`
    equal_units: Floats

    @classmethod
    def of(cls, confidences: Confidences, correct: Bools, groups: Labels | None) -> "_Above":
        values, level = np.unique(-np.asarray(confidences, dtype=np.float64), return_inverse=True)

        def above(added: npt.NDArray[np.number]) -> Floats:
            return np.cumsum(np.bincount(level, added, len(values)))

        wrong = (~correct).astype(np.float64)
        images, errors = above(np.ones(len(level))), above(wrong)
        counts = images.astype(np.int64), errors.round().astype(np.int64)
        if groups is None:
            return cls(-values, *counts, counts[0], errors / images, images)
        order = np.lexsort((level, groups))  # each group's images, the most confident first
        number = _within(np.ones(len(order)), groups[order])
        num_wrong = _within(wrong[order], groups[order])
        before = np.where(number > 1, (num_wrong - wrong[order]) / np.maximum(number - 1, 1), 0.0)
        placed = np.empty((3, len(order)))
        # what an image adds to its group's part
        placed[:, order] = number == 1, num_wrong / number - before, 2 * number - 1
        units, fractions, squares = map(above, placed)
        return cls(-values, *counts, units.round().astype(np.int64), fractions / units, images**2 / squares)

    @property
    def risk(self) -> Floats:
        """(m,) fraction of wrong images."""
        return np.asarray(self.errors / self.images)


def _within(values: Floats, groups: Labels) -> Floats:
    """(n,) running sums of values, each from the first image of its group; images of a group follow each other."""
    sums = np.cumsum(values)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return sums - np.repeat(sums[starts] - values[starts], np.diff(starts, append=len(groups)))


def _highest_risk(risk: Floats, units: Floats | Counts, level: float) -> Floats:
    """The one-sided bound of Clopper and Pearson: a larger risk would show so few errors in at most 1 - level."""
    right = (1 - risk) * units
    return np.where(risk == 1, 1.0, beta.ppf(level, risk * units + 1, np.where(risk == 1, 1.0, right)))


def fewest_images(target: float) -> int:
    """The smallest number of kept images, or groups, with which `target` can be guaranteed, if all are right."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(target))


def risk_coverage(confidences: Confidences, correct: Bools, groups: Labels | None = None) -> RiskCoverage:
    """The curve of n images, perhaps with groups (n,) as of `image_groups.numbered`."""
    above = _Above.of(confidences, correct, groups)
    low = 1 - _highest_risk(1 - above.risk, above.equal_units, 0.975)
    high = _highest_risk(above.risk, above.equal_units, 0.975)
    area = _area(above, confidences, correct, groups)
    return RiskCoverage(above.images / len(correct), above.risk, low, high, area)


def _area(above: _Above, confidences: Confidences, correct: Bools, groups: Labels | None) -> Metric:
    """The mean risk over all coverages.

    It is a sum of the errors with weights that fall with the confidence. The interval is that of the mean of one class
    (`class_mean`) with as many images as the weights leave, about half of them. So it has a width without any error,
    too. What each image adds to the sum is linearized: its error, and the change of all risks below its confidence.
    docs/measurements.md, "Intervals where few answers are wrong", has simulations.
    """
    level = np.searchsorted(-above.values, -np.asarray(confidences, dtype=np.float64))
    images = np.diff(above.images, prepend=0)

    def below(values: Floats) -> Floats:
        """(n,) sums of values (m,) from the confidence of each image to the lowest one."""
        return np.asarray(np.cumsum(values[::-1])[::-1][level])

    share, count = images / above.images, len(correct)
    weights, wrong = below(share) / count, (~correct).astype(np.float64)
    area = float((weights * wrong).sum())
    added = weights * wrong - below(share * above.risk) / count + (above.risk[level] - area) / count
    trials = above.equal_units[-1] / count / np.square(weights).sum()
    return class_mean(np.array([area]), np.array([trials]), variance_of_sum(added, groups))
