"""Metrics with 95 % intervals: fractions of images, means over classes, and mean losses

A class with one image shows no scatter, though its recall could be any. In a bootstrap it is also missing from a third
of the samples, so that these are means over other classes. In `class_mean` each class gets one image that is right and
one that is wrong, for the variance alone (Agresti & Coull 1998, "Approximate is better than exact for interval
estimation of binomial proportions"). docs/measurements.md, "Means over classes with few images", has simulations.

A wrong answer costs many times as much as a right one. Test images without one say nothing of this part of the loss,
and percentiles of their bootstrap are far too low. A mean loss is a weighted sum of errors, as a rate is one of events.
So the interval of `mean_loss` is that of a sum of events with unequal weights (Fay and Feuer 1997, "Confidence
intervals for directly standardized rates: a method based on the gamma distribution"). Its upper end allows for one
event more, of mean weight (Tiwari, Clegg and Zou 2006, "Efficient interval estimation for age-adjusted cancer rates").
Here this is one wrong answer more. docs/measurements.md, "Intervals where few answers are wrong", has simulations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv
from scipy.stats import binomtest, chi2

from vit.console import interval, percent
from vit.data.core.samples import Labels
from vit.inference.scores.image_groups import NORMAL_QUANTILE, Floats, effective_number, variance_of_sum
from vit.inference.scores.scored_images import Bools


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; both ends are None where the data do not bound it."""

    value: float
    low: float | None
    high: float | None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends of the interval, or None without one."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def text(self) -> str:
        """The value in percent, with its interval where both ends are known."""
        return interval(self.value, self.low, self.high)


@dataclass(frozen=True)
class Metric(Interval):
    """A value with both ends of its interval."""

    low: float
    high: float

    @classmethod
    def fraction(cls, count: int, total: int) -> "Metric":
        """`count` of `total` independent images, with Wilson's interval, modified near 0 and 1.

        With 1 to 3 images on one side, Wilson's interval holds the truth in as few as 84 % of cases. The end on that
        side is then Poisson's (Brown, Cai & DasGupta 2001, "Interval estimation for a binomial proportion").
        """
        within = binomtest(count, total).proportion_ci(0.95, "wilson")
        low, high, most = float(within.low), float(within.high), 3 if total > 50 else 2
        if 1 <= count <= most:
            low = min(low, float(chi2.ppf(0.05, 2 * count)) / (2 * total))
        if 1 <= total - count <= most:
            high = max(high, 1 - float(chi2.ppf(0.05, 2 * (total - count))) / (2 * total))
        return cls(count / total, low, high)

    @classmethod
    def share(cls, flags: Bools, groups: Labels | None = None) -> "Metric":
        """The fraction of images with a flag (n,); its interval takes groups (`image_groups.numbered`) for independent.

        It is never narrower than that of independent images.
        """
        count, total, num_groups = int(flags.sum()), len(flags), effective_number(groups)
        if num_groups in (None, total):  # none, or each image is a group of its own
            return cls.fraction(count, total)
        value = count / total
        if count in (0, total) or num_groups == 1:
            return wilson(value, num_groups, NORMAL_QUANTILE)
        variance = variance_of_sum(flags.astype(np.float64) - value, groups) / total**2
        return wilson(value, value * (1 - value) / variance, NORMAL_QUANTILE)


