"""Findings of a study that was never run: known curves with scatter, and intervals of a plausible width."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from vit.study.findings import (
    Backtest,
    Comparison,
    Difference,
    Expected,
    FailedCell,
    Findings,
    Forecast,
    Gain,
    Interval,
    MarginOfError,
    Metric,
    Point,
    Series,
)

CURVES = ((0.02, 9.0, -0.75), (0.03, 1.5, -0.5), (0.02, 2.5, -0.45), (0.05, 4.0, -0.6))  # floor, scale, exponent
SIZES = (100, 300, 1000, 3000, 10000)
PROTOCOL = {
    "data": "fashion_mnist",
    "classes": 10,
    "images": {"train": 57000, "validation": 3000, "test": 10000},
    "fingerprints": {"train": "3f4b2f21cc474df4", "validation": "03117c13646cfcd7", "test": "87ad89315fc140e5"},
    "sizes": list(SIZES),
    "seeds": [0, 1, 2, 3, 4],
    "budget": "steps:2000",
    "budget_words": "2,000 optimizer steps at every size",
    "tuning": "chosen among 3 settings at every size by each seed for itself, on validation images",
    "settings": {"vit_mini_patch4_28": ["lr=0.0003", "lr=0.001", "lr=0.003"], "resnet10_small": ["lr=0.01", "lr=0.1"]},
    "subsets": "class-balanced, each inside the next larger, drawn once per seed and shared by all networks",
    "jobs": "2 at a time, 1 thread each",
    "cells": "48 of 50 finished, 2 failed",
    "device": "cpu, 1 thread",
    "precision": "32-true",
    "versions": {"python": "3.11.7", "torch": "2.14.1", "timm": "1.0.31"},
    "note": None,
}
NAMES = ("vit_mini_patch4_28", "resnet10_small", "convnext_atto", "vit_tiny_patch16_224")


def make(
    names: Sequence[str] = NAMES[:2],
    sizes: Sequence[int] = SIZES,
    seeds: int = 5,
    fitted: bool = True,
    failed: int = 0,
    target: float | None = None,
    data: str = "fashion_mnist",
) -> Findings:
    """Up to four series; the first two of them cross between 300 and 3,000 images."""
    generator = np.random.default_rng(0)
    difficulty = 0.03 * generator.standard_normal((len(sizes), seeds))  # of the training images: common to all series
    errors = {
        name: np.minimum(0.9, (a + b * np.array(sizes, float)[:, None] ** c))
        * np.exp(difficulty + 0.025 * generator.standard_normal((len(sizes), seeds)))
        for name, (a, b, c) in zip(names, CURVES, strict=False)
    }
    series = []
    for place, (name, curve) in enumerate(zip(names, CURVES, strict=False)):
        points = [
            made(n, own, 12.0 * (1 + place) * n**0.35, 4100.0 / (1 + place))
            for n, own in zip(sizes, errors[name], strict=True)
        ]
        series.append(
            Series(
                name,
                NAMES[place],
                1_241_226 * (1 + place),
                80_000_000,
                points,
                [Gain(sizes[-2], sizes[-1], Interval(0.2, 0.1, 0.3), Interval(0.02, 0.01, 0.03), 0.001)]
                if len(sizes) > 1
                else [],
                forecast_of(name, curve, sizes, fitted),
            )
        )
    pairs = [compared(names[0], other, sizes, errors) for other in names[1:]]
    cells = [FailedCell(names[0], sizes[0], n, "", f"cells/a/seed{n}", "training diverged") for n in range(failed)]
    answer = ["Use vit_mini_patch4_28: 2 points fewer.", "Yes: from 3,000 to 10,000 images the errors fell."]
    trend = "Below about 1,200 images resnet10_small is ahead, above vit_mini_patch4_28."
    return Findings(
        answer=answer,
        trend=trend,
        series=series,
        comparisons=pairs,
        target=target,
        margin=0.02,
        num_test_images=10000,
        protocol={**PROTOCOL, "data": data},
        failed=cells,
    )


def made(images: int, errors: np.ndarray, seconds: float, images_per_second: float) -> Point:
    """A point with an interval of about the right width."""
    correlation = 0.4 if len(errors) > 1 else None
    return Point(
        images, list(range(len(errors))), errors.tolist(), around(errors), correlation, seconds, images_per_second
    )


def around(values: np.ndarray) -> Interval:
    """A mean with an interval of about the right width."""
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean, None, None)
    reach = 2.8 * float(values.std(ddof=1)) / len(values) ** 0.5
    return Interval(mean, mean - reach, mean + reach)


def forecast_of(name: str, curve: tuple[float, float, float], sizes: Sequence[int], given: bool) -> Forecast:
    """The true curve with a band that widens."""
    if len(sizes) < 2:
        return Forecast(sizes[-1], "only one size was measured", [], [], [], [], [], [], None, "x")
    a, b, c = curve
    places = np.geomspace(sizes[-1], 4 * sizes[-1], 20)
    mean = (a + b * places**c) * given
    width = 0.03 + 0.12 * np.log(places / sizes[-1])
    target = (12345, None) if c < -0.7 else None
    refusal = "" if target else "not with 40,000 images, 4 times the largest size: error 4.0 % (3.1 to 5.0)"
    if not given:
        return Forecast(
            sizes[-1], "the lengths of the trainings grew in another way", [], [], [], [], [], [], None, "x"
        )
    ahead = [
        Expected(name, k * sizes[-1], *((a + b * (k * sizes[-1]) ** c) * np.array([1, 0.9, 1.3]))) for k in (1, 2, 3, 4)
    ]
    tested = [Backtest(name, sizes[-1], 0.1, 0.08, 0.12, sizes[-2], 0.11)]
    bands = (mean.tolist(), (mean * (1 - width)).tolist(), (mean * (1 + width)).tolist())
    return Forecast(sizes[-1], "", places.tolist(), *bands, ahead, tested, target, refusal)


def compared(first: str, second: str, sizes: Sequence[int], errors: dict[str, np.ndarray]) -> Comparison:
    """Differences at every size, and a crossing if their sign changes."""
    found = []
    for place, n in enumerate(sizes):
        ours, theirs = errors[first][place], errors[second][place]
        gap, logs = around(ours - theirs), around(np.log(ours / theirs))
        ends = [None if end is None else float(np.exp(end)) for end in (logs.low, logs.high)]
        p = 0.0004 if gap.low is not None and gap.low * gap.high > 0 else 0.31
        ratio = Interval(float(np.exp(logs.value)), *ends)
        reach = None if gap.high is None else MarginOfError(gap.high - gap.value, 0.005, 0.004)
        found.append(Difference(n, list(range(len(ours))), gap, ratio, p, min(1.0, 3 * p), reach))
    crosses = found[0].gap.value * found[-1].gap.value < 0
    words = f"{second} makes fewer errors with few images, {first} with many: they cross."
    return Comparison(
        first,
        second,
        found,
        "crossing" if crosses else "not resolved",
        Metric(1234.0, sizes[0], sizes[-1]) if crosses else None,
        Interval(-0.3, -0.4, -0.2),
        0.001,
        words,
    )


@pytest.fixture(scope="session")
def study() -> Callable[..., Findings]:
    """`study(names, sizes, seeds, fitted, failed, target, data)` -> Findings."""
    return make
