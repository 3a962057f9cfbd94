"""Measured images that belong together, such as all pictures of one patient: their errors are not independent

A mean over n images of G groups has the variance of G independent sums, one of each group (the linearized variance of
a ratio estimator: Cochran 1977, "Sampling Techniques", chapter 9A). Where few groups have most of the images, these few
sums say little of their own scatter. Then the correlation within all groups tells more (docs/measurements.md, "Accuracy
of images in groups").
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from vit.data.core.samples import Labels, Samples
from vit.inference.scores.scored_images import Bools, Scored

OneScored = TypeVar("OneScored", bound=Scored)
Floats = npt.NDArray[np.float64]

NORMAL_QUANTILE = 1.959963984540054


def numbered(groups: Sequence[str] | None) -> Labels | None:
    """(n,) the number of each image's group, from 0.

    None where images have none, or "" as `SplitRow.group`, and where each of several images is a group of its own.
    """
    if groups is None or not any(groups) or len(set(groups)) == len(groups) > 1:
        return None
    return np.asarray(np.unique(np.asarray(groups, dtype=object), return_inverse=True)[1], dtype=np.int64)


def in_groups(scored: OneScored, samples: Samples) -> OneScored:
    """The scored images with the groups that their samples name; images that could not be read have no entry."""
    return replace(scored, groups=numbered(samples.without(scored.left_out).groups))


def bootstrap(num_images: int, groups: Labels | None, seed: int) -> Iterator[Labels]:
    """(n,) how often each image is in a sample, without end; images of a group are drawn together.

    One group says nothing about others. Then the samples are about other images of this group.
    """
    unit = np.arange(num_images) if groups is None or not groups.any() else groups
    generator, count = np.random.default_rng(seed), int(unit.max()) + 1
    while True:
        yield np.bincount(generator.integers(0, count, count), minlength=count)[unit]


def number_of(groups: Labels | None) -> int | None:
    """The number of groups; None where images have none."""
    return None if groups is None else len(np.unique(groups))


def effective_number(groups: Labels | None) -> float | None:
    """The number of groups of equal size that tell as much as these, if all images of a group are alike; None without.

    Kish 1965, "Survey Sampling", section 8.2.
    """
    return None if groups is None else _effective(np.unique(groups, return_counts=True)[1])


def _effective(sizes: Labels) -> float:
    return float(sizes.sum() ** 2 / np.square(sizes).sum())


def count_text(num_images: int, num_groups: int | None, kind: str = "image") -> str:
    """How many images an interval is about, and of how many groups, which it takes for independent."""
    images = f"{num_images:,} {kind}{'s' * (num_images != 1)}"
    return images if num_groups is None else f"{images} of {num_groups:,} group{'s' * (num_groups != 1)}"


def design_effect(values: Floats, groups: Labels | None) -> float:
    """By how much the variance of a sum of values (n,) around 0 grows because groups are alike, at least 1.

    Kish 1965, "Survey Sampling", section 8.2: n images tell as much as n / effect independent ones.
    """
    if groups is None:
        return 1.0
    sums = np.bincount(groups, values)
    squares = float(np.square(values).sum())
    return max(1.0, float(np.square(sums).sum()) / squares) if squares else 1.0


def variance_of_sum(deviations: Floats, groups: Labels | None) -> float:
    """The variance of a sum over n images, from what each image adds to it (n,), less the mean.

    Of groups, it is the larger one of two estimates, and at least that of independent images. The first is that of the
    groups' sums. The second takes one correlation for all pairs of images of a group. It is estimated from all pairs,
    and a group of k images has weight k - 1 (Ridout, Demetrio & Firth 1999, "Estimating intraclass correlation for
    binary data"). Few wrong images say little of it, so half an image counts as one whose whole group is wrong.
    Multiplied by the normal quantile, the variance's root is half an interval: it has the ratio of Student's quantile
    to the normal one.
    """
    squares = np.square(deviations)
    independent = float(squares.sum())
    if groups is None or independent == 0:
        return independent
    sizes, sums, square_sums = np.bincount(groups), np.bincount(groups, deviations), np.bincount(groups, squares)
    sizes, sums, square_sums = (totals[sizes > 0] for totals in (sizes, sums, square_sums))
    count, num_groups = len(deviations), len(sizes)
    by_sums = num_groups / max(num_groups - 1, 1) * float(np.square(sums).sum())  # around an estimated mean
    pairs = float(((np.square(sums) - square_sums) / sizes).sum())
    added = 0.5 * float(np.square(squares).sum()) / independent  # the square of half an image, mostly of a wrong one
    correlation = max((pairs + added) / (float((square_sums * (1 - 1 / sizes)).sum()) + added), 0.0)
    alike = independent / count * (count + correlation * float((sizes * (sizes - 1)).sum()))
    student = float(stdtrit(max(_effective(sizes) - 1, 1.0), 0.975)) / NORMAL_QUANTILE  # few large groups are few
    return max(independent, student**2 * max(by_sums, alike))


def gathered(flags: Bools, groups: Labels | None) -> Floats:
    """(n,) values with the mean of `flags`, whose scatter is that of independent groups; without groups 0 and 1.

    What a group (`numbered`) deviates by is gathered in its first image, so that its other images add no variance. Any
    analysis that takes images for independent is then right. The sum has the variance of `variance_of_sum`. The values
    of two networks may be subtracted.
    """
    values = flags.astype(np.float64)
    if groups is None:
        return values
    _, firsts, numbers = np.unique(groups, return_index=True, return_inverse=True)
    share, count = float(values.mean()), len(values)
    sums = np.bincount(numbers, values - share)
    squares = max(float(np.square(sums).sum()), 1e-12)  # 0 where all images are right, or all wrong
    gathered_values = np.full(count, share)
    gathered_values[firsts] += (variance_of_sum(values - share, numbers) / squares * (count - 1) / count) ** 0.5 * sums
    return gathered_values