def recalls(labels: Labels, correct: Bools, num_classes: int, groups: Labels | None = None) -> list[Metric | None]:
    """For each class the fraction of its images that are predicted right; None for a class without images."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=num_classes))
    places = np.split(order, ends[:-1])
    return [Metric.share(correct[own], None if groups is None else groups[own]) if len(own) else None for own in places]


def wilson(share: float, count: float, quantile: float) -> Metric:
    """Wilson's interval of a share of `count` independent images, share * (1 - share) / variance.

    Its ends stay between 0 and 1, and differ where no image is wrong (Korn and Graubard 1998, "Confidence intervals for
    proportions with small expected number of positive counts"). `quantile` is half the width of the interval of a mean,
    in standard errors.
    """
    grown = 1 + quantile**2 / count
    center = (share + quantile**2 / (2 * count)) / grown
    around = quantile / grown * (share * (1 - share) / count + quantile**2 / (4 * count**2)) ** 0.5
    return Metric(share, max(0.0, min(center - around, share)), min(1.0, max(center + around, share)))


def balanced_accuracy(labels: Labels, correct: Bools, num_classes: int, groups: Labels | None = None) -> Metric:
    """The mean recall of the classes that have images, for (n,) true class numbers and whether each image is right."""
    seen, hit = (np.bincount(labels, weights, num_classes) for weights in (None, correct))
    recall = hit / np.maximum(seen, 1)
    there = seen > 0
    added = (correct - recall[labels]) / (seen[labels] * there.sum())
    units = independent_units(labels, num_classes, groups)
    return class_mean(recall[there], units[there], variance_of_sum(added, groups))


def like_guessing(found: Metric, chance: float, name: str = "balanced accuracy") -> list[str]:
    """A warning where a metric is not shown to exceed its mean over guesses: a balanced accuracy of 1 / classes."""
    if chance >= 1 or found.low > chance:
        return []
    both = f"{found.text}, and that of guesses {percent(chance)}"
    return [f"not shown to be better than guessing: the {name} is {both}"]


def macro_f1(labels: Labels, predictions: Labels, num_classes: int, groups: Labels | None = None) -> Metric:
    """The mean F1 of the classes that have images or predictions.

    Its variance is linearized. A class has half as many trials as it has images and predictions: the variance of F1 is
    at most F1 (1 - F1) divided by this number. A ratio of two counts is too low on average: by the second terms of the
    expansion by up to F1 (1 - F1) / (images + predictions), where the classes' numbers of images are not fixed.
    """
    correct = labels == predictions
    either = np.bincount(labels, minlength=num_classes) + np.bincount(predictions, minlength=num_classes)
    there = either > 0
    f1 = 2 * np.bincount(labels, correct, num_classes) / np.maximum(either, 1)
    called = np.where(correct, 0.0, f1[predictions] / either[predictions])
    added = (np.where(correct, 2.0, 0.0) - f1[labels] * (1.0 + correct)) / either[labels] - called
    units = [independent_units(numbers, num_classes, groups) for numbers in (labels, predictions)]
    trials, f1 = np.mean(units, axis=0)[there], f1[there]
    typical = (trials * f1 + 2 * f1.mean()) / (trials + 2)  # the F1 of one image is 0 or 1
    bias = float((typical * (1 - typical) / (2 * trials)).mean())
    return class_mean(f1, trials, variance_of_sum(added / there.sum(), groups), bias=bias)


def class_mean(
    scores: Floats, trials: Floats, variance: float, within: Floats | None = None, bias: float = 0.0
) -> Metric:
    """The mean of the scores of C classes, with its 95 % interval.

    Args:
        scores: (C,) each between 0 and 1.
        trials: (C,) number of independent images behind each score, above 0.
        variance: variance of the mean that the images show.
        within: (C,) variance of what one image says of the score; None: that of right and wrong images.
        bias: how far the mean may be too low, or below 0 too high: the interval holds those with and without this bias.
    """
    within = scores * (1 - scores) if within is None else within
    smooth = (trials * scores + 1) / (trials + 2)
    extra = (trials * (scores - smooth) ** 2 + smooth**2 + (1 - smooth) ** 2 - 2 * within) / (trials + 2)
    center = float(smooth.mean())
    whole = variance + float((np.maximum(extra, 0.0) / trials).sum()) / len(scores) ** 2
    value, count = float(scores.mean()), center * (1 - center) / whole
    low, high = (min(max(value + end, 0.0), 1.0) for end in (min(bias, 0.0), max(bias, 0.0)))
    return Metric(value, wilson(low, count, NORMAL_QUANTILE).low, wilson(high, count, NORMAL_QUANTILE).high)


def resampled_mean(values: Floats, trials: Floats) -> Metric | None:
    """The mean of the first row over labels, with its interval; None where it is NaN for every label.

    The other rows are of samples (1 + R, K), with `trials` (K,) independent images behind each value. A sample without
    images of a label has the label's own value, or its mean would be one over other labels.
    """
    there = ~np.isnan(values[0])
    if not there.any():
        return None
    known, samples, trials = values[0, there], values[1:, there], trials[there]
    samples = np.where(np.isnan(samples), known, samples)
    within = np.minimum(trials * samples.var(axis=0, ddof=1), known * (1 - known))
    return class_mean(known, trials, float(samples.mean(axis=1).var(ddof=1)), within, float((known - samples).mean()))


def independent_units(labels: Labels, num_classes: int, groups: Labels | None) -> Floats:
    """(C,) number of images of each class, or of groups (n,) with such images."""
    if groups is not None:
        labels = np.unique(np.stack([labels, groups]), axis=1)[0]
    return np.bincount(labels, minlength=num_classes).astype(np.float64)


def mean_loss(
    losses: Floats, of_wrong_answer: Floats, groups: Labels | None = None, weights: Floats | None = None
) -> Metric:
    """The mean of losses (n,), at least 0, with its 95 % interval.

    Args:
        of_wrong_answer: (n,) what each loss would be if the network's answer were wrong.
        groups: (n,) as of `image_groups.numbered`. The one wrong answer more is then about all images of a group.
        weights: (n,) how much each image counts; None: all count alike.
    """
    shares = np.full(len(losses), 1 / len(losses)) if weights is None else weights / weights.sum()
    mean = float(shares @ losses)
    variance = variance_of_sum(shares * (losses - mean), groups)
    unseen = shares * of_wrong_answer
    if groups is not None:
        unseen = np.bincount(groups, unseen)[np.unique(groups)]

    def quantile(level: float, mean: float, variance: float) -> float:
        """That of the gamma distribution with this mean and variance."""
        is_point = variance <= 0 or mean <= 0
        return mean if is_point else float(gammaincinv(mean**2 / variance, level)) * variance / mean

    low = quantile(0.025, mean, variance)
    high = quantile(0.975, mean + float(unseen.mean()), variance + float(np.square(unseen).mean()))
    return Metric(mean, min(low, mean), max(high, mean))


def holm(p_values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """P values after the step-down correction of Holm (1979), in the order given, whatever the tests have in common.

    A test has the share of the 5 % that its weight says. If it is significant, its share passes on to those left.
    """
    ratios, shares = np.divide(p_values, weights), np.asarray(weights)
    order = np.argsort(ratios, kind="stable")
    left = shares[order][::-1].cumsum()[::-1]
    adjusted = np.ones(len(ratios))
    adjusted[order] = np.maximum.accumulate(ratios[order] * left).clip(max=1.0)
    return [float(p) for p in adjusted]
