"""From runs to findings: series, the verdict's sentences, plain values, results.csv."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.tables import formulas, rows
from vit.study.findings import CellResult, FailedCell
from vit.study.summary import COLUMNS, summarize, to_json, write_results
from vit.study.wording import percents

T = 10_000
SIZES = (100, 300, 1000, 3000, 10_000)
PROTOCOL = {"budget": "2,000 optimizer steps at every size"}


def run(series, images, seed, wrong, **changes):
    correct = np.ones(T, dtype=bool)
    correct[: round(wrong)] = False
    values = {
        "series": series, "network": series, "num_images": images, "seed": seed, "accuracy": correct.mean().item(),
        "validation_loss": 0.1 + 0.2, "steps": 2000, "batch_size": 100, "epochs": 2000 / 3, "best_round": 3,
        "parameters": 1234, "flops": 5678, "seconds": 10.0 + seed, "images_per_second": 100.0,
        "run": f"runs/{series}/{images}/{seed}", "correct": correct,
    }  # fmt: skip
    return CellResult(**{**values, **changes})


def study(curves, sizes=SIZES, seeds=5, noise=0.02):
    """Runs of {name: errors at each size}."""
    generator = np.random.default_rng(3)
    return [
        run(name, images, seed, T * error * np.exp(noise * generator.normal()))
        for seed in range(seeds)
        for name, errors in curves.items()
        for images, error in zip(sizes, errors, strict=True)
    ]


def law(scale, exponent, floor=0.02):
    return [floor + scale * images**exponent for images in SIZES]


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
    assert found.target == 0.9 and all(one.fit.for_target or one.fit.refusal for one in found.series)


def test_the_verdict_of_a_clear_study():
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}), PROTOCOL, [], None)
    words = found.verdict
    assert words.startswith("At 10,000 images use cnn rather than vit: its error is 4.5")
    assert "points less (95 % interval 2." in words
    assert "That holds at every measured size, from 100 to 10,000 images." in words
    percent = r"\d\.\d\d % \(95 % interval \d\.\d\d to \d\.\d\d\)"
    twice = rf"an error of {percent} for vit with 20,000, and of {percent} for cnn with 20,000\."
    assert re.search("With twice the images the fitted curves expect " + twice, words)
    assert "2,000 optimizer steps at every size" in words and "more than 10,000 images were not measured." in words
    assert "lacks" not in words and words.count(". ") <= 4


def test_the_verdict_of_a_crossing():
    found = summarize(study({"vit": law(9, -0.7, 0.01), "cnn": law(0.6, -0.25, 0.0)}), PROTOCOL, [], None)
    assert found.comparisons[0].verdict == "crossing"
    assert "use vit rather than cnn" in found.verdict and "cnn is better, above it vit." in found.verdict


def test_the_verdict_of_two_that_are_alike():
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(2, -0.4)}), PROTOCOL, [], None)
    assert "At 10,000 images vit and cnn cannot be told apart: the errors are" in found.verdict
    assert "They cannot be told apart at any smaller measured size either, down to 100 images." in found.verdict


def test_no_word_of_more_images_where_a_fit_does_not_bear_it():
    found = summarize(study({"vit": law(2, -0.4), "cnn": [0.2] * 5}), PROTOCOL, [], None)
    assert "With twice" not in found.verdict
    assert "The effect of more images is not known (cnn: the error does not fall" in found.verdict


def test_missing_cells_are_worked_around_and_named():
    cells = [c for c in study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}) if c.series == "vit" or c.num_images < 10_000]
    failed = [FailedCell("cnn", 10_000, 0, "x", "out of memory")]
    found = summarize(cells, PROTOCOL, failed, None)
    assert [one.num_images for one in found.comparisons[0].differences] == [100, 300, 1000, 3000]
    assert "At 3,000 images use cnn" in found.verdict and "cnn lacks 5 of 25 runs" in found.verdict
    assert found.failed == failed
    lost = summarize([c for c in cells if c.series == "vit"], {}, failed, None)
    assert "cnn has no run" in lost.verdict and "At 10,000 images vit errs on" in lost.verdict


def test_few_runs():
    one = summarize([run("vit", 100, 0, 3000)], {}, [], 0.9)
    assert "vit errs on 30.00 % of the test images." in one.verdict and one.series[0].fit is None
    two = summarize([run("vit", 100, 0, 3000), run("cnn", 100, 0, 2000)], {}, [], None)
    assert "30.00 % for vit and 20.00 % for cnn, from one seed" in two.verdict
    apart = summarize([run("vit", 100, 0, 3000), run("cnn", 200, 0, 2000)], {}, [], None)
    assert "no size and seed in common" in apart.verdict
    none = summarize([], {}, [FailedCell("vit", 100, 0, "x", "y")], None)
    assert none.verdict == "No run has finished; 1 failed." and none.num_test_images == 0
    for found in (one, two, apart, none):
        to_json(found)


def test_no_error_is_below_nothing_or_above_everything():
    two = [run("vit", 100, seed, wrong) for seed, wrong in enumerate((2000, 9000))]
    found = summarize(two, PROTOCOL, [], None)
    assert "errs on 55.00 % (95 % interval 0.37 to 99.75)" in found.verdict
    assert percents(found.series[0].points[0].mean) == ("55.00", "0.37 to 99.75")


def test_a_budget_of_few_passes_is_warned_of():
    cells = study({"vit": law(9, -0.7), "cnn": law(2, -0.5)})
    assert "passes" not in summarize(cells, PROTOCOL, [], None).verdict
    whole_batches = [replace(cell, epochs=2.9993) for cell in cells]
    assert "passes" not in summarize(whole_batches, PROTOCOL, [], None).verdict
    short = [replace(cell, epochs=66.6 / cell.num_images * 100) for cell in cells]
    verdict = summarize(short, PROTOCOL, [], None).verdict
    assert verdict.endswith("may change this answer.") and "At 10,000 images the budget was 0.67 passes" in verdict


def test_a_budget_that_grows_with_the_images_is_named():
    cells = study({"vit": law(9, -0.7), "cnn": law(2, -0.5)})
    assert "more steps" not in summarize(cells, PROTOCOL, [], None).verdict
    longer = [replace(cell, steps=max(300, cell.num_images // 4)) for cell in cells]
    verdict = summarize(longer, PROTOCOL, [], None).verdict
    assert "Larger sizes also trained for more steps (300 at 100 images, 2,500 at 10,000 images)" in verdict


def test_variants_at_one_size_are_set_beside_the_first():
    curves = {"plain": [0.020], "same": [0.0201], "worse": [0.03], "better": [0.01]}
    found = summarize(study(curves, sizes=(500,)), PROTOCOL, [], None)
    pattern = r"compared with plain, .* for 3 comparisons\. Worse: worse \(\+(.*?), .*\)\. Better: better \(-1.0"
    words = re.search(pattern, found.verdict)
    assert words and abs(float(words[1]) - 1) < 0.1
    assert (
        "Not to be told apart from it: same (" in found.verdict
        and "the effect of more images is not known" in found.verdict
    )
    p_values = sorted((one.differences[0].p, one.differences[0].p_adjusted) for one in found.comparisons)
    assert p_values[0][1] == pytest.approx(3 * p_values[0][0], abs=1e-9), (
        "the smallest of three is tested three times as hard"
    )
    apart = [run("a", 100, 0, 9), run("b", 100, 1, 9), run("c", 100, 2, 9)]
    assert "Not tested: b; c." in summarize(apart, {}, [], None).verdict


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
    write_results(cells[::-1], path)
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
        assert all(type(values[name])(text) == values[name] for name, text in row.items())


@pytest.mark.faults("H2")
def test_a_series_may_be_called_like_a_formula(tmp_path):
    write_results(study({"=1+1": law(2, -0.4), "a;=1+1": law(1, -0.4)}, seeds=1), tmp_path / "results.csv")
    assert formulas(tmp_path / "results.csv") == []
    assert {row["series"] for row in rows(tmp_path / "results.csv")} == {"=1+1", "a;=1+1"}


def test_results_that_cannot_be_written_leave_the_old_ones(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("old")
    with pytest.raises(AttributeError):
        write_results([run("vit", 100, 0, 3), None], path)
    assert path.read_text() == "old"


def test_what_would_narrow_an_open_answer():
    """Seeds that agree on the images call for more test images; seeds that scatter call for more seeds."""
    generator = np.random.default_rng(0)
    hard = {name: generator.permutation(T) < 0.2 * T for name in ("vit", "cnn")}

    def study_of(flipped, noise):
        found = []
        for name, wrong in hard.items():
            for seed in range(3):
                share = flipped * np.exp(noise * generator.normal())
                found.append(run(name, 100, seed, 0, correct=~(wrong ^ (generator.random(T) < share))))
        return summarize(found, PROTOCOL, [], None)

    agree, scatter = study_of(0.001, 0.0), study_of(0.1, 0.5)
    assert "more test images would help most" in agree.verdict and "known to ±" in agree.verdict
    assert agree.series[0].points[0].seed_correlation > 0.98
    assert "more seeds would help most" in scatter.verdict
    (one,) = scatter.comparisons[0].differences
    assert one.reach.twice_the_seeds < 0.6 * one.reach.now and one.reach.twice_the_test_images > 0.9 * one.reach.now


def test_one_claim_of_many_is_corrected_for_all():
    """Six equal networks, two sizes: the smallest p counts 15 times (10 gaps and 5 slopes)."""
    found = summarize(study({name: [0.2, 0.1] for name in "abcdef"}, sizes=(100, 1000)), PROTOCOL, [], None)
    tests = [one for pair in found.comparisons for one in pair.differences]
    smallest = min(tests, key=lambda one: one.p)
    assert len(tests) == 10 and smallest.p_adjusted > 2 * smallest.p
    assert all(one.p_adjusted >= one.p for one in tests) and all(pair.slope_p >= 0 for pair in found.comparisons)
