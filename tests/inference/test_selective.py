"""Selective prediction: the guarantee holds over many draws of validation images, and the curve is what it says."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from vit.inference.answers.selective import fewest_images, risk_coverage, threshold_for


def world(generator, count):
    """Confidences of images, and whether each is right; right as often as they say to the power of two."""
    highest = generator.uniform(0.3, 1.0, count)
    return highest, generator.random(count) < highest**2


@pytest.mark.parametrize(("target", "count"), [(0.65, 100), (0.8, 1000), (0.9, 3000)])
def test_new_images_reach_the_target_in_at_least_95_percent_of_fits(target, count):
    generator = np.random.default_rng(0)
    fits, misses, thresholds = 300, 0, []
    for _ in range(fits):
        found = threshold_for(target, *world(generator, count))
        if found == np.inf:
            continue
        # accuracy of all images above a threshold t in this world: mean of c^2 over (t, 1)
        misses += (1 - found**3) / (3 * (1 - found)) < target
        thresholds.append(found)
    assert misses <= binom.ppf(0.999, fits, 0.05)
    assert len(thresholds) > fits / 2  # it is not safe because it never answers


def test_more_validation_images_keep_more_images():
    generator = np.random.default_rng(1)
    few, many = (np.mean([threshold_for(0.7, *world(generator, n)) for _ in range(30)]) for n in (1000, 5000))
    assert many < few


def test_the_fewest_images_that_can_be_enough():
    for target in (0.9, 0.99):
        count = fewest_images(target) * 2  # half are kept after several tests
        few = fewest_images(target) - 1
        assert threshold_for(target, np.ones(few), np.ones(few, bool)) == np.inf
        assert threshold_for(target, np.ones(count * 2), np.ones(count * 2, bool)) == 1.0


def test_a_threshold_is_the_probability_of_an_image_that_it_keeps():
    highest, correct = world(np.random.default_rng(2), 500)
    highest = highest.astype(np.float32)
    found = threshold_for(0.8, highest, correct)
    kept = highest >= found
    assert found == highest[kept].min() and correct[kept].mean() > 0.8


def test_no_validation_images_and_a_network_that_is_always_wrong_have_no_threshold():
    assert threshold_for(0.9, np.array([]), np.array([], bool)) == np.inf
    assert threshold_for(0.9, np.linspace(0, 1, 100), np.zeros(100, bool)) == np.inf


def test_risk_against_coverage_by_hand():
    curve = risk_coverage(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, False, True, False]))
    assert curve.coverage.tolist() == [0.25, 0.75, 1.0]
    assert curve.risk.tolist() == pytest.approx([0.0, 1 / 3, 0.5])
    assert curve.area.value == pytest.approx((0 + 1 / 3 + 1 / 3 + 0.5) / 4)
    assert curve.area.low < curve.area.value < curve.area.high
    assert curve.low[0] == 0.0
    assert curve.high[0] == pytest.approx(0.975)  # no error in one image


def test_sorting_by_confidence_lowers_the_area_below_the_error():
    highest, correct = world(np.random.default_rng(3), 2000)
    assert risk_coverage(highest, correct).area.value < 1 - correct.mean()


def test_the_interval_of_the_area_has_a_width_without_an_error():
    """The percentiles of a bootstrap were 0 to 0, and missed the truth in half of the test sets."""
    area = risk_coverage(np.linspace(0.9, 0.99, 20), np.ones(20, bool)).area
    assert (area.value, area.low) == (0.0, 0.0) and 0.1 < area.high < 0.4


@pytest.mark.parametrize("count", [25, 100, 1000])
def test_the_interval_of_the_area_contains_the_truth(count):
    draws, random, truth = 400, np.random.default_rng(8), 0.0104  # of a million images
    missed = 0
    for _ in range(draws):
        confidences = random.beta(8, 1, count)
        area = risk_coverage(confidences, random.random(count) < 1 - (1 - confidences) / 4).area
        missed += not area.low <= truth <= area.high
    assert missed <= binom.ppf(0.999, draws, 0.05)


def test_the_variance_of_the_area_is_that_of_a_bootstrap():
    random = np.random.default_rng(9)
    confidences = random.random(3000).round(2)  # with ties
    correct = random.random(3000) < confidences
    drawn = [random.integers(0, 3000, 3000) for _ in range(300)]
    areas = [risk_coverage(confidences[own], correct[own]).area.value for own in drawn]
    area = risk_coverage(confidences, correct).area
    assert (area.high - area.low) / 2 / 1.96 == pytest.approx(np.std(areas), rel=0.15)


def grouped_world(generator, num_groups, size, alike, uneven=False):
    """Confidences, whether each is right, and groups; a group's images are alike, and right as often as in `world`."""
    sizes = generator.integers(1, 2 * size, num_groups)
    if uneven:
        sizes = np.where(generator.random(num_groups) < 0.05, 20 * size, 2)
    groups = np.repeat(np.arange(num_groups), sizes)

    def uniform():
        shared, own = generator.normal(size=num_groups)[groups], generator.normal(size=len(groups))
        return ndtr(alike**0.5 * shared + (1 - alike) ** 0.5 * own)

    highest = 0.3 + 0.7 * uniform()
    return highest, uniform() < highest**2, groups


def misses_of(generator, target, fits, with_groups, *world):
    """(fits whose threshold misses the target, fits with a threshold)."""
    misses = answers = 0
    for _ in range(fits):
        highest, correct, groups = grouped_world(generator, *world)
        found = threshold_for(target, highest, correct, groups if with_groups else None)
        if found < np.inf:
            answers += 1
            misses += (1 - found**3) / (3 * (1 - found)) < target
    return misses, answers


@pytest.mark.parametrize(
    ("target", "world"),
    [
        (0.8, (40, 30, 0.5)),
        *(pytest.param(0.65, world, marks=pytest.mark.slow) for world in ((200, 5, 0.9), (200, 5, 0.9, True))),
    ],
)
def test_images_of_new_groups_reach_the_target_though_images_of_a_group_are_alike(target, world):
    fits = 300
    misses, answers = misses_of(np.random.default_rng(4), target, fits, True, *world)
    assert misses <= binom.ppf(0.999, fits, 0.05)
    assert answers > fits / 5
    naive, _ = misses_of(np.random.default_rng(4), target, fits, False, *world)
    assert naive > binom.ppf(0.999, fits, 0.05), "the world is one in which groups matter"


def test_groups_of_one_image_are_images():
    highest, correct = world(np.random.default_rng(5), 400)
    order = np.random.default_rng(6).permutation(400)
    assert threshold_for(0.7, highest, correct, order) == threshold_for(0.7, highest, correct)
    alone, grouped = (risk_coverage(highest, correct, groups=groups) for groups in (None, order))
    assert np.array_equal(alone.low, grouped.low) and np.array_equal(alone.high, grouped.high)


def test_copies_of_images_in_a_group_change_no_threshold_and_no_interval():
    highest, correct = world(np.random.default_rng(7), 400)
    copies = [np.repeat(one, 5) for one in (highest, correct, np.arange(400))]
    alone, found = threshold_for(0.7, highest, correct), threshold_for(0.7, *copies)
    assert found == alone < np.inf
    curve, copied = risk_coverage(highest, correct), risk_coverage(*copies[:2], groups=copies[2])
    np.testing.assert_allclose(copied.low, curve.low, atol=1e-12)
    np.testing.assert_allclose(copied.high, curve.high, atol=1e-12)
    assert threshold_for(0.7, *copies[:2]) < alone, "without groups copies count as news"
