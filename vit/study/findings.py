"""What a study found, as plain values: the content of results.csv and summary.json, and what a report is drawn from."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Verdict = Literal["first ahead", "second ahead", "crossing", "not resolved"]


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
        series: what is compared: a network, and the values that --vary gave it.
        network: the catalog's name.
        images: training images.
        seed: of the subset and of the training.
        accuracy: share of the test images that are right.
        validation_loss: of the same checkpoint, in nats.
        epochs: passes over the training images, as a fraction.
        seconds: of training, evaluation included.
        images_per_second: training images per second.
        run: the run folder, relative to the study's folder.
        correct: (T,) whether each test image is right, in the order of the test images.
    """

    series: str
    network: str
    images: int
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
    run: str
    correct: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Point:
    """A series at one size.

    Attributes:
        errors: of each seed, in the order of `seeds`.
        mean: of the errors; its interval is about other seeds and other test images.
        seed_correlation: of two seeds' errors over the test images; None with one seed.
    """

    images: int
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
        supported: whether the points bear the fit; where not, `why` says it, and no number may be read from it.
        sizes: image counts from the smallest measured to 4 times the largest, evenly spaced in the logarithm.
        mean, low, high: the fitted error at each of `sizes`, with a 95 % band.
        largest: the largest measured size; beyond it the curve is an extrapolation.
        at_twice: estimated error with twice the largest size.
        at_four_times: the same with four times.
        for_target: images estimated to reach the target accuracy; None when refused, and `refusal` says why.
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
    """One line of the figure."""

    name: str
    network: str
    parameters: int
    flops: int
    points: list[Point]
    fit: Fit | None


@dataclass(frozen=True)
class Reach:
    """Half the width of a gap's 95 % interval: as it is, and as it would be in a larger study."""

    now: float
    twice_the_seeds: float
    twice_the_test_images: float


@dataclass(frozen=True)
class Difference:
    """Two series at one size, paired by seed and by test image. Its intervals are about other seeds and test images.

    Attributes:
        seeds: those that both have.
        gap: error of the first minus error of the second.
        ratio: error of the first over error of the second.
        p: of the test that the gap is zero.
        p_adjusted: after the correction for all tests of the study (Hochberg).
        reach: of the gap; None with one seed.
    """

    images: int
    seeds: list[int]
    gap: Interval
    ratio: Interval
    p: float
    p_adjusted: float
    reach: Reach | None


@dataclass(frozen=True)
class Comparison:
    """Two series over all sizes that both have.

    Attributes:
        verdict: inside the measured range only.
        crossing: images at which the two are equally good; None unless the verdict is "crossing". An end is None where
            it may lie outside the measured range.
        slope: change of log(error ratio) for ten times the images.
        slope_p: of the test that it is zero, corrected with all tests of the study; 1 where there is none.
        words: the comparison in one or two plain sentences, slope test included.
    """

    first: str
    second: str
    differences: list[Difference]
    verdict: Verdict
    crossing: Interval | None
    slope: Interval | None
    slope_p: float
    words: str


@dataclass(frozen=True)
class Findings:
    """All of it; summary.json.

    Attributes:
        verdict: a paragraph for somebody who reads nothing else.
        target: accuracy that `Fit.for_target` is about; None: nobody asked.
        protocol: data, budget, tuning, seeds, fingerprints, versions: {name: value}.
        failed: cells without a result: {"series", "images", "seed", "run", "error"}.
    """

    verdict: str
    series: list[Series]
    comparisons: list[Comparison]
    target: float | None
    test_images: int
    protocol: dict[str, Any]
    failed: list[dict[str, Any]]
