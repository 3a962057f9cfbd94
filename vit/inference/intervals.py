"""Numbers with their 95 % intervals"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, chi2

from vit.data.samples import Labels
from vit.inference.image_groups import NORMAL_QUANTILE, Bools, effective_number, variance_of_sum


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; an end that the data do not bound is None."""

    value: float
    low: float | None
    high: float | None


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
        """The fraction of images with a flag (n,); its interval takes groups of images, if any, for independent.

        It is never narrower than that of independent images.

        Args:
            groups: (n,) as of `image_groups.numbered`.
        """
        count, total, num_groups = int(flags.sum()), len(flags), effective_number(groups)
        if num_groups is None:
            return cls.fraction(count, total)
        value = count / total
        if count in (0, total) or num_groups == 1:
            return cls(value, *wilson_ends(value, num_groups, NORMAL_QUANTILE))
        variance = variance_of_sum(flags.astype(np.float64) - value, groups) / total**2
        return cls(value, *wilson_ends(value, value * (1 - value) / variance, NORMAL_QUANTILE))


def recalls(labels: Labels, correct: Bools, num_classes: int, groups: Labels | None = None) -> list[Metric | None]:
    """For each class the fraction of its images that are predicted right; None for a class without images.

    Args:
        labels: (n,) true class numbers.
        correct: (n,) whether the prediction is right.
        groups: (n,) as of `image_groups.numbered`.
    """
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=num_classes))
    places = np.split(order, ends[:-1])
    return [Metric.share(correct[own], None if groups is None else groups[own]) if len(own) else None for own in places]


def wilson_ends(share: float, count: float, quantile: float) -> tuple[float, float]:
    """The ends of Wilson's interval of a share with as many independent images as would give the same standard error.

    They stay between 0 and 1, and differ where no image is wrong (Korn and Graubard 1998, "Confidence intervals for
    proportions with small expected number of positive counts").

    Args:
        count: number of independent images, share * (1 - share) / variance.
        quantile: half the width of the interval of a mean, in standard errors.
    """
    grown = 1 + quantile**2 / count
    center = (share + quantile**2 / (2 * count)) / grown
    around = quantile / grown * (share * (1 - share) / count + quantile**2 / (4 * count**2)) ** 0.5
    return max(0.0, min(center - around, share)), min(1.0, max(center + around, share))
