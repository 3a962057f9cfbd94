"""The accuracy of a cross-validation, with an interval that respects its folds

All images of a fold are judged by one network, and any two networks share most of their training images. The errors of
the images are therefore correlated, and an interval that takes them for independent is too narrow (Bates, Hastie and
Tibshirani 2023, "Cross-validation: what does it estimate and how well does it do it?", JASA, arXiv 2104.00673). The
nested cross-validation of that paper trains K (K - 1) networks several times over, which deep networks do not allow.

The interval here is that of Nadeau and Bengio 2003, "Inference for the generalization error", Machine Learning 52. Its
variance is (1 / K + test images / training images) S^2 = (1 / K + 1 / (K - 1)) S^2 with the variance S^2 of the folds'
accuracies, and Student's t with K - 1 degrees of freedom. Images that validate a training count as training images
here. Without them, half the interval would be 3 % longer where they are a tenth. `data.train_images` does not change
the ratio: networks that learn parts of these images share fewer of them, so that their errors are less correlated.
S^2 of five folds may be small by chance. The interval is therefore never narrower than that of independent images, or
of independent groups where images have groups.
docs/measurements.md has the measured coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from vit.data.core.samples import Labels
from vit.inference.scores.image_groups import NORMAL_QUANTILE, effective_number, numbered, variance_of_sum
from vit.inference.scores.intervals import Metric, wilson
from vit.study.findings import ALPHA, Interval

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FoldAccuracy:
    """The accuracy of a cross-validation over all images.

    Attributes:
        accuracy: fraction of right images, with the interval that respects folds and groups.
        naive: the same fraction with Wilson's interval, which takes all images for independent.
        folds: (K,) accuracy of each fold, each with an interval of its images, or of its groups.
        num_groups: number of groups; None where images have none.
    """

    accuracy: Interval
    naive: Interval
    folds: tuple[Interval, ...]
    num_images: tuple[int, ...]
    num_groups: int | None


def fold_accuracy(correct: Bools, folds: Labels, groups: Sequence[str] | None = None) -> FoldAccuracy:
    """The accuracy of a cross-validation.

    Args:
        folds: (n,) number of each image's fold; two or more folds.
    """
    _, fold, sizes = np.unique(folds, return_inverse=True, return_counts=True)
    num_images, share = len(correct), float(correct.mean())
    of_fold = np.bincount(fold, correct) / sizes
    by_folds, quantile = _by_folds(of_fold, sizes / num_images, share)
    numbers = numbered(groups)
    by_units = variance_of_sum(correct.astype(np.float64) - share, numbers) / num_images**2
    reach = max(quantile * by_folds**0.5, NORMAL_QUANTILE * by_units**0.5)
    variance = max(by_folds, by_units)
    if variance > 0:
        interval = wilson(share, share * (1 - share) / variance, reach / variance**0.5)
    else:  # all images right, or all wrong
        interval = wilson(share, effective_number(numbers) or float(num_images), NORMAL_QUANTILE)
    return FoldAccuracy(
        interval,
        wilson(share, float(num_images), NORMAL_QUANTILE),
        tuple(_of_fold(correct, fold == one, groups) for one in range(len(sizes))),
        tuple(map(int, sizes)),
        None if groups is None else len(set(groups)),
    )


def _of_fold(correct: Bools, here: Bools, groups: Sequence[str] | None) -> Interval:
    names = None if groups is None else [group for group, is_here in zip(groups, here, strict=True) if is_here]
    return Metric.share(correct[here], numbered(names))


def _by_folds(of_fold: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], share: float) -> tuple[float, float]:
    """(Nadeau and Bengio's variance of the mean, quantile of its interval).

    Args:
        weights: (K,) fractions of the images in each fold.
    """
    count = len(of_fold)
    spread = float((weights * (of_fold - share) ** 2).sum()) * count / (count - 1)
    return (1 / count + 1 / (count - 1)) * spread, float(stdtrit(count - 1, 1 - ALPHA / 2))
