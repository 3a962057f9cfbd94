"""The verdict of a study: its sentences, and what it warns of."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.study.results import PROTOCOL, SIZES, T, law, run, study
from vit.study.findings import FailedCell
from vit.study.summary import summarize, to_json
from vit.study.wording import percents


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
    assert "; corrected p < 0.001)." in words and words.startswith(found.headline) and found.next_steps == []
    assert found.sentences[0] == "That holds at every measured size, from 100 to 10,000 images."
    assert "lacks" not in words and words.count(". ") <= 4


def test_an_interval_that_excludes_zero_before_the_correction_is_called_uncorrected():
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(1.8, -0.4)}), PROTOCOL, [], None)
    assert "vit and cnn cannot be told apart" in found.headline
    assert re.search(r"\(uncorrected 95 % interval 0\.\d\d to 0\.\d\d; corrected p = 0\.0[5-9]\d\)\.$", found.headline)
    alike = summarize(study({"vit": law(2, -0.4), "cnn": law(2, -0.4)}), PROTOCOL, [], None)
    assert "uncorrected" not in alike.verdict


def test_the_verdict_of_a_crossing():
    found = summarize(study({"vit": law(9, -0.7, 0.01), "cnn": law(0.6, -0.25, 0.0)}), PROTOCOL, [], None)
    assert found.comparisons[0].verdict == "crossing"
    assert "use vit rather than cnn" in found.verdict and "cnn is better, above it vit." in found.verdict


def test_the_verdict_of_two_that_are_alike():
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(2, -0.4)}), PROTOCOL, [], None)
    assert "At 10,000 images vit and cnn cannot be told apart: the errors are" in found.verdict
    assert "They cannot be told apart at any smaller measured size either, down to 100 images." in found.verdict


def test_what_holds_at_other_sizes_stands_beside_the_networks_that_it_is_about():
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(1, -0.4), "mlp": law(2, -0.4)}), PROTOCOL, [], None)
    pair = [found.verdict.index(words) for words in ("cnn rather than vit", "That holds", "vit and mlp", "They cannot")]
    assert pair == sorted(pair) and found.verdict.count("That holds") == 1


def test_of_several_networks_the_best_is_the_answer():
    curves = {"vit": law(2, -0.4), "stem": law(2, -0.4), "cnn": law(1, -0.4), "good": law(1.5, -0.4)}
    found = summarize(study(curves), PROTOCOL, [], None)
    assert [one.second for one in found.comparisons] == ["stem", "cnn", "good"]
    assert found.headline.startswith("At 10,000 images use cnn rather than vit")
    places = [found.verdict.index(words) for words in ("use cnn rather", "use good rather", "vit and stem cannot")]
    assert places == sorted(places) and found.sentences[0].startswith("That holds at every measured size")
    behind = summarize(study({"cnn": law(1, -0.4), "vit": law(2, -0.4), "good": law(1.5, -0.4)}), PROTOCOL, [], None)
    assert behind.headline.startswith("At 10,000 images use cnn rather than good")


def test_no_word_of_more_images_where_a_fit_does_not_bear_it():
    found = summarize(study({"vit": law(2, -0.4), "cnn": [0.2] * 5}), PROTOCOL, [], None)
    assert "With twice" not in found.verdict
    assert "The effect of more images is not known (cnn: the error does not fall" in found.verdict


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


def test_checkpoints_that_were_chosen_too_early_are_warned_of():
    found = study({"A": law(9, -0.7), "B": law(2, -0.5)})
    early = [replace(one, last_is_better=one.num_images == found[0].num_images) for one in found]
    count = sum(one.last_is_better for one in early)
    (told,) = [step for step in summarize(early, PROTOCOL, [], None).next_steps if "best_metric=last" in step]
    assert told.startswith(f"In {count:,} of {len(found):,} runs ")
    assert not [step for step in summarize(found, PROTOCOL, [], None).next_steps if "best_metric" in step]


def test_a_budget_that_grows_with_the_images_is_named():
    cells = study({"vit": law(9, -0.7), "cnn": law(2, -0.5)})
    assert "more steps" not in summarize(cells, PROTOCOL, [], None).verdict
    longer = [replace(cell, steps=max(300, cell.num_images // 4)) for cell in cells]
    verdict = summarize(longer, PROTOCOL, [], None).verdict
    assert "Larger sizes also trained for more steps (300 at 100 images, 2,500 at 10,000 images)" in verdict


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({"A": {100: 100}, "B": {100: 200}}, ""),  # one size, and --vary optim.steps=100,200
        ({"ViT": {100: 100, 1000: 100}, "CNN": {100: 200, 1000: 200}}, ""),
        ({"ViT": {100: 1000, 1000: 500}}, ""),
        (
            {"ViT": {100: 500, 1000: 1000}, "CNN": {100: 100, 1000: 400}},
            "(ViT: 500 at 100 images, 1,000 at 1,000 images; CNN: 100 at 100 images, 400 at 1,000 images)",
        ),
        ({"ViT": {100: 300, 1000: 300}, "CNN": {100: 100, 1000: 400}}, "(CNN: 100 at 100 images, 400 at 1,000 images)"),
        (
            {"A": {100: 1, 1000: 2}, "B": {100: 1, 1000: 2}, "C": {100: 5, 1000: 5}},
            "(A and B: 1 at 100 images, 2 at 1,000 images)",
        ),
        ({"A": {100: 1, 1000: 2}, "B": {100: 1, 1000: 2}}, "(1 at 100 images, 2 at 1,000 images)"),
    ],
)
def test_more_steps_of_larger_sizes_are_those_of_one_network(steps, words):
    cells = [
        run(name, images, seed, 100, steps=number)
        for name, by_size in steps.items()
        for images, number in by_size.items()
        for seed in range(2)
    ]
    verdict = summarize(cells, PROTOCOL, [], None).verdict
    assert f"for more steps {words}, so" in verdict if words else "more steps" not in verdict


PLANNED = {**PROTOCOL, "series": ["vit", "cnn"], "sizes": list(SIZES), "seeds": [0, 1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("checkpoints", "words"),
    [
        ("highest val/balanced_acc", "The checkpoints follow the balanced accuracy, which this study does not compare"),
        ("highest val/macro_f1, lowest val/loss", "The checkpoints follow the macro F1, which this study does not"),
        ("highest val/acc1, lowest val/loss", ""),
    ],
)
def test_errors_are_not_what_checkpoints_of_equal_classes_follow(checkpoints, words):
    cells = study({"vit": [0.03], "cnn": [0.01]}, sizes=(100,))
    told = summarize(cells, {**PROTOCOL, "checkpoints": checkpoints}, [], None)
    assert (words or "x") in told.verdict + "x" and ("Errors count all test images alike" in told.verdict) == bool(
        words
    )
    assert any("count all test images alike" in one for one in told.sentences) == bool(words)


def test_a_series_without_a_result_is_missing():
    cells = study({"vit": law(2, -0.4)})
    assert "Runs are missing: cnn has no run." in summarize(cells, PLANNED, [], None).verdict
    assert "missing" not in summarize(study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}), PLANNED, [], None).verdict


def test_runs_that_no_series_has_are_missing():
    cells = [one for one in study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}) if one.seed < 3]
    verdict = summarize(cells, PLANNED, [], None).verdict
    assert "Runs are missing: vit lacks 10 of 25 runs, cnn lacks 10 of 25 runs." in verdict


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (law(1, -0.4), "That holds at every size that both have, from 100 to 3,000 images."),
        (law(2, -0.4), "They cannot be told apart at any smaller size that both have either, down to 100 images."),
    ],
)
def test_an_answer_about_all_sizes_names_those_that_both_have(curve, words):
    cells = [one for one in study({"vit": law(2, -0.4), "cnn": curve}) if one.series == "vit" or one.num_images < 9999]
    found = summarize(cells, PLANNED, [], None)
    assert words in found.verdict and "every measured size" not in found.verdict + found.comparisons[0].words
    assert found.comparisons[0].unshared == [10_000] and "cnn lacks 5 of 25 runs" in found.verdict


def test_variants_at_one_size_are_set_beside_the_first():
    curves = {"plain": [0.020], "same": [0.0201], "worse": [0.03], "better": [0.01]}
    found = summarize(study(curves, sizes=(500,)), PROTOCOL, [], None)
    assert "compared with plain (error 2.0" in found.verdict
    pattern = r"compared with plain .* for 3 comparisons\. Worse: worse \(\+(.*?), .*\)\. Better: better \(-1.0"
    words = re.search(pattern, found.verdict)
    assert words and abs(float(words[1]) - 1) < 0.1
    assert (
        "Not to be told apart from it: same (" in found.verdict
        and "the effect of more images is not known" in found.verdict
    )
    assert found.headline == "More accurate than plain: better, by a test with a correction for all comparisons."
    p_values = sorted((one.differences[0].p, one.differences[0].p_adjusted) for one in found.comparisons)
    assert p_values[0][1] == pytest.approx(3 * p_values[0][0], abs=1e-9), (
        "the smallest of three is tested three times as hard"
    )


def test_variants_of_one_seed_are_set_beside_the_first_without_a_test():
    cells = [run(name, 100, 0, wrong) for name, wrong in (("a", 2000), ("b", 1500), ("c", 2500))]
    told = summarize(cells, {}, [], None)
    assert told.headline == "At 100 images, compared with a (error 20.00 %), in points of error."
    assert "Not tested, from one seed: b (-5.00); c (+5.00)." in told.verdict and "comparisons" not in told.verdict
    assert "give --seeds 3 or more" in told.verdict


def test_only_tested_comparisons_are_counted():
    cells = [run("a", 100, seed, 2000 + seed) for seed in range(3)] + [run("b", 100, seed, 990) for seed in range(3)]
    cells += [run("c", 100, 0, 1900), run("d", 100, 9, 1900)]
    told = summarize(cells, {}, [], None).verdict
    assert "in points of error with a 95 % interval and a test. Better: b (-10.11," in told
    assert "Not tested, from one seed: c (-1.00). Without a common seed: d." in told
    cells += [run("e", 100, seed, 3000) for seed in range(3)]
    assert "corrected for 2" not in told and "for 2 comparisons. Worse: e (" in summarize(cells, {}, [], None).verdict


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


@pytest.mark.parametrize(
    ("groups", "words"), [(None, "twice the test images ±"), (8, "twice the groups of test images ±")]
)
def test_images_of_the_same_groups_would_not_narrow_an_answer(groups, words):
    generator = np.random.default_rng(1)
    numbers = None if groups is None else np.arange(200) * groups // 200
    runs = [
        run(name, 100, seed, 0, correct=generator.random(200) < 0.8, groups=numbers)
        for name in ("vit", "cnn")
        for seed in range(3)
    ]
    told = summarize(runs, PROTOCOL if groups is None else {**PROTOCOL, "test_groups": groups}, [], None)
    assert words in told.verdict and "cannot be told apart" in told.verdict
    assert any(words in step for step in told.next_steps)


def test_images_that_the_first_weights_knew_are_warned_of():
    """The plan of a study warned, and its verdict, its page and `vit report` did not."""
    told = "the run runs/a, from which this training starts, has trained on 3 of 9 test images"
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}), {**PROTOCOL, "seen_before": [told]}, [], None)
    assert f"WARNING: {told}." in found.verdict and f"WARNING: {told}." in found.sentences


@pytest.mark.parametrize(
    ("errors", "twice"),
    [
        ((0.1, 0.3, 0.2, 0.2), "Twice the seeds would make that about ±"),
        ((0.1, 0.9, 0.7, 0.3), "Twice the seeds or twice the test images would not be enough."),
    ],
)
def test_no_difference_is_known_to_more_than_100_points(errors, twice):
    """Two seeds and 24 test images gave ±211.85 points."""
    cells = []
    for (name, seed), error in zip([("vit", 0), ("vit", 1), ("cnn", 0), ("cnn", 1)], errors, strict=True):
        correct = np.arange(24) >= round(error * 24)
        cells.append(run(name, 100, seed, 0, correct=correct, accuracy=correct.mean().item()))
    found = summarize(cells, PROTOCOL, [], None)
    assert "Nothing is known yet about the difference: it is known to ±100 points." in found.verdict
    assert twice in found.verdict, found.verdict
    reach = found.comparisons[0].differences[0].reach
    assert reach.now == 1.0 and max(reach.twice_the_seeds, reach.twice_the_test_images) <= 1.0
    assert all(float(number) <= 100 for number in re.findall(r"±([\d.]+\d)", found.verdict))
