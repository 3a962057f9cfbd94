"""Verdicts on two series: ahead, crossing, not resolved; symmetric, and never beyond what was measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.study.answers import answers
from vit.study.answer.wording import describe_comparison
from vit.study.statistics.crossover import _corrected, compare_with_first

SIZES = (100, 300, 1000, 3000)
WOBBLE = np.array([[-1.0, 0.2, 0.5, 0.3, -0.4], [0.3, -0.6, 1.0, -0.2, 0.1]])


def compare(first, second, names="AB"):
    """The comparison of two series alone."""
    (found,) = compare_with_first(dict(zip(names, (first, second), strict=True)))
    return found


def pair(first, second, noise=0.02, seeds=5, sizes=SIZES):
    """Two series whose errors scatter around the given ones."""
    return tuple(
        answers(np.outer(errors, np.exp(noise * wobble[:seeds])), sizes, seed=number)
        for number, (errors, wobble) in enumerate(zip((first, second), WOBBLE, strict=True))
    )


def test_ahead_at_every_size():
    found = compare(*pair([0.30, 0.20, 0.12, 0.08], [0.40, 0.28, 0.18, 0.14]))
    assert found.verdict == "first ahead" and found.crossing is None
    assert "A makes fewer errors than B at every measured size (100 to 3,000 images)." in describe_comparison(found)
    other = compare(*reversed(pair([0.30, 0.20, 0.12, 0.08], [0.40, 0.28, 0.18, 0.14])), "BA")
    assert other.verdict == "second ahead" and (other.first, other.second) == ("B", "A")


def test_tests_at_the_largest_size_have_most_of_the_5_percent():
    """Of two networks that differ by 2.5 standard deviations two seeds told 7 %, because all sizes shared the 5 %."""
    found = _corrected([0.2, 0.3, 0.03, 0.6, None], [False, False, True, False, False])
    assert found == pytest.approx([0.6, 0.6, 0.03 / 0.8, 0.6, 1.0])
    passed = _corrected([0.01, 0.02, 0.03], [False, False, True])
    assert passed == pytest.approx([0.0375] * 3), "a share is passed on"
    assert _corrected([0.04, None], [True, False]) == [0.04, 1.0], "where there is nothing else, it has all"
    assert _corrected([0.004, 0.9, None], [False, False, True]) == pytest.approx([0.008, 0.9, 1.0])
    one_of_two = _corrected([1e-6, 0.9, 0.004], [True, True, False])
    assert one_of_two == pytest.approx([2.5e-6, 0.9, 0.012]), "a network that is not told apart keeps its own share"


def test_ahead_at_all_sizes_but_one_is_not_ahead():
    found = compare(*pair([0.30, 0.20, 0.18, 0.08], [0.40, 0.28, 0.1802, 0.14]))
    assert found.verdict == "not resolved"
    assert "A is significantly ahead with 100, 300 and 3,000 images" in describe_comparison(found)
    assert "cannot be told apart with 1,000 images" in describe_comparison(found)


def test_a_crossing_lies_where_the_log_ratio_is_zero():
    first, second = [0.40, 0.30, 0.16, 0.09], [0.30, 0.25, 0.18, 0.12]
    found = compare(*pair(first, second))
    scattered = [
        np.outer(errors, np.exp(0.02 * wobble)).mean(axis=1)
        for errors, wobble in zip((first, second), WOBBLE, strict=True)
    ]
    logs = np.log(scattered[0] / scattered[1])
    place = np.log(300) + logs[1] / (logs[1] - logs[2]) * np.log(1000 / 300)
    assert found.verdict == "crossing" and found.crossing.value == pytest.approx(np.exp(place), rel=1e-3)
    assert found.crossing.low == 300 < found.crossing.value < found.crossing.high == 1000, "floors may lie between"
    assert describe_comparison(found).startswith("Below about ") and "B is better, above it A." in describe_comparison(
        found
    )
    assert "95 % interval" in describe_comparison(found) and "evidence" not in describe_comparison(found)


def test_the_interval_ends_where_one_is_significantly_ahead():
    first, second = [0.40, 0.26, 0.24, 0.18], [0.30, 0.25, 0.2402, 0.21]
    found = compare(*pair(first, second, 0.05))
    assert [one.p_adjusted < 0.05 for one in found.differences] == [True, False, False, True]
    assert found.verdict == "crossing" and (found.crossing.low, found.crossing.high) == (100, 3000)
    sharper = compare(*pair(first, second, 0.01)).crossing
    assert sharper.low == 300 < sharper.value < sharper.high == 3000


def test_a_size_beyond_the_change_of_side_has_no_part_in_the_crossing():
    first, second = [0.40, 0.30, 0.16, 0.1195], [0.30, 0.25, 0.18, 0.12]  # the last two are alike again
    found = compare(*pair(first, second))
    assert not found.differences[3].p_adjusted < 0.05
    assert found.verdict == "crossing" and (found.crossing.low, found.crossing.high) == (300, 1000)
    assert "B is better, above it A; with 3,000 images they cannot be told apart." in describe_comparison(found)


def test_a_size_with_one_common_seed_is_not_said_to_be_tested():
    """A study that is not finished: one of its sizes has a single seed so far."""

    def first_seed_of(size, found):
        return {images: {0: seeds[0]} if images == size else seeds for images, seeds in found.items()}

    alike = pair([0.30, 0.20, 0.12, 0.08], [0.301, 0.201, 0.1195, 0.04], noise=0.1)
    words = describe_comparison(compare(*(first_seed_of(3000, found) for found in alike)))
    assert "cannot be told apart with 100, 300 and 1,000 images" in words
    assert "With 3,000 images they have one seed in common, too few for a test" in words
    crossing = pair([0.42, 0.40, 0.16, 0.09], [0.40, 0.30, 0.18, 0.12])
    found = compare(*(first_seed_of(100, one) for one in crossing))
    assert found.verdict == "crossing"
    assert "above it A. With 100 images they have one seed in common, too few for a test." in describe_comparison(found)


def test_two_changes_of_side_are_no_crossing():
    found = compare(*pair([0.30, 0.30, 0.12, 0.14], [0.40, 0.25, 0.18, 0.10]))
    assert found.verdict == "not resolved" and found.crossing is None
    assert (
        "A is significantly ahead with 100 and 1,000 images; B is significantly ahead with 300 and 3,000"
        in describe_comparison(found)
    )


def test_a_gap_that_closes_is_no_crossing():
    found = compare(*pair([0.30, 0.23, 0.17, 0.13], [0.50, 0.34, 0.22, 0.15]))
    assert found.verdict == "first ahead" and found.crossing is None
    assert found.slope.low > 0 and "More images help B more" in describe_comparison(found)
    assert describe_comparison(found).endswith("a shrinking gap alone is not evidence of a crossover.")


def test_the_slope_is_that_of_the_mean_errors():
    generator = np.random.default_rng(0)
    ours, theirs = (np.exp(generator.normal(-2, 0.1, (4, 5))).round(4) for _ in range(2))
    found = compare(answers(ours, SIZES), answers(theirs, SIZES, seed=1))
    slope = np.polyfit(np.log10(SIZES), np.log(ours.mean(axis=1) / theirs.mean(axis=1)), 1)[0]
    own = np.polyfit(np.log10(SIZES), np.log(ours / theirs), 1)[0]  # of each seed
    reach = 2.776 * own.std(ddof=1) / 5**0.5  # Student's, 4 degrees of freedom
    assert found.slope.value == pytest.approx(slope)
    assert found.slope.high - found.slope.low == pytest.approx(2 * reach, rel=0.2)


def test_a_steady_ratio_is_said_not_to_change():
    found = compare(*pair([0.30, 0.20, 0.12, 0.08], [0.45, 0.30, 0.18, 0.12]))
    assert found.slope.low < 0 < found.slope.high and "does not change measurably" in describe_comparison(found)


@pytest.mark.parametrize(("seeds", "sizes"), [(1, SIZES), (5, SIZES[:1])])
def test_too_few_seeds_or_sizes(seeds, sizes):
    found = compare(*pair([0.30] * len(sizes), [0.60] * len(sizes), 0.02, seeds, sizes))
    assert found.verdict == "not resolved" and found.crossing is None
    assert "share too few sizes" in describe_comparison(found)


def test_nothing_in_common():
    found = compare(answers([[0.1, 0.2]], [100]), answers([[0.1, 0.2]], [200]))
    assert (found.differences, found.verdict, found.slope) == ([], "not resolved", None)


def test_a_size_with_one_seed_is_shown_and_left_out_of_the_crossing():
    first, second = pair([0.40, 0.30, 0.16, 0.09], [0.30, 0.25, 0.18, 0.12])
    first[300] = {0: first[300][0]}
    found = compare(first, second)
    assert [len(one.seeds) for one in found.differences] == [5, 1, 5, 5]
    assert found.verdict == "crossing" and 100 < found.crossing.value < 1000 and found.slope.low is None


def test_networks_without_errors():
    found = compare(answers([[0.0] * 3] * 3, SIZES[:3]), answers([[0.0] * 3] * 3, SIZES[:3]))
    assert found.verdict == "not resolved" and found.slope.value == 0 and found.slope.low < 0


def same(one, other):
    """Whether two crossings, or their lack, are equal but for rounding."""
    return one == other or vars(one) == pytest.approx(vars(other))


ERRORS = st.lists(st.lists(st.integers(0, 60), min_size=8, max_size=8), min_size=1, max_size=5)


@settings(max_examples=30)
@given(ERRORS, st.permutations(range(4)))
def test_seeds_have_no_order_and_a_swap_mirrors(rows, order):
    sizes = [100 * 2**place for place in range(len(rows))]
    ours, theirs = ([np.array(row[part : part + 4]) / 100 for row in rows] for part in (0, 4))
    first, second = answers(ours, sizes, 100), answers(theirs, sizes, 100, seed=1)
    found = compare(first, second)
    assert compare(answers(ours, sizes, 100, order), answers(theirs, sizes, 100, order, seed=1)) == found
    mirrored = compare(second, first, "BA")
    verdicts = {"first ahead": "second ahead", "second ahead": "first ahead"}
    assert mirrored.verdict == verdicts.get(found.verdict, found.verdict) and same(mirrored.crossing, found.crossing)
    if found.slope is not None:
        assert mirrored.slope.value == pytest.approx(-found.slope.value, abs=1e-12)
    if found.crossing is not None:
        assert sizes[0] < found.crossing.value < sizes[-1]


@settings(max_examples=20)
@given(st.floats(0.05, 0.5), st.floats(0.03, 0.3), st.integers(0, 99))
def test_a_clear_crossing_mirrors_too(steep, shallow, seed):
    generator = np.random.default_rng(seed)
    noise = np.exp(generator.normal(0, 0.02, (2, 4, 5)))
    ours = 0.2 * (np.array(SIZES) / 500) ** -steep
    theirs = 0.2 * (np.array(SIZES) / 500) ** shallow
    first, second = answers(ours[:, None] * noise[0], SIZES), answers(theirs[:, None] * noise[1], SIZES, seed=1)
    one, other = compare(first, second), compare(second, first, "BA")
    assert one.verdict == other.verdict and same(one.crossing, other.crossing)
    if one.verdict == "crossing":
        assert 100 < one.crossing.value < 3000


def test_a_study_that_was_looked_at_before_claims_less():
    """Seeds that were added until networks were told apart did so in 10 % of studies of equal networks."""
    both = {
        name: answers([[error] * 3] * 2, (100, 300), seed=k)
        for k, (name, error) in enumerate((("A", 0.1), ("B", 0.11)))
    }
    first, second, third = (compare_with_first(both, looks=looks)[0].differences[0].p_adjusted for looks in (1, 2, 3))
    assert second == pytest.approx(min(1.0, 12 * first)) and third == pytest.approx(min(1.0, 24 * first))
