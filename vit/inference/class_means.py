"""Means over classes, such as balanced accuracy, with intervals that hold where classes have few images

A class with one image shows no scatter, though its recall could be any. In a bootstrap it is also missing from a third
of the samples, so that these are means over other classes. Here each class gets one image that is right and one that is
wrong, for the variance alone (Agresti & Coull 1998, "Approximate is better than exact for interval estimation of
binomial proportions"). docs/measurements.md, "Means over classes with few images", has simulations.
"""

import numpy as np
import numpy.typing as npt

from vit.data.samples import Labels
from vit.inference.image_groups import NORMAL_QUANTILE, variance_of_sum
from vit.inference.intervals import Metric, wilson_ends

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def balanced_accuracy(labels: Labels, correct: Bools, num_classes: int, groups: Labels | None = None) -> Metric:
    """The mean recall of the classes that have images.

    Args:
        labels: (n,) true class numbers.
        correct: (n,) whether the prediction is right.
        groups: (n,) as of `image_groups.numbered`.
    """
    seen, hit = (np.bincount(labels, weights, num_classes) for weights in (None, correct))
    recall = hit / np.maximum(seen, 1)
    there = seen > 0
    added = (correct - recall[labels]) / (seen[labels] * there.sum())
    units = independent_units(labels, num_classes, groups)
    return class_mean(recall[there], units[there], variance_of_sum(added, groups))


def macro_f1(labels: Labels, predictions: Labels, num_classes: int, groups: Labels | None = None) -> Metric:
    """The mean F1 of the classes that have images or predictions.

    Its variance is linearized. A class has half as many trials as it has images and predictions: the variance of F1 is
    at most F1 (1 - F1) divided by this number.

    Args:
        labels: (n,) true class numbers.
        predictions: (n,) predicted class numbers.
        groups: (n,) as of `image_groups.numbered`.
    """
    correct = labels == predictions
    either = np.bincount(labels, minlength=num_classes) + np.bincount(predictions, minlength=num_classes)
    there = either > 0
    f1 = 2 * np.bincount(labels, correct, num_classes) / np.maximum(either, 1)
    called = np.where(correct, 0.0, f1[predictions] / either[predictions])
    added = (np.where(correct, 2.0, 0.0) - f1[labels] * (1.0 + correct)) / either[labels] - called
    units = [independent_units(numbers, num_classes, groups) for numbers in (labels, predictions)]
    trials = np.mean(units, axis=0)
    return class_mean(f1[there], trials[there], variance_of_sum(added / there.sum(), groups))


def class_mean(scores: Floats, trials: Floats, variance: float, within: Floats | None = None) -> Metric:
    """The mean of the scores of C classes, with its 95 % interval.

    Args:
        scores: (C,) each between 0 and 1.
        trials: (C,) number of independent images behind each score, above 0.
        variance: variance of the mean that the images show.
        within: (C,) variance of what one image says of the score; None: that of right and wrong images.
    """
    within = scores * (1 - scores) if within is None else within
    smooth = (trials * scores + 1) / (trials + 2)
    extra = (trials * (scores - smooth) ** 2 + smooth**2 + (1 - smooth) ** 2 - 2 * within) / (trials + 2)
    center = float(smooth.mean())
    whole = variance + float((np.maximum(extra, 0.0) / trials).sum()) / len(scores) ** 2
    value = float(scores.mean())
    return Metric(value, *wilson_ends(value, center * (1 - center) / whole, NORMAL_QUANTILE))


def independent_units(labels: Labels, num_classes: int, groups: Labels | None) -> Floats:
    """(C,) number of images of each class, or of groups with such images.

    Args:
        labels: (n,) class numbers.
        groups: (n,) as of `image_groups.numbered`.
    """
    if groups is not None:
        labels = np.unique(np.stack([labels, groups]), axis=1)[0]
    return np.bincount(labels, minlength=num_classes).astype(np.float64)
