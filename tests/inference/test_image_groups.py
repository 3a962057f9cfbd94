"""Intervals of images that belong together: groups are independent, their images are not"""

import numpy as np
import pytest

from vit.inference.answers.selective import risk_coverage, threshold_for
from vit.inference.metrics.metrics import with_intervals
from vit.inference.metrics.multilabel_metrics import multilabel_metrics
from vit.inference.scores.image_groups import bootstrap, count_text, gathered, number_of, numbered, variance_of_sum
from vit.inference.scores.intervals import Metric, recalls
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels
from vit.study.statistics.paired import difference, mcnemar, paired_gap, pairs
from vit.study.statistics.variance_components import mean_error

COPIES, BURSTS = 6, (100, 30, 0.97)


def drawn(random, num_groups, rate=0.2):
    """(flags, groups) of groups of 1 to 12 images, which are often all right or all wrong."""
    sizes = random.integers(1, 13, num_groups)
    groups = np.repeat(np.arange(num_groups), sizes)
    chances = random.beta(0.4 * rate, 0.4 * (1 - rate), num_groups)
    return random.random(len(groups)) < chances[groups], groups


def test_images_without_groups_are_counted_one_by_one():
    flags = np.array([True, False, True])
    assert numbered(None) is None and numbered(["", "", ""]) is None
    assert gathered(flags, None).tolist() == [1, 0, 1]
    assert Metric.share(flags) == Metric.fraction(2, 3)
    assert count_text(1, None) == "1 image" and count_text(1200, 30, "test image") == "1,200 test images of 30 groups"


def test_the_mean_stays_and_the_variance_is_that_of_groups():
    flags, groups = drawn(np.random.default_rng(0), 400)
    values, share = gathered(flags, groups), flags.mean()
    sums = [(flags[groups == group] - share).sum() for group in range(400)]
    variance = variance_of_sum(flags - share, groups)
    assert values.mean() == pytest.approx(share, abs=1e-12) and variance > np.square(sums).sum() * 400 / 399
    assert values.var(ddof=1) * len(values) == pytest.approx(variance)


def test_the_interval_covers_where_that_of_independent_images_does_not():
    random, groups_cover, images_cover = np.random.default_rng(1), 0, 0
    for _ in range(500):
        flags, groups = drawn(random, 40)
        of_groups, of_images = Metric.share(flags, groups), Metric.fraction(int(flags.sum()), len(flags))
        groups_cover += of_groups.low <= 0.2 <= of_groups.high
        images_cover += of_images.low <= 0.2 <= of_images.high
    assert groups_cover / 500 > 0.92 and images_cover / 500 < 0.75


@pytest.mark.parametrize(("num_groups", "size", "accuracy"), [(12, 100, 0.9), (40, 100, 0.9), (200, 100, 0.9), BURSTS])
def test_the_interval_covers_where_few_groups_have_most_of_the_images(num_groups, size, accuracy):
    """The sums of few large groups say little of their own scatter, and few wrong images little of a correlation."""
    random, covered = np.random.default_rng(6), 0
    for _ in range(300):
        groups = np.repeat(np.arange(num_groups), np.where(random.random(num_groups) < 0.05, size, 2))
        chances = random.beta(0.9 * accuracy, 0.9 * (1 - accuracy), num_groups)
        right = random.random(len(groups)) < chances[groups]
        found, error = Metric.share(right, groups), mean_error(np.stack([gathered(~right, groups)] * 3), num_groups)
        covered += found.low <= accuracy <= found.high and 1 - error.high <= accuracy <= 1 - error.low
    assert covered / 300 > 0.92


def test_the_interval_of_equal_groups_is_not_wider_for_it():
    random, groups = np.random.default_rng(7), np.repeat(np.arange(200), 8)
    flags = random.random(1600) < random.beta(9, 1, 200)[groups]
    values = gathered(flags, groups)
    found = Metric.share(flags, groups)
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 1600**0.5, rel=0.03)


def test_two_networks_are_compared_as_carefully_where_few_groups_have_most_of_the_images():
    """Equally good networks, of which one is right on a whole group: at most 5 % of the tests may tell them apart."""
    random, told, missed = np.random.default_rng(8), 0, 0
    for _ in range(200):
        groups = np.repeat(np.arange(60), np.where(random.random(60) < 0.1, 60, 2))
        first, second = (random.random(60) < 0.8 for _ in range(2))
        told += mcnemar(first[groups], second[groups], groups).p < 0.05
        gap = paired_gap(first[groups], second[groups], groups)
        missed += not gap.low <= 0 <= gap.high
    assert told / 200 < 0.06 and missed / 200 < 0.06


def test_a_difference_of_few_groups_has_an_interval_of_possible_differences():
    """Two patients: it was -155 to +163 points."""
    groups = np.repeat([0, 1], 12)
    gap = paired_gap(groups == 0, np.arange(24) % 8 < 3, groups)
    assert (gap.low, gap.high) == (-1, 1)


@pytest.mark.parametrize("right", [0, 1])
def test_all_right_is_as_certain_as_the_groups_are_many(right):
    flags, groups = np.full(60, bool(right)), np.repeat(np.arange(10), 6)
    found, expected = Metric.share(flags, groups), Metric.fraction(10 * right, 10)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    wrong = np.stack([gathered(~flags, groups)] * 3)
    assert mean_error(wrong, number_of(groups)).high == pytest.approx(mean_error(wrong[:, :10]).high)


