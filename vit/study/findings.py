"""What a study found, as typed values: rows of results.csv, and all of summary.json"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.inference.image_groups import count_words

RANDOM_WEIGHTS = "random weights"  # what a series starts from where it starts from no others
ALPHA = 0.05  # of every test; intervals cover 1 - ALPHA

Verdict = Literal["first ahead", "second ahead", "crossing", "not resolved"]
JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Protocol = Mapping[str, JsonValue]  # data, budget, tuning, seeds, fingerprints, versions: {name: value}

# Names in results.csv and summary.json where they differ from the attributes' names.
FILE_KEYS = {"num_images": "images", "num_test_images": "test_images"}


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; an end that the data do not bound is None."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CellResult:
    """One finished run of a study: a row of results.csv.

    Attributes:
        series: name of the network with the values that --vary gave it.
        network: name in the catalog.
        num_images: number of training images.
        seed: seed of the subset and of the training.
        accuracy: fraction of test images with the right prediction; with several labels for an image the exact match.
        validation_loss: cross-entropy of the same checkpoint, in nats.
        epochs: passes over the training images, as a fraction.
        best_round: round of the checkpoint that `optim.best_metric` chose, counted from 0.
        seconds: time of training and evaluation.
        images_per_second: training images per second.
        last_is_better: whether the last weights are clearly more accurate on the validation images than the checkpoint.
        run: run folder, relative to the study's folder.
        correct: (T,) whether the prediction for each test image is right, in the order of the test images.
        groups: (T,) number of each test image's group; None where images have none.
        late_gain: fraction by which the validation loss fell over the last fifth of the steps; None: not known.
    """

    series: str
    network: str
    num_images: int
    seed: int
    accuracy: float
    validation_loss: float
    steps: int
    batch_size: int
    epochs: float
    best_round: int
    parameters: int
    flops: int
    seconds: float
    images_per_second: float
    last_is_better: bool
    run: str
    correct: npt.NDArray[np.bool_]
    groups: npt.NDArray[np.int64] | None = None
    late_gain: float | None = None


@dataclass(frozen=True)
class FailedCell:
    """A cell without a result.

    Attributes:
        run: run folder, relative to the study's folder.
        error: reason of the failure.
        choice: values that tuning tried, as text.
    """

    series: str
    num_images: int
    seed: int
    run: str
    error: str
    choice: str = ""

    def words(self) -> str:
        """The cell in a message."""
        return cell_words(self.series, self.num_images, self.seed, self.choice)


def cell_words(series: str, num_images: int, seed: int, choice: str) -> str:
    """A cell of a study in a message: "CNN, 1,000 images, seed 0, lr=0.001"."""
    return ", ".join(filter(None, (series, f"{num_images:,} images", f"seed {seed}", choice)))


@dataclass(frozen=True)
class Point:
    """A series at one size.

    Attributes:
        num_images: number of training images.
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
class Fit:
    """e(n) = floor + scale * n^exponent, fitted to the points of a series by weighted least squares.

    Attributes:
        supported: whether the points support the fit. If not, no number may be read from the fit.
        why: reason where the points do not support the fit.
        sizes: numbers of images from the smallest measured to 4 times the largest, evenly spaced in the logarithm.
        mean: fitted error at each of `sizes`.
        low: lower end of the 95 % band at each of `sizes`.
        high: upper end of the 95 % band at each of `sizes`.
        largest: largest measured size. Beyond it the curve is an extrapolation.
        at_twice: estimated error with twice the largest size.
        at_four_times: estimated error with four times the largest size.
        for_target: estimated number of images that reach the target accuracy, or None without such an estimate.
        refusal: reason why `for_target` is None.
    """

    floor: Interval
    scale: Interval
    exponent: Interval
    supported: bool
    why: str
    sizes: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    largest: int
    at_twice: Interval
    at_four_times: Interval
    for_target: Interval | None
    refusal: str


@dataclass(frozen=True)
class Series:
    """One line of the figure: a network with the values that --vary gave it, at every size."""

    name: str
    network: str
    parameters: int
    flops: int
    points: list[Point]
    fit: Fit | None


@dataclass(frozen=True)
class Reach:
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
        num_images: number of training images.
        seeds: seeds that both series have.
        gap: error of the first minus error of the second.
        ratio: error of the first over error of the second.
        p: p value of the test that the gap is zero, or 1 with one seed.
        p_adjusted: p value after the correction for all tests of the study (Hochberg).
        reach: reach of the gap, or None with one seed.
    """

    num_images: int
    seeds: list[int]
    gap: Interval
    ratio: Interval
    p: float
    p_adjusted: float
    reach: Reach | None

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
    verdict: Verdict
    crossing: Interval | None
    slope: Interval | None
    slope_p: float
    words: str = ""
    unshared: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Findings:
    """All findings of a study: summary.json.

    Attributes:
        verdict: paragraph for a reader who reads nothing else.
        headline: the answer in one sentence, with interval and p where there are some; "" where it was not told.
        sentences: the rest of the verdict without its advice.
        next_steps: what would make the answer better known.
        target: accuracy of `Fit.for_target`, or None without a target.
        num_test_images: number of test images, which all runs share.
    """

    verdict: str
    series: list[Series]
    comparisons: list[Comparison]
    target: float | None
    num_test_images: int
    protocol: Protocol
    failed: list[FailedCell]
    headline: str = ""
    sentences: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)

    @property
    def sizes(self) -> list[int]:
        """Measured numbers of training images, ascending."""
        return sorted({point.num_images for series in self.series for point in series.points})

    @property
    def test_images(self) -> str:
        """How many test images there are, and of how many groups, which intervals and tests take for independent."""
        groups = self.protocol.get("test_groups")
        words = count_words(self.num_test_images, groups if isinstance(groups, int) else None, "test image")
        return f"{words} of its own for each seed" if "folds" in self.protocol else words
