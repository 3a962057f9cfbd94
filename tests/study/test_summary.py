"""From runs to findings: series, plain values, results.csv."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.study.results import PROTOCOL, SIZES, T, law, run, study
from tests.tables import formulas, rows
from vit.study.answer.summary import COLUMNS, summarize, to_json, write_results
from vit.study.findings import FailedCell


def test_series_points_and_errors():
    cells = study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}, seeds=3)
    cells.reverse()
    found = summarize(cells, PROTOCOL, [], None)
    assert [one.name for one in found.series] == ["cnn", "vit"] and found.num_test_images == T
    for one in found.series:
        assert [point.num_images for point in one.points] == list(SIZES) and (one.parameters, one.flops) == (1234, 5678)
        for point in one.points:
            assert point.seeds == [0, 1, 2] and point.seconds == 11.0 and point.images_per_second == 100.0
            for seed, error in zip(point.seeds, point.errors, strict=True):
                (cell,) = (c for c in cells if (c.series, c.num_images, c.seed) == (one.name, point.num_images, seed))
                assert error == (~cell.correct).sum() / T
            assert point.mean.value == pytest.approx(np.mean(point.errors))
            assert point.mean.low < point.mean.value < point.mean.high
    (pair,) = found.comparisons
    assert (pair.first, pair.second, found.protocol) == ("cnn", "vit", PROTOCOL)


def test_every_series_is_compared_with_the_first():
    found = summarize(study({"a": law(2, -0.4), "b": law(1, -0.4), "c": law(3, -0.4)}), PROTOCOL, [], 0.9)
    assert [(pair.first, pair.second) for pair in found.comparisons] == [("a", "b"), ("a", "c")]
    assert found.target == 0.9 and all(one.forecast.for_target or one.forecast.refusal for one in found.series)


def test_missing_cells_are_worked_around_and_named():
    cells = [c for c in study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}) if c.series == "vit" or c.num_images < 10_000]
    failed = [FailedCell("cnn", 10_000, 0, "", "x", "out of memory")]
    found = summarize(cells, PROTOCOL, failed, None)
    assert [one.num_images for one in found.comparisons[0].differences] == [100, 300, 1000, 3000]
    assert found.answer[0].startswith("Use cnn") and "cnn lacks 5 of 25 runs" in found.warnings[0]
    assert found.failed == failed
    lost = summarize([c for c in cells if c.series == "vit"], {}, failed, None)
    assert "cnn has no run" in lost.warnings[0] and "Only one network was measured; test error: vit" in lost.answer[0]


def test_the_first_series_stays_the_reference_whichever_run_ends_first():
    """Its runs fail or are still to come; a report that is made now must not turn the signs around."""
    cells = study({"a": law(2, -0.4), "b": law(1, -0.4), "c": law(3, -0.4)})
    planned = {**PROTOCOL, "series": ["a", "b", "c"]}
    late = [c for c in cells if c.series != "a" or c.num_images > SIZES[0]]
    found = summarize(late, planned, [], None)
    assert [(pair.first, pair.second) for pair in found.comparisons] == [("a", "b"), ("a", "c")]
    assert [one.name for one in found.series] == ["a", "b", "c"]
    without = summarize([c for c in cells if c.series != "a"], planned, [], None)
    assert [(pair.first, pair.second) for pair in without.comparisons] == [("b", "c")]
    assert "a, the reference, has no run" in without.warnings[0]


def test_runs_that_do_not_belong_together():
    with pytest.raises(ValueError, match="test images"):
        summarize([run("vit", 100, 0, 9), run("vit", 100, 1, 9, correct=np.ones(5, dtype=bool))], {}, [], None)
    with pytest.raises(ValueError, match="same series"):
        summarize([run("vit", 100, 0, 9), run("vit", 100, 0, 10)], {}, [], None)


def test_findings_as_plain_values():
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}, seeds=1), PROTOCOL, [], 0.9)
    plain = to_json(found)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["series"][0]["points"][0]["mean"]["low"] is None and plain["test_images"] == T
    assert plain["series"][0]["points"][0]["images"] == plain["comparisons"][0]["differences"][0]["images"] == 100
    assert plain["series"][1]["points"][4]["errors"] == found.series[1].points[4].errors
    with pytest.raises(ValueError, match="JSON"):
        to_json(replace(found, target=float("nan")))


def test_results_are_written_whole_and_exact(tmp_path):
    cells = study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}, seeds=2)
    path = tmp_path / "results.csv"
    path.write_text("old")
    write_results(cells[::-1], PROTOCOL, path)
    assert list(tmp_path.iterdir()) == [path]
    table = rows(path)
    assert tuple(table[0]) == COLUMNS and "correct" not in COLUMNS and len(table) == len(cells)
    keys = [(row["series"], int(row["images"]), int(row["seed"])) for row in table]
    assert keys == [(name, images, seed) for name in ("cnn", "vit") for images in SIZES for seed in (0, 1)]
    for row in table:
        (cell,) = (
            c
            for c in cells
            if (c.series, c.num_images, c.seed) == (row["series"], int(row["images"]), int(row["seed"]))
        )
        values = {name: getattr(cell, "num_images" if name == "images" else name) for name in row}
        read = {
            name: text == "True" if type(values[name]) is bool else type(values[name])(text)
            for name, text in row.items()
        }
        assert read == values


@pytest.mark.faults("H2")
def test_a_series_may_be_called_like_a_formula(tmp_path):
    write_results(study({"=1+1": law(2, -0.4), "a;=1+1": law(1, -0.4)}, seeds=1), PROTOCOL, tmp_path / "results.csv")
    assert formulas(tmp_path / "results.csv") == []
    assert {row["series"] for row in rows(tmp_path / "results.csv")} == {"=1+1", "a;=1+1"}


def test_results_that_cannot_be_written_leave_the_old_ones(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("old")
    with pytest.raises(AttributeError):
        write_results([run("vit", 100, 0, 3), None], PROTOCOL, path)
    assert path.read_text() == "old"


def test_one_claim_of_many_is_corrected_for_all():
    """Six equal networks, two sizes: the smallest p counts 15 times (10 gaps and 5 slopes)."""
    found = summarize(study({name: [0.2, 0.1] for name in "abcdef"}, sizes=(100, 1000)), PROTOCOL, [], None)
    tests = [one for pair in found.comparisons for one in pair.differences]
    smallest = min(tests, key=lambda one: one.p)
    assert len(tests) == 10 and smallest.p_adjusted > 2 * smallest.p
    assert all(one.p_adjusted >= one.p for one in tests) and all(pair.slope_p >= 0 for pair in found.comparisons)


def test_two_seeds_of_folds_tell_errors_and_gains_by_their_images():
    """The crossed model of one test set knew two folds of 40 images by one degree of freedom: ±48 points for a gain."""
    draws = np.random.default_rng(0)
    cells = [
        run("cnn", images, seed, 0, correct=draws.random(40) > error, groups=None)
        for images, error in ((100, 0.3), (200, 0.15))
        for seed in (0, 1)
    ]
    shared, folds = (summarize(cells, PROTOCOL | more, [], None).series[0] for more in ({}, {"folds": 5}))
    of_images, of_folds = (one.gains[0].points for one in (shared, folds))
    assert of_images.value == of_folds.value > 0
    assert of_folds.high - of_folds.low < 0.45 < of_images.high - of_images.low
    for one, other in zip(folds.points, shared.points, strict=True):
        assert one.mean.low < one.mean.value < one.mean.high and one.seed_correlation is None
        assert one.mean.high - one.mean.low < other.mean.high - other.mean.low
