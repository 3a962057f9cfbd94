"""Class names that are paths: which levels they have, and which names are refused."""

import numpy as np
import pytest

from vit.errors import DataError
from vit.tasks.levels import check_levels, levels_of

NAMES = ("animal/bird/owl", "animal/bird/wren", "animal/fish", "car", "plant/oak", "plant/pine")


def test_levels_and_their_probabilities():
    deep, top = levels_of(NAMES)
    assert deep.names == ("animal/bird", "animal/fish", "car", "plant/oak", "plant/pine") and deep.depth == 2
    assert top.names == ("animal", "car", "plant") and top.group_of.tolist() == [0, 0, 0, 1, 2, 2]
    probabilities = np.array([[0.1, 0.2, 0.05, 0.25, 0.15, 0.25]], dtype=np.float32)
    assert top.sums(probabilities)[0].tolist() == pytest.approx([0.35, 0.25, 0.4])
    assert deep.joined(probabilities)[0].tolist() == pytest.approx([0.3, 0, 0, 0, 0]) and deep.example == "animal/bird"
    order = [3, 5, 0, 4, 2, 1]  # classes of a group need not stand together
    (_, mixed) = levels_of([NAMES[number] for number in order])
    sums = dict(zip(mixed.names, mixed.sums(probabilities[:, order])[0].tolist(), strict=True))
    assert sums == pytest.approx({"car": 0.25, "plant": 0.4, "animal": 0.35})


@pytest.mark.parametrize(
    "names",
    [
        ("T-shirt/top", "Trouser", "Bag"),  # no group has two classes
        ("a/x", "a/y"),  # one group has all
        ("a", "b", "c"),
        ("/a/alley", "/a/attic", "/b/bar"),
        ("n", "n/a", "n/b", "m"),  # a class that is a group, in a file that was not trained here
    ],
)
def test_names_without_levels(names):
    assert levels_of(names) == ()


def test_a_level_that_joins_nothing_more_is_left_out():
    assert [one.depth for one in levels_of(("all/a/x", "all/a/y", "all/b/z"))] == [2]
    assert [one.names for one in levels_of(("top / shirt", "top/tee", "shoes"))] == [("top", "shoes")]


def test_a_class_that_is_the_group_of_another_is_refused():
    check_levels(NAMES, "photos.csv")
    with pytest.raises(
        DataError, match=r"photos.csv: the class 'bird' is also the group of the class 'bird/owl'"
    ) as one:
        check_levels(("bird/owl", "fish", "bird"), "photos.csv")
    assert "bird/other" in one.value.fix
