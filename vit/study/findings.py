"""What a study is made of and what it finds, as typed values: its cells, and all of summary.json"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from vit.inference.scores.image_groups import count_text
from vit.inference.scores.intervals import Interval as Interval
from vit.inference.scores.intervals import Metric as Metric

Group = tuple[str, int, int]  # a series at one number of images, with one seed
_KEYS = ("series", "images", "seed", "choice", "folder")  # of an entry of study.json
ALPHA = 0.05  # of every test; intervals cover 1 - ALPHA
Outcome = Literal["first ahead", "second ahead", "crossing", "not resolved"]
JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Protocol = Mapping[str, JsonValue]  # data, budget, tuning, seeds, fingerprints, versions: {name: value}
# Names in results.csv and summary.json where they differ from the attributes' names.
FILE_KEYS = {"num_images": "images", "num_test_images": "test_images"}


@dataclass(frozen=True)
class ListedCell:
    """A cell as study.json lists it."""

    series: str
    num_images: int
    seed: int
    choice: str  # values that tuning tries, as text, or empty where nothing is tuned
    folder: str  # run folder, relative to the study's folder

    @classmethod
    def from_json(cls, entry: Mapping[str, str | int]) -> Self:
        series, images, seed, choice, folder = (entry[key] for key in _KEYS)
        return cls(str(series), int(images), int(seed), str(choice), str(folder))

    def to_json(self) -> dict[str, str | int]:
        return dict(zip(_KEYS, (self.series, self.num_images, self.seed, self.choice, self.folder), strict=True))

    @property
    def group(self) -> Group:
        """Key of the cells among which tuning chooses: each seed chooses for itself.

        A choice by one seed for all would be an error that all seeds share, and that no scatter of theirs shows.
        """
        return self.series, self.num_images, self.seed

    def describe(self) -> str:
        """The cell in a message: "CNN, 1,000 images, seed 0, lr=0.001"."""
        return ", ".join(filter(None, (self.series, f"{self.num_images:,} images", f"seed {self.seed}", self.choice)))


@dataclass(frozen=True)
class FailedCell(ListedCell):
    """A cell without a result, and the reason."""

    error: str


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One finished run of a study: a row of results.csv. Defaults are of heads on frozen networks, without a run."""

    series: str  # name of the network with the values that --vary gave it
    network: str  # its name, as `--model` takes it
    num_images: int  # training images
    seed: int  # seed of the subset and of the training
    accuracy: float  # fraction of right test images; with several labels for an image the exact match
    validation_loss: float  # cross-entropy of the same checkpoint, in nats
    steps: int = 0  # of the optimizer
    batch_size: int  # images of a step
    epochs: float = 0.0  # passes over the training images, as a fraction
    best_round: int = 0  # round of the checkpoint that `optim.best_metric` chose, counted from 0
    parameters: int  # numbers in the network's weights
    flops: int  # of one image's forward pass; a multiply-add counts as two
    seconds: float  # time of training and evaluation
    images_per_second: float = 0.0  # training images per second
    # whether the last weights are clearly more accurate on validation images than the checkpoint
    last_is_better: bool = False
    run: str = ""  # its folder in that of the study
    correct: npt.NDArray[np.bool_]  # (T,) whether the prediction for each test image is right
    groups: npt.NDArray[np.int64] | None = None  # (T,) number of each test image's group; None where images have none
    late_gain: float | None = None  # fall of the validation loss over the last fifth of the steps; None: not known


@dataclass(frozen=True)
class Gain:
    """What the step to the largest size of a series has brought, on the same seeds and test images."""

    from_images: int
    to_images: int
    fall: Interval  # part of the errors that the larger size no longer makes; below 0 where it makes more
    points: Interval  # error of the smaller size minus error of the larger
    p: float  # p value that the errors do not change, at least that of wider steps; 1 with one seed


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
        return Interval(self.error, self.low, self.high)


@dataclass(frozen=True)
class Backtest(Expected):
    """What the forecast would have said of a measured size, had only the sizes up to `known_to` been measured."""

    known_to: int
    measured: float


