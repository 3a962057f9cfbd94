"""The table of backbones, its conditions and its verdict."""

from dataclasses import replace

import pytest

from vit.errors import DataError
from vit.study.findings import Interval
from vit.study.frozen.backbones import Backbone, conditions, read_backbones, verdict, write_backbones

FIRST = Backbone(
    name="a", source="timm:a", num_images=200, num_seeds=5, equal_seeds=False, accuracy=Interval(0.8, 0.75, 0.85),
    behind=Interval(0.0, None, None), p_adjusted=1.0, neighbors=0.7, seconds_per_image=0.010, parameters=5_500_000,
    license="apache-2.0",
)  # fmt: skip
TIED = replace(FIRST, name="b", source="b.ckpt", behind=Interval(0.01, -0.01, 0.03), p_adjusted=0.3)
UNTESTED = replace(FIRST, name="d", num_seeds=1, accuracy=Interval(0.3, None, None), behind=Interval(0.5, None, None))
WORSE = replace(FIRST, name="c", behind=Interval(0.2, 0.1, 0.3), p_adjusted=0.001)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([FIRST], "a is the only backbone"),
        ([FIRST, WORSE], "Use a: at 200 images every other tested backbone makes more errors"),
        ([FIRST, TIED, WORSE], "a and b cannot be told apart at 200 images. 1 of the 3 backbones makes more errors"),
        ([FIRST, replace(TIED, seconds_per_image=0.005)], "b is the fastest"),
        (
            [FIRST, replace(TIED, seconds_per_image=0.009)],
            "None of those that cannot be told apart is clearly faster than a",
        ),
        ([FIRST, replace(WORSE, seconds_per_image=0.001)], "Use a"),
    ],
)
def test_the_verdict_names_what_to_use(found, words):
    assert words in verdict(found)


def test_one_seed_gives_an_order_without_a_test():
    found = [
        replace(FIRST, num_seeds=1, accuracy=Interval(0.8, None, None)),
        replace(UNTESTED, seconds_per_image=0.001),
    ]
    assert verdict(found) == "In the order of accuracy at 200 images, from one seed and without a test: a, d."


def test_a_backbone_without_a_test_is_not_counted_as_equal_or_worse():
    assert verdict([FIRST, WORSE, UNTESTED]) == (
        "Use a: at 200 images every other tested backbone makes more errors. "
        "Not tested, with fewer than two common seeds: d."
    )
    assert "with fewer than two common seeds and without a test: a, d." in verdict([FIRST, UNTESTED])
    tied = verdict([FIRST, replace(TIED, seconds_per_image=0.005), replace(UNTESTED, seconds_per_image=0.001)])
    assert "a and b cannot be told apart" in tied and "b is the fastest. Not tested" in tied


def test_backbones_without_a_finished_probe_are_named():
    assert verdict([FIRST, WORSE], ["x", "y"]).endswith(
        "more errors. Not compared, because no probe of theirs at 200 images is finished: x, y."
    )
    assert verdict([FIRST], ["x"]).startswith("a is the only finished backbone. Not compared")


def test_conditions_say_what_the_intervals_cover():
    assert "5 seeds. The 95 % intervals cover other training images and other test images" in conditions([FIRST])
    equal = conditions([replace(FIRST, equal_seeds=True)])
    assert "cover other test images, not other training images" in equal and "seeds." not in equal
    one = replace(FIRST, num_seeds=1, accuracy=Interval(0.8, None, None))
    assert "1 seed: without intervals" in conditions([one])
    assert "tends to look better" in conditions([FIRST, WORSE, WORSE]) and "tends" not in conditions([FIRST, WORSE])


def test_a_table_is_read_as_it_was_written(tmp_path):
    found = [FIRST, replace(TIED, equal_seeds=True), UNTESTED, replace(FIRST, name="e", behind=None)]
    write_backbones(found, tmp_path / "backbones.csv")
    assert read_backbones(tmp_path / "backbones.csv") == found
    assert read_backbones(tmp_path / "none.csv") == []
    text = (tmp_path / "backbones.csv").read_text().replace("equal_seeds", "seeds")
    (tmp_path / "backbones.csv").write_text(text)
    with pytest.raises(DataError, match="damaged"):
        read_backbones(tmp_path / "backbones.csv")
