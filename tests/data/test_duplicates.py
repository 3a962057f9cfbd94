"""Pairs of close hashes against brute force, and the match of each image."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.checks import duplicates
from vit.data.checks.duplicates import Match, Thumbnails, close_pairs, exact_matches, near_matches


def pairs(hashes, max_distance):
    found = [
        pair
        for left, right in close_pairs(np.array(hashes, dtype=np.uint64), max_distance)
        for pair in zip(left.tolist(), right.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    return set(found)


def brute_force(hashes, max_distance):
    numbered = itertools.combinations(enumerate(hashes), 2)
    return {(i, j) for (i, one), (j, two) in numbered if (one ^ two).bit_count() <= max_distance}


@st.composite
def families(draw):
    """Hashes that differ in few bits from one of three base hashes, some of them equal."""
    bases = draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3))
    flips = st.lists(st.integers(0, 63), max_size=8)
    members = draw(st.lists(st.tuples(st.sampled_from(bases), flips), max_size=40))
    return [base ^ sum(1 << bit for bit in set(bits)) for base, bits in members]


@given(families(), st.integers(0, 8))
def test_every_close_pair_is_found_once(hashes, max_distance):
    assert pairs(hashes, max_distance) == brute_force(hashes, max_distance)


@given(families(), st.integers(0, 8), st.integers(1, 7))
def test_blocks_of_pairs_hide_none(hashes, max_distance, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_PAIRS_PER_BLOCK", at_once)
        assert pairs(hashes, max_distance) == brute_force(hashes, max_distance)


def test_thousands_of_hashes():
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 2**64, 3000, dtype=np.uint64)
    hashes[1000:2000] = hashes[:1000] ^ (np.uint64(1) << generator.integers(0, 64, 1000, dtype=np.uint64))
    distances = np.bitwise_count(hashes[:, None] ^ hashes[None])
    close = {(i, j) for i, j in zip(*(part.tolist() for part in np.nonzero(distances <= 7)), strict=True) if i < j}
    assert len(close) >= 1000 and pairs(hashes, 7) == close


def exact(groups, splits, labels):
    return set(exact_matches(np.array(groups), np.array(splits), np.array(labels)))


def test_exact_matches_name_the_first_of_each_relation():
    #        0  1  2  3   4   5  6
    groups = [5, 5, 0, 5, -1, -1, 5]
    splits = [0, 0, 0, 1, 0, 0, 1]
    labels = [2, 2, 2, 2, 2, 2, 3]
    assert exact(groups, splits, labels) == {
        Match(1, 0, "within"), Match(3, 0, "across"), Match(6, 0, "across"), Match(6, 0, "conflict")
    }  # fmt: skip


def test_a_conflict_is_not_called_a_duplicate_as_well():
    assert exact([0, 0, 0], [0, 0, 0], [1, 2, 1]) == {
        Match(1, 0, "conflict"), Match(2, 0, "within"), Match(2, 1, "conflict")
    }  # fmt: skip


def test_a_large_group_gives_a_match_an_image():
    found = exact([0] * 500, [0] * 500, [0] * 500)
    assert found == {Match(place, 0, "within") for place in range(1, 500)}


def near(small, splits, labels, groups=None, hashes=None):
    count = len(small)
    return list(
        near_matches(
            np.arange(count) if groups is None else np.array(groups),
            np.array(splits),
            np.array(labels),
            np.zeros(count, dtype=np.uint64) if hashes is None else np.array(hashes, dtype=np.uint64),
            np.array(small, dtype=np.uint8),
        )
    )


@pytest.fixture
def picture():
    return np.random.default_rng(1).integers(60, 190, 768).astype(np.uint8)


def shifted(picture, much):
    """The picture with noise of `much` gray levels."""
    return picture + (np.random.default_rng(much).integers(0, 2, len(picture)) * 2 - 1) * much


def test_near_matches_need_a_close_hash_and_a_close_picture(picture):
    small = [picture, shifted(picture, 1), picture[::-1], shifted(picture, 2), shifted(picture, 30)]
    found = near(small, [0] * 5, [0] * 5, hashes=[0, 0, 0, 0xFF, 0])
    assert [(match.image, match.other, match.relation) for match in found] == [(1, 0, "within")]
    expected = 1 - np.mean([np.corrcoef(*(part.reshape(3, -1)[c] for part in small[:2]))[0, 1] for c in range(3)])
    assert found[0].difference == pytest.approx(expected, rel=0.05)


def test_brightness_and_contrast_do_not_matter(picture):
    changed = (picture * 0.7 + 40).round()
    assert [match.other for match in near([picture, changed], [0, 1], [0, 0])] == [0]


def test_the_most_similar_earlier_image_is_named(picture):
    small = [shifted(picture, 5), picture, shifted(picture, 1), shifted(shifted(picture, 1), 2)]
    found = near(small, [0, 0, 0, 1], [0, 0, 0, 0])
    named = {(match.image, match.relation): match.other for match in found}
    assert named == {(1, "within"): 0, (2, "within"): 1, (3, "across"): 2}


@pytest.mark.slow
def test_pictures_that_are_all_alike_need_to_be_closer(picture):
    """Hundreds of variations of one theme in few dimensions are not near-duplicates of each other."""
    generator = np.random.default_rng(3)
    themes = generator.normal(size=(4, 768))
    alike = np.clip(picture + generator.normal(size=(400, 4)) @ themes * 12, 0, 255).round().astype(np.uint8)
    unlike = generator.integers(0, 256, (400, 768)).astype(np.uint8)
    places = np.arange(400)
    assert duplicates.threshold(places, Thumbnails(unlike), places) == duplicates.MAX_DIFFERENCE
    assert duplicates.threshold(places[:50], Thumbnails(alike), places[:50]) == duplicates.MAX_DIFFERENCE
    limit = duplicates.threshold(places, Thumbnails(alike), places)
    pairs = list(itertools.combinations(range(400), 2))
    differences = Thumbnails(alike).difference(*np.array(pairs).T)
    assert (differences <= duplicates.MAX_DIFFERENCE).sum() > 10 * duplicates.CHANCE_PAIRS
    assert limit < duplicates.MAX_DIFFERENCE and (differences <= limit).sum() <= 3 * duplicates.CHANCE_PAIRS


def test_equal_images_are_no_near_matches(picture):
    assert near([picture] * 3, [0, 0, 1], [0, 0, 0], groups=[4, 4, 4]) == []
    found = near([picture, picture, shifted(picture, 1)], [0, 0, 0], [0, 0, 0], groups=[0, 0, 1])
    assert [(match.image, match.other) for match in found] == [(2, 0)]


def test_flat_pictures_are_left_out(picture):
    flat = (picture // 32 + 100).astype(np.uint8)
    assert Thumbnails(flat[None]).contrasts[0] < duplicates.MIN_CONTRAST
    assert near([flat, shifted(flat, 1)], [0, 1], [0, 1]) == []
    assert near(np.zeros((0, 768)), [], []) == []


def test_unreadable_images_are_left_out(picture):
    assert near([picture, shifted(picture, 1)], [0, 1], [0, 1], groups=[-1, 3]) == []


def test_a_fixed_camera_gives_a_match_an_image(picture):
    """Hundreds of pictures that all resemble each other have as many matches as images."""
    small = np.clip(picture + np.random.default_rng(0).integers(0, 2, (900, 768)), 0, 255)
    found = near(small, [0] * 600 + [1] * 300, [0] * 900)
    assert [match.image for match in found if match.relation == "across"] == list(range(600, 900))
    assert [match.image for match in found if match.relation == "within"] == list(range(1, 600))