def test_copies_of_an_image_do_not_make_an_interval_narrower():
    """A data set with each image six times has the intervals and tests of the data set without copies."""
    random = np.random.default_rng(2)
    hard = random.random((2, 500)) < [[0.25], [0.3]]
    first, second = (random.random((10, 500)) < np.where(row, 0.95, 0.02) for row in hard)
    groups = np.repeat(np.arange(500), COPIES)

    def studied(wrong, groups):
        return {100: {seed: gathered(row, groups) for seed, row in enumerate(wrong)}}

    (alone,) = pairs(studied(first, None), studied(second, None))
    copied = [np.repeat(wrong, COPIES, axis=1) for wrong in (first, second)]
    (grouped,) = pairs(*(studied(wrong, groups) for wrong in copied))
    (naive,) = pairs(*(studied(wrong, None) for wrong in copied))
    expected, found, narrow = map(difference, (alone, grouped, naive))
    assert found.gap.value == pytest.approx(expected.gap.value) and found.p == pytest.approx(expected.p, rel=0.1)
    width, wanted, too_narrow = (one.gap.high - one.gap.low for one in (found, expected, narrow))
    assert width == pytest.approx(wanted, rel=0.02) and too_narrow < 0.75 * wanted
    widths = [one.high - one.low for one in (mean_error(grouped.first, 500), mean_error(alone.first))]
    assert widths[0] == pytest.approx(widths[1], rel=0.02)
    right, other = (~wrong[0] for wrong in (first, second))
    many, others = (np.repeat(one, COPIES) for one in (right, other))
    single, gap = mcnemar(right, other), paired_gap(right, other)
    assert mcnemar(many, others).p < 0.1 * single.p
    assert mcnemar(many, others, groups).p == pytest.approx(single.p, rel=0.3)
    wide = paired_gap(many, others, groups)
    assert wide.high - wide.low == pytest.approx(gap.high - gap.low, rel=0.03)


def test_the_bootstrap_of_several_labels_draws_groups():
    random = np.random.default_rng(4)
    labels, probabilities = random.integers(0, 2, (150, 3)), random.random((150, 3)).astype(np.float32)
    copies = [np.repeat(one, COPIES, axis=0) for one in (labels, probabilities)]
    names, groups = tuple(map(str, range(150 * COPIES))), np.repeat(np.arange(150), COPIES)
    alone = multilabel_metrics(ScoredLabels(names[:150], labels, probabilities), [0.5] * 3)
    found = multilabel_metrics(ScoredLabels(names, *copies, groups=groups), [0.5] * 3)
    for name in ("micro_f1", "macro_f1", "nll", "map"):
        one, other = getattr(found, name), getattr(alone, name)
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=0.002)
    assert found.exact_match.high == pytest.approx(alone.exact_match.high, abs=0.002)


def test_the_area_under_risk_and_coverage_counts_groups():
    random = np.random.default_rng(5)
    confidences, correct = random.random(200).astype(np.float32), random.random(200) < 0.7
    alone = risk_coverage(confidences, correct)
    groups = np.repeat(np.arange(200), COPIES)
    found = risk_coverage(np.repeat(confidences, COPIES), np.repeat(correct, COPIES), groups=groups)
    assert found.area.high - found.area.low == pytest.approx(alone.area.high - alone.area.low, rel=0.05)


def test_metrics_of_copies_are_as_uncertain_as_those_of_the_images():
    random = np.random.default_rng(3)
    probabilities, labels = random.dirichlet(np.ones(3), 200), random.integers(0, 3, 200)
    names = tuple(map(str, range(200)))
    alone = with_intervals(ScoredImages(names, labels, probabilities.astype(np.float32)), 3)
    copied = ScoredImages(
        tuple(map(str, range(200 * COPIES))),
        np.repeat(labels, COPIES),
        np.repeat(probabilities, COPIES, axis=0).astype(np.float32),
        groups=np.repeat(np.arange(200), COPIES),
    )
    found = with_intervals(copied, 3)
    for name in ("balanced_accuracy", "macro_f1", "nll"):
        one, other = getattr(found, name), getattr(alone, name)
        assert one.value == pytest.approx(other.value) and one.low == pytest.approx(other.low, abs=0.002)


def test_recalls_of_copies_are_as_uncertain_as_those_of_the_images():
    random = np.random.default_rng(6)
    labels, correct = random.integers(0, 4, 300), random.random(300) < 0.7
    alone = recalls(labels, correct, 5)
    assert alone[4] is None
    assert alone[:4] == [Metric.share(correct[labels == number]) for number in range(4)]
    copies = [np.repeat(one, COPIES) for one in (labels, correct, np.arange(300))]
    found = recalls(*copies[:2], 5, copies[2])
    for one, other in zip(alone[:4], found[:4], strict=True):
        assert other.value == pytest.approx(one.value) and other.high - other.low == pytest.approx(
            one.high - one.low, rel=0.05
        )


@pytest.mark.faults("D32")
def test_one_group_says_nothing_about_others():
    """All validation images of one patient counted as independent, and promised an accuracy for others."""
    right, groups = np.ones(80, dtype=bool), numbered(["anna"] * 80)
    assert Metric.share(right, groups).low < 0.21 < Metric.share(right).low
    confidences = np.linspace(0.5, 1, 80)
    assert threshold_for(0.95, confidences, right) < np.inf
    assert threshold_for(0.95, confidences, right, groups) == np.inf
    assert count_text(80, number_of(groups)) == "80 images of 1 group"
    sample = next(bootstrap(80, groups, seed=0))
    assert sample.sum() == 80 and len(set(sample.tolist())) > 1  # not one sample without a width


def test_a_class_whose_images_are_all_of_different_groups_has_the_interval_of_independent_images():
    labels, correct = np.array([0] * 5 + [1, 1]), np.array([True, True, True, False, False, True, True])
    groups = np.array([0, 1, 2, 3, 4, 0, 0])
    assert recalls(labels, correct, 2, groups)[0] == recalls(labels, correct, 2)[0]
