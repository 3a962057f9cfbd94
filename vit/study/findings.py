"""What a study found, as typed values: rows of results.csv, and all of summary.json"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.inference.image_groups import count_words
from vit.study.expected import ALPHA as ALPHA
from vit.study.expected import Backtest, Expected, Forecast, Gain
from vit.study.expected import Interval as Interval

Verdict = Literal["first ahead", "second ahead", "crossing", "not resolved"]
JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Protocol = Mapping[str, JsonValue]  # data, budget, tuning, seeds, fingerprints, versions: {name: value}

# Names in results.csv and summary.json where they differ from the attributes' names.
FILE_KEYS = {"num_images": "images", "num_test_images": "test_images"}


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
        answer: which network, and whether more images help, each in one sentence.
        trend: which network gains more from more images; empty where that is not known.
        conditions: what the answer depends on.
        cost: parameters, FLOPs and time of the networks of the answer.
        warnings: what may make the answer wrong.
        notes: what the budget, the checkpoints and the tuning may have changed.
        next_steps: what would make the answer better known.
        target: accuracy of `Forecast.for_target`, or None without a target.
        margin: errors that differ by less count as equal.
        num_test_images: number of test images, which all runs share.
    """

    answer: list[str]
    series: list[Series]
    comparisons: list[Comparison]
    target: float | None
    num_test_images: int
    protocol: Protocol
    failed: list[FailedCell]
    trend: str = ""
    conditions: str = ""
    cost: str = ""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    margin: float = 0.0

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
