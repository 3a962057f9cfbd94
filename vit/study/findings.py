"""What a study found, as typed values: all of summary.json"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from vit.inference.scores.image_groups import count_words
from vit.inference.scores.intervals import Interval as Interval
from vit.study.cells import FailedCell

ALPHA = 0.05  # of every test; intervals cover 1 - ALPHA
Outcome = Literal["first ahead", "second ahead", "crossing", "not resolved"]
JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Protocol = Mapping[str, JsonValue]  # data, budget, tuning, seeds, fingerprints, versions: {name: value}

# Names in results.csv and summary.json where they differ from the attributes' names.
FILE_KEYS = {"num_images": "images", "num_test_images": "test_images"}


@dataclass(frozen=True)
class Gain:
    """What the step between the two largest sizes of a series has brought, on the same seeds and test images.

    Attributes:
        fall: part of the errors that the larger size no longer makes; below 0 where it makes more. Its interval covers
            other seeds and other test images.
        points: error of the smaller size minus error of the larger.
        p: p value of the test that the errors do not change, or 1 with one seed.
    """

    from_images: int
    to_images: int
    fall: Interval
    points: Interval
    p: float


@dataclass(frozen=True)
class Expected:
    """The error that a series is expected to have with a number of images, with both ends of its 95 % interval."""

    series: str
    num_images: int
    error: float
    low: float
    high: float

    @property
    def interval(self) -> Interval:
        """The error with its interval."""
        return Interval(self.error, self.low, self.high)


@dataclass(frozen=True)
class Backtest(Expected):
    """What the forecast would have said of a measured size, had only the sizes up to `known_to` been measured."""

    known_to: int
    measured: float


@dataclass(frozen=True)
class Forecast:
    """The curve of a series beyond its largest size, up to 4 times.

    Attributes:
        largest: largest measured size.
        why: reason where no number can be given, else empty. The lists are empty then.
        sizes: numbers of images from the largest measured to 4 times as many, evenly spaced in the logarithm.
        mean: expected error at each of `sizes`.
        low: lower end of the 95 % band at each of `sizes`.
        high: upper end of the 95 % band at each of `sizes`.
        for_target: numbers of images between which the target accuracy is reached; the second is None above 4 times
            the largest size. None without such numbers.
        refusal: what is known of the target instead.
    """

    largest: int
    why: str
    sizes: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    expected: list[Expected]
    backtest: list[Backtest]
    for_target: tuple[int, int | None] | None
    refusal: str

    @property
    def at_twice(self) -> Expected | None:
        """With twice the largest size."""
        return self.expected[1] if self.expected else None


@dataclass(frozen=True)
class Point:
    """A series at one size.

    Attributes:
        errors: test error of each seed, in the order of `seeds`.
        mean: mean error. Its interval covers other seeds and other test images.
        seed_correlation: correlation of two seeds' errors over the test images, or None with one seed.
    """

    num_images: int
    seeds: list[int]
    errors: list[float]
    mean: Interval
    seed_correlation: float | None
    seconds: float
    images_per_second: float


@dataclass(frozen=True)
class Series:
    """One line of the figure: a network with the values that --vary gave it, at every size."""

    name: str
    network: str
    parameters: int
    flops: int
    points: list[Point]
    gain: Gain | None
    forecast: Forecast | None


@dataclass(frozen=True)
class MarginOfError:
    """Half the width of a gap's 95 % interval, in this study and in a larger one; 1 where the interval says nothing.

    Where test images have groups, `twice_the_test_images` is about twice the groups.
    """

    now: float
    twice_the_seeds: float
    twice_the_test_images: float


@dataclass(frozen=True)
class Difference:
    """Two series at one size, paired by seed and by test image. Intervals cover other seeds and other test images.

    Attributes:
        ratio: error of the first over error of the second.
        p: p value of the test that the gap is zero, or 1 with one seed.
        p_adjusted: p value after the correction for all tests of the study (Hochberg).
    """

    num_images: int
    seeds: list[int]
    gap: Interval
    ratio: Interval
    p: float
    p_adjusted: float
    margin_of_error: MarginOfError | None

    @property
    def is_tested(self) -> bool:
        """Whether there are two seeds or more. One seed has no scatter, and no test."""
        return len(self.seeds) > 1

    @property
    def tested_p(self) -> float | None:
        """`p`, or None without a test."""
        return self.p if self.is_tested else None

    @property
    def is_significant(self) -> bool:
        """Whether the two errors differ by the corrected test."""
        return self.p_adjusted < ALPHA

    @property
    def side(self) -> int:
        """-1 where the first makes fewer errors, 1 where the second does, 0 where both make equally many."""
        return int(np.sign(self.gap.value))


@dataclass(frozen=True)
class Comparison:
    """Two series over all sizes that both have.

    Attributes:
        verdict: outcome inside the measured range.
        crossing: number of images at which both series are equally good. None unless the verdict is "crossing". An
            end is None where it may lie outside the measured range.
        slope: change of log(error ratio) for ten times the images.
        slope_p: p value of the test that the slope is zero, corrected with all tests of the study, or 1 without a test.
        words: the comparison in one or two sentences, with the test of the slope.
        unshared: measured sizes at which the two have no seed in common, such as those where all runs of one failed.
    """

    first: str
    second: str
    differences: list[Difference]
    verdict: Outcome
    crossing: Interval | None
    slope: Interval | None
    slope_p: float
    words: str = ""
    unshared: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class VerdictText:
    """What a study says.

    Attributes:
        answer: which network, and whether more images help. Each is a sentence of at most 25 words.
        trend: which network gains more from more images, or where the lead changes; empty where that is not known.
        conditions: what the answer depends on, in one line.
        cost: parameters, FLOPs and time of the networks of the answer, in one line.
        notes: what the budget, the checkpoints and the tuning may have changed.
        next_steps: what would make the answer better known.
    """

    answer: list[str]
    trend: str = ""
    conditions: str = ""
    cost: str = ""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Findings(VerdictText):
    """All findings of a study: summary.json.

    Attributes:
        target: accuracy of `Forecast.for_target`, or None without a target.
        margin: errors that differ by less count as equal.
        num_test_images: number of test images, which all runs share.
    """

    series: list[Series]
    comparisons: list[Comparison]
    target: float | None
    margin: float
    num_test_images: int
    protocol: Protocol
    failed: list[FailedCell]

    @property
    def forecasts(self) -> list[Expected]:
        """Those of all series."""
        return [row for one in self.series if one.forecast for row in one.forecast.expected]

    @property
    def backtest(self) -> list[Backtest]:
        """Those of all series."""
        return [row for one in self.series if one.forecast for row in one.forecast.backtest]

    @property
    def sizes(self) -> list[int]:
        """Measured numbers of training images, ascending."""
        return sorted({point.num_images for series in self.series for point in series.points})

    @property
    def test_images(self) -> str:
        """How many test images there are, and of how many groups, which intervals and tests take for independent."""
        groups = self.protocol.get("test_groups")
        words = count_words(self.num_test_images, groups if isinstance(groups, int) else None, "test image")
        return f"{words}, others for each seed" if "folds" in self.protocol else words