@dataclass(frozen=True)
class Forecast:
    """The curve of a series beyond its largest size, up to 4 times."""

    largest: int  # largest measured size
    why: str  # reason where no number can be given, else empty. The lists are empty then.
    sizes: list[float]  # numbers of images from the largest measured to 4 times as many, evenly spaced in the logarithm
    mean: list[float]  # expected error at each of `sizes`
    low: list[float]  # lower end of the 95 % band at each of `sizes`
    high: list[float]  # upper end of the 95 % band at each of `sizes`
    expected: list[Expected]
    backtest: list[Backtest]
    # fewest images that may reach the target accuracy, and those of the expected curve; None above 4 times the largest
    for_target: tuple[int, int | None] | None
    refusal: str  # what is known of the target instead

    @property
    def at_twice(self) -> Expected | None:
        return self.expected[1] if self.expected else None


@dataclass(frozen=True)
class Point:
    """A series at one size."""

    num_images: int
    seeds: list[int]
    errors: list[float]  # test error of each seed, in the order of `seeds`
    mean: Interval  # mean error. Its interval covers other seeds and other test images.
    seed_correlation: float | None  # correlation of two seeds' errors over the test images, or None with one seed
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
    gains: list[Gain]  # steps to the largest size, the widest first
    forecast: Forecast

    @property
    def at(self) -> dict[int, Point]:
        """{number of training images: what was measured there}."""
        return {point.num_images: point for point in self.points}


@dataclass(frozen=True)
class MarginOfError:
    """Half the width of a gap's 95 % interval, in this study and in a larger one; 1 where the interval says nothing."""

    now: float
    twice_the_seeds: float
    twice_the_test_images: float  # or twice the groups, where test images have groups


@dataclass(frozen=True)
class Difference:
    """Two series at one size, paired by seed and by test image. Intervals cover other seeds and other test images."""

    num_images: int
    seeds: list[int]
    gap: Interval
    ratio: Interval  # error of the first over error of the second
    p: float  # p value of the test that the gap is zero, or 1 with one seed
    p_adjusted: float  # p value after the correction for all tests of the study
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
    """Two series over all sizes that both have."""

    first: str
    second: str
    differences: list[Difference]
    verdict: Outcome  # outcome inside the measured range
    # number of images at which both series are equally good, where the verdict is "crossing"; both ends are sizes
    crossing: Metric | None
    slope: Interval | None  # change of log(error ratio) for ten times the images
    slope_p: float  # p value that the slope is zero, corrected with all tests of the study, or 1 without a test
    words: str = ""  # the comparison in one or two sentences, with the test of the slope
    unshared: list[int] = field(default_factory=list)  # measured sizes at which the two have no seed in common


@dataclass(frozen=True, kw_only=True)
class VerdictText:
    """What a study says."""

    answer: list[str]  # which network, and whether more images help. Each is a sentence of at most 25 words.
    trend: str = ""  # which network gains more from more images, or where the lead changes; empty: not known
    conditions: str = ""  # what the answer depends on, in one line
    cost: str = ""  # parameters, FLOPs and time of the networks of the answer, in one line
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what the budget, the checkpoints and the tuning may have changed
    next_steps: list[str] = field(default_factory=list)  # what would make the answer better known


@dataclass(frozen=True, kw_only=True)
class Findings(VerdictText):
    """All findings of a study: summary.json."""

    series: list[Series]
    comparisons: list[Comparison]
    target: float | None  # accuracy of `Forecast.for_target`, or None without a target
    margin: float  # errors that differ by less count as equal
    num_test_images: int  # number of test images, which all runs share
    protocol: Protocol
    failed: list[FailedCell]

    @property
    def forecasts(self) -> list[Expected]:
        return [row for one in self.series for row in one.forecast.expected]

    @property
    def at_twice(self) -> dict[str, Interval]:
        """{series: error that is expected with twice the largest size}, of those with such a forecast."""
        return {row.series: row.interval for row in self.forecasts if row.num_images == 2 * self.sizes[-1]}

    @property
    def backtest(self) -> list[Backtest]:
        return [row for one in self.series for row in one.forecast.backtest]

    @property
    def sizes(self) -> list[int]:
        """Measured numbers of training images, ascending."""
        return sorted({point.num_images for series in self.series for point in series.points})

    @property
    def test_images(self) -> str:
        """How many test images there are, and of how many groups, which intervals and tests take for independent."""
        groups = self.protocol.get("test_groups")
        words = count_text(self.num_test_images, groups if isinstance(groups, int) else None, "test image")
        return f"{words}, others for each seed" if "folds" in self.protocol else words
