"""The fit of a power law with a floor: recovery, refusals, and what it says of more images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from tests.study.answers import T, answers
from vit.study.learning_curve import fit_curve

SIZES = (100, 300, 1000, 3000, 10_000)
DEVIATES = np.array([-1.2, -0.4, 0.1, 0.5, 1.0])  # five seeds


def law(images, floor=0.02, scale=2.0, exponent=-0.45):
    return floor + scale * np.asarray(images, dtype=float) ** exponent


def points(errors, sizes=SIZES, images=T):
    """Answers from lists of errors, one a size."""
    return answers(errors, sizes, images)


def noisy(noise, sizes=SIZES, seed=0, **parameters):
    generator = np.random.default_rng(seed)
    return points(
        [error * np.exp(noise * generator.permutation(DEVIATES)) for error in law(sizes, **parameters)], sizes
    )


@pytest.mark.parametrize(
    ("floor", "scale", "exponent"), [(0.02, 2.0, -0.45), (0.0, 1.5, -0.3), (0.1, 30.0, -1.3), (0.0, 0.9, -0.08)]
)
def test_a_curve_without_noise_is_found(floor, scale, exponent):
    errors = law(SIZES, floor, scale, exponent)
    fit = fit_curve(points([[error] * 5 for error in errors], images=200_000), None)
    assert fit.floor.value == pytest.approx(floor, abs=2e-4)
    assert fit.scale.value == pytest.approx(scale, rel=1e-2)
    assert fit.exponent.value == pytest.approx(exponent, abs=2e-3)
    assert fit.at_twice.value == pytest.approx(law(20_000, floor, scale, exponent), rel=1e-3)
    assert fit.supported and not fit.why


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_that_of_scipy(seed):
    some = noisy(0.04, seed=seed)
    fit = fit_curve(some, None)
    means = np.array([np.mean([row.mean() for row in by_seed.values()]) for by_seed in some.values()])
    assert fit.scale.value > 0
    fitted = np.interp(np.log(SIZES), np.log(fit.sizes), fit.mean)
    (floor, scale, exponent), _ = curve_fit(
        law, SIZES, means, (0.01, 2, -0.4), fitted, bounds=([0, 0, -2], [1, 99, -0.01]), xtol=1e-12, ftol=1e-12
    )
    assert fit.at_twice.value == pytest.approx(law(20_000, floor, scale, exponent), rel=2e-3)
    assert fit.exponent.value == pytest.approx(exponent, abs=5e-3) and fit.floor.value == pytest.approx(floor, abs=1e-3)


def test_what_a_sound_fit_says():
    fit = fit_curve(noisy(0.03), 0.955)
    assert fit.supported and fit.why == ""
    assert (fit.sizes[0], fit.sizes[-1], fit.largest) == pytest.approx((100, 40_000, 10_000))
    assert all(low <= mean <= high for low, mean, high in zip(fit.low, fit.mean, fit.high, strict=True))
    assert fit.mean == sorted(fit.mean, reverse=True)
    assert fit.high[-1] - fit.low[-1] > fit.high[30] - fit.low[30]  # less is known of what was not measured
    for one in (fit.floor, fit.scale, fit.exponent, fit.at_twice, fit.at_four_times):
        assert one.low <= one.value <= one.high
    assert fit.floor.low <= 0.02 <= fit.floor.high and fit.exponent.low <= -0.45 <= fit.exponent.high
    assert fit.at_twice.low <= law(20_000) <= fit.at_twice.high
    needed = (0.025 / 2.0) ** (1 / -0.45)
    assert fit.for_target.low <= needed and fit.for_target.value == pytest.approx(needed, rel=0.5)
    assert fit.refusal == ""


def test_intervals_are_drawn_by_their_seed():
    some = noisy(0.05)
    assert fit_curve(some, 0.95, seed=1) == fit_curve(some, 0.95, seed=1) != fit_curve(some, 0.95, seed=2)


def test_the_band_grows_with_the_scatter_and_shrinks_with_seeds():
    def width(some):
        found = fit_curve(some, None).at_twice
        return found.high - found.low

    assert width(noisy(0.02)) < width(noisy(0.05))
    spread = [[0.95 * mean, 1.05 * mean] for mean in law(SIZES)]
    assert width(points([row * 8 for row in spread])) < width(points(spread))


def test_too_few_sizes():
    assert fit_curve(noisy(0.03, SIZES[:2]), None) is None
    fit = fit_curve(noisy(0.03, SIZES[:3]), 0.97)
    assert not fit.supported and "4 sizes" in fit.why and fit.for_target is None and fit.refusal == fit.why


def test_one_seed_for_each_size():
    fit = fit_curve(points([[error] for error in law(SIZES)]), 0.97)
    assert not fit.supported and "single seed" in fit.why and fit.refusal == fit.why
    assert fit.at_twice.low is None and fit.floor.high is None and fit.low == fit.mean == fit.high


@pytest.mark.parametrize(
    "errors", [[0.2, 0.2, 0.2, 0.2, 0.2], [0.1, 0.12, 0.15, 0.2, 0.3], [0.2, 0.199, 0.201, 0.2, 0.1995]]
)
def test_no_fall_no_fit(errors):
    fit = fit_curve(points([error * (1 + 0.05 * DEVIATES) for error in errors]), 0.95)
    assert not fit.supported and "does not fall" in fit.why and fit.for_target is None and fit.refusal == fit.why


def test_a_curve_that_is_none():
    errors = law(SIZES) * np.array([1, 1, 1.5, 1, 1])
    fit = fit_curve(points([error * (1 + 0.03 * DEVIATES) for error in errors]), None)
    assert not fit.supported and "power law" in fit.why


def test_a_band_too_wide():
    fit = fit_curve(noisy(0.9, (1000, 1500, 2000, 3000), scale=10.0, exponent=-0.6, floor=0.0), None)
    assert not fit.supported and fit.why


def test_targets_that_are_refused():
    some = noisy(0.03)
    assert "already reached with 1,000 images" in fit_curve(some, 0.85).refusal
    assert "never" in fit_curve(some, 0.99).refusal
    beyond = fit_curve(noisy(0.01, floor=0.0, scale=1.0, exponent=-0.15), 0.84)
    assert beyond.supported and "40,000" in beyond.refusal and beyond.for_target is None
    assert fit_curve(some, None).refusal == "" and fit_curve(some, None).for_target is None


@pytest.mark.parametrize("target", [0.7, 0.8, 0.85, 0.9, 0.95])
def test_a_target_that_was_reached_exactly_is_reached(target):
    """1 - 0.9 and 1 - 0.8 are a little below 0.1 and 0.2 as floats, and a mean of three errors may be above them."""
    error = round(1 - target, 2)
    some = points([[factor * error] * 3 for factor in (2.8, 2.0, 1.5, 1.0)], SIZES[:4], 2000)
    assert "already reached with 3,000 images" in fit_curve(some, target).refusal
    just_missed = points([[factor * error] * 3 for factor in (2.8, 2.0, 1.5, 1 + 1 / 2000 / error)], SIZES[:4], 2000)
    assert "already reached" not in fit_curve(just_missed, target).refusal


def test_a_target_whose_upper_end_lies_too_far():
    error = float(law(32_000, 0.0, 1.0, -0.25))
    found = fit_curve(noisy(0.03, floor=0.0, scale=1.0, exponent=-0.25), 1 - error).for_target
    assert found is not None and found.low < 40_000 and found.high is None


@given(st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=4), min_size=3, max_size=6), st.floats(0, 1))
def test_any_errors_give_finite_numbers(counts, target):
    sizes = [50 * 3**place for place in range(len(counts))]
    fit = fit_curve(points([[count / 200 for count in row] for row in counts], sizes, 200), target)
    numbers = [*fit.sizes, *fit.mean, *fit.low, *fit.high]
    for one in (fit.floor, fit.scale, fit.exponent, fit.at_twice, fit.at_four_times, fit.for_target):
        numbers += [end for end in (one.value, one.low, one.high) if end is not None] if one is not None else []
    assert np.isfinite(numbers).all() and fit.floor.value >= 0 and -2 <= fit.exponent.value < 0
    assert fit.supported == (fit.why == "") and (fit.for_target is None) == (fit.refusal != "")
