"""Selective prediction: a network that answers only where it is sure enough, and what that brings

Geifman and El-Yaniv 2017, "Selective Classification for Deep Neural Networks" (arXiv 1705.08500). Coverage is the
fraction of the images that get an answer. Risk is the fraction of wrong answers among them.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

CONFIDENCE = 0.95  # that the accuracy of the kept images is at least the one that was asked for
RESAMPLES = 1000

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Threshold:
    """The lowest probability with an answer, fitted on validation images.

    Attributes:
        value: images whose largest probability is below this value get no answer.
        coverage: fraction of the validation images that are kept.
        accuracy: accuracy of the kept validation images.
        num_images: number of validation images.
    """

    value: float
    coverage: float
    accuracy: float
    num_images: int


@dataclass(frozen=True)
class RiskCoverage:
    """Risk against coverage: a point for each of m distinct confidences, highest first.

    Attributes:
        coverage: (m,) fraction of the images that are at least as confident.
        risk: (m,) fraction of wrong predictions among them.
        low: (m,) lower end of the exact 95 % interval of the risk.
        high: (m,) upper end.
        area: area under the curve (AURC): mean risk over all coverages.
        area_low: lower end of the 95 % interval of the area.
        area_high: upper end.
    """

    coverage: npt.NDArray[np.float64]
    risk: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    area: float
    area_low: float
    area_high: float


def threshold_for(target: float, highest: Floats, correct: Bools) -> Threshold | None:
    """The threshold that keeps most images while the accuracy of the kept ones is at least `target`.

    With probability 95 % over the validation images, this holds for new images like them: algorithm 1 of Geifman and
    El-Yaniv, with the exact binomial bound. A binary search tests few thresholds, and their number divides the 5 %.

    Args:
        target: accuracy of the kept images.
        highest: (n,) largest probabilities of validation images.
        correct: (n,) whether their predictions are right.

    Returns:
        The threshold, or None where no threshold has the guarantee.
    """
    if len(highest) == 0:
        return None
    falling = np.sort(np.asarray(highest, dtype=np.float64))[::-1]
    tests = max(1, math.ceil(math.log2(len(falling) + 1)))
    alpha = (1 - CONFIDENCE) / tests
    least, most = 0, len(falling)  # number of kept images: known to be safe, and still possible
    found = None
    while least < most:
        kept = (least + most + 1) // 2
        within = np.asarray(highest >= falling[kept - 1])
        count, wrong = int(within.sum()), int((within & ~correct).sum())
        if _highest_risk(wrong, count, alpha) <= 1 - target:
            least = max(kept, count)
            found = Threshold(float(falling[kept - 1]), count / len(falling), 1 - wrong / count, len(falling))
        else:
            most = kept - 1
    return found


def _highest_risk(wrong: int, count: int, alpha: float) -> float:
    """The one-sided bound of Clopper and Pearson: a larger risk would show so few errors with probability alpha."""
    return 1.0 if wrong == count else float(beta.ppf(1 - alpha, wrong + 1, count - wrong))


def fewest_images(target: float) -> int:
    """The smallest number of kept images with which `target` can be guaranteed, if all of them are right."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(target))


def risk_coverage(confidences: Floats, correct: Bools, seed: int = 0) -> RiskCoverage:
    """The curve of n images.

    Args:
        seed: seed of the bootstrap of the images.
    """
    _, group = np.unique(-np.asarray(confidences, dtype=np.float64), return_inverse=True)  # highest first
    count, num_groups = len(correct), int(group.max()) + 1
    images, errors = np.bincount(group), np.bincount(group, ~correct)
    kept, wrong = np.cumsum(images), np.cumsum(errors).round().astype(np.int64)
    low, high = _exact_interval(wrong, kept)
    wrong_in_group = group + num_groups * ~correct  # right images of a group, and wrong ones, are drawn apart
    generator = np.random.default_rng(seed)
    areas = []
    for _ in range(RESAMPLES):
        drawn = np.bincount(wrong_in_group[generator.integers(0, count, count)], minlength=2 * num_groups)
        areas.append(_area(drawn[:num_groups] + drawn[num_groups:], drawn[num_groups:]))
    area_low, area_high = np.percentile(areas, (2.5, 97.5))
    return RiskCoverage(kept / count, wrong / kept, low, high, _area(images, errors), float(area_low), float(area_high))


def _exact_interval(wrong: Counts, kept: Counts) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The 95 % intervals of Clopper and Pearson."""
    low = np.where(wrong == 0, 0.0, beta.ppf(0.025, np.maximum(wrong, 1), kept - wrong + 1))
    high = np.where(wrong == kept, 1.0, beta.ppf(0.975, wrong + 1, np.maximum(kept - wrong, 1)))
    return low, high


def _area(images: npt.NDArray[np.number], errors: npt.NDArray[np.number]) -> float:
    """Mean risk over all coverages, from the images and errors of each distinct confidence, highest first."""
    kept = np.maximum(np.cumsum(images), 1)
    return float((images * np.cumsum(errors) / kept).sum() / kept[-1])
