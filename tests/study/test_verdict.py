"""The verdict of a study: its sentences, and what it warns of."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.study.answers import answers
from tests.study.results import PROTOCOL, SIZES, T, law, run, study
from vit.study.answer.answer_warnings import COMMONEST, PART
from vit.study.answer.summary import summarize, to_json
from vit.study.answer.verdict import MOST_WORDS
from vit.study.answer.wording import percents


def said(found):
    """All that the head of a study says."""
    return " ".join([*found.answer, found.trend, found.conditions, *found.warnings, *found.notes, *found.next_steps])


def judged(curves, protocol=PROTOCOL, target=None, **changes):
    return summarize(study(curves, **changes), protocol, [], target)


def test_two_sentences_answer():
    found = judged({"vit": law(2, -0.4), "cnn": law(1, -0.4)})
    which, more = found.answer
    assert re.fullmatch(
        r"Use cnn: 2\.4 points fewer errors than vit with 10,000 images \(95 % interval 2\.\d to 2\.\d\)\.", which
    )
    assert more.startswith("Yes: from 3,000 to 10,000 images the errors of cnn fell by 24 % (1")
    assert re.search(r"; with 20,000 expect \d\.\d % \(\d\.\d to \d\.\d\)\.$", more)
    assert "2,000 optimizer steps at every size" in found.conditions and "more than 10,000 images" in found.conditions
    assert found.next_steps == found.warnings == [] and to_json(found)["answer"] == found.answer
    assert next(iter(to_json(found))) == "answer"
    three = judged({name: law(2, -0.4) for name in ("vit", "cnn", "mlp")})
    assert "choice of the best of several" in three.conditions and "choice of the best" not in found.conditions


@pytest.mark.parametrize(
    ("curves", "sizes"),
    [
        ({"vit": law(2, -0.4), "cnn": law(1, -0.4)}, SIZES),
        ({"vit": law(2, -0.4), "cnn": law(2, -0.4)}, SIZES),
        ({"vit": law(2, -0.4), "cnn": law(1.8, -0.4), "mlp": law(1.9, -0.4)}, SIZES),
        ({"vit": law(9, -0.7, 0.01), "cnn": law(0.6, -0.25, 0.0)}, SIZES),
        ({"vit": law(2, -0.4)}, SIZES),
        ({"vit": [0.2] * 5, "cnn": [0.3] * 5}, SIZES),
        ({"vit": [0.2], "cnn": [0.3], "mlp": [0.2]}, (100,)),
        ({"vit": [0.2, 0.3], "cnn": [0.3, 0.2]}, (100, 200)),
    ],
)
@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_a_sentence_of_the_answer_has_25_words_at_most(curves, sizes, seeds):
    for sentence in judged(curves, sizes=sizes, seeds=seeds).answer:
        assert 3 < len(sentence.split()) <= MOST_WORDS and sentence.endswith("."), sentence


def test_either_will_do_within_the_margin_and_nothing_is_decided_beyond():
    cells = study({"vit": law(2, -0.4), "cnn": law(2, -0.4)})
    close = summarize(cells, PROTOCOL, [], None).answer[0]
    assert re.fullmatch(
        r"Either will do with 10,000 images, within 2 points: "
        r"(cnn|vit) makes at most [\d.]+ points fewer errors than (cnn|vit), or [\d.]+ more\.",
        close,
    )
    strict = summarize(cells, PROTOCOL, [], None, margin=0.001).answer[0]
    assert strict.startswith("Not decided with 10,000 images: ")
    fast = [replace(one, flops=one.flops // 2) if one.series == "cnn" else one for one in cells]
    assert summarize(fast, PROTOCOL, [], None, margin=0.001).answer[0].endswith("; cnn needs 2.0 times fewer FLOPs.")
    busy = [replace(one, seconds=one.seconds / 9) if one.series == "cnn" else one for one in cells]
    assert summarize(busy, PROTOCOL, [], None).answer[0] == close, "times of a machine that is shared say nothing"


@pytest.mark.parametrize(
    ("part", "ahead", "alike"),
    [(0.5, "Use cnn: ", "Either will do "), (0.1, "In short trainings cnn makes ", "Not decided ")],
)
def test_short_trainings_advise_no_network(part, ahead, alike):
    """After 10 % of the steps a study said "Use" of a network; heads on the other one made half of its errors."""
    for slope, words in ((1, ahead), (2, alike)):
        found = judged({"vit": law(2, -0.4), "cnn": law(slope, -0.4)}, {**PROTOCOL, PART: part, "seconds": 1200.0})
        assert found.answer[0].startswith(words) and bool(found.warnings) == (part < 0.5)
        assert all("give --time 4h, and another --name" in one for one in found.warnings)


def test_a_network_with_one_seed_is_open_and_has_no_interval():
    """Of three networks, one seed made "at most 0.00 points fewer errors than vit, or -0.00 more"."""
    cells = study({"vit": law(2, -0.4), "cnn": law(1.99, -0.4), "mlp": law(2.2, -0.4)})
    cells = [one for one in cells if one.series != "mlp" or one.seed == 0]
    which = summarize(cells, PROTOCOL, [], None).answer[0]
    assert which.startswith("Not decided with 10,000 images: vit makes at most 0.4") and "0.00" not in which
    assert which.endswith(" points fewer errors than cnn, or 0.33 more; 1 more is open."), which


def test_an_interval_that_excludes_zero_before_the_correction_is_called_uncorrected():
    found = judged({"vit": law(2, -0.4), "cnn": law(1.8, -0.4), "mlp": law(2, -0.4)})
    assert "points fewer errors than vit (uncorrected)" in found.answer[0]
    assert "uncorrected" not in said(judged({"vit": law(2, -0.4), "cnn": law(2, -0.4)}))


def test_the_third_line_says_where_the_lead_changes_or_who_gains_more():
    crossing = judged({"vit": law(9, -0.7, 0.01), "cnn": law(0.6, -0.25, 0.0)})
    assert crossing.comparisons[0].verdict == "crossing" and crossing.answer[0].startswith("Use vit:")
    assert crossing.trend.startswith("Below about") and "cnn is better, above it vit." in crossing.trend
    steep = judged({"vit": law(2, -0.4, 0.0), "cnn": law(2, -0.5, 0.0)})
    assert steep.trend.startswith(
        "More images help cnn more: from 100 to 10,000 images the ratio of errors (vit over cnn) became 1."
    )
    short = judged({"vit": law(2, -0.4, 0.0)[:3], "cnn": law(2, -0.5, 0.0)[:3]}, sizes=SIZES[:3])
    times = f"{np.exp(short.comparisons[0].slope.value):.2f} times"
    assert f"from 100 to 1,000 images the ratio of errors (vit over cnn) became {times}" in short.trend
    alike = judged({"vit": law(2, -0.4), "cnn": law(2, -0.4)})
    assert alike.trend.startswith("Neither is shown to gain more")


def test_of_several_networks_the_best_is_the_answer():
    curves = {"vit": law(2, -0.4), "stem": law(2, -0.4), "cnn": law(1, -0.4), "good": law(1.5, -0.4)}
    which = judged(curves).answer[0]
    assert which.startswith("Use cnn: 2.") and which.endswith("; 1 more beats vit.")
    behind = judged({"cnn": law(1, -0.4), "vit": law(2, -0.4), "good": law(1.5, -0.4)})
    assert behind.answer[0].startswith("Use cnn: 1.") and "fewer errors than good" in behind.answer[0]
    tied = judged({"cnn": law(1, -0.4), "vit": law(2, -0.4), "twin": law(1, -0.4)}).answer[0]
    assert tied.startswith("Either will do") and "twin" in tied and "vit" not in tied, (
        "vit is worse: it chooses nothing"
    )


@pytest.mark.parametrize("scale", [1.4, 2])
def test_a_network_without_the_largest_size_is_not_the_answer(scale):
    cells = study({"vit": law(2, -0.4), "cnn": law(2, -0.4), "mlp": law(scale, -0.4)})
    two = summarize([one for one in cells if one.series != "mlp"], PROTOCOL, [], None)
    found = summarize([one for one in cells if one.series != "mlp" or one.num_images == 100], PROTOCOL, [], None)
    assert found.answer[0] == two.answer[0] and "with 10,000 images" in found.answer[0]
    assert "mlp" not in " ".join(found.next_steps) and "mlp lacks 20 of 25 runs" in found.warnings[0]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([0.3, 0.2], "Yes: from 100 to 200 images the errors of a fell by 33 %"),
        ([0.3, 0.29], "Little: from 100 to 200 images the errors of a fell by 4 %"),
        ([0.3, 0.3], "Little: from 100 to 200 images a makes"),
        ([0.2, 0.3], "No: from 100 to 200 images the errors of a rose by 49 %"),
    ],
)
def test_whether_more_images_help_needs_no_curve(errors, words):
    generator = np.random.default_rng(1)
    hard = generator.random(T)  # the same images are hard for all
    cells = [
        run("a", size, seed, 0, correct=~(hard < error + 0.002 * generator.normal()))
        for size, error in zip((100, 200), errors, strict=True)
        for seed in range(5)
    ]
    found = summarize(cells, PROTOCOL, [], None)
    assert found.answer[1].startswith(words), found.answer[1]
    gain = found.series[0].gains[-1]
    assert (gain.from_images, gain.to_images) == (100, 200) and gain.fall.low <= gain.fall.value <= gain.fall.high


def test_where_the_last_step_is_unclear_wider_steps_answer():
    """The answer tells the fall that is shown and the step that is open: "Likely" was said at a floor, too."""
    cells = study({"a": [0.4, 0.3, 0.27]}, sizes=(100, 200, 250), seeds=5)
    few = summarize([replace(one, correct=one.correct[:: T // 100]) for one in cells], PROTOCOL, [], None)
    wide, last = few.series[0].gains
    assert (wide.from_images, last.from_images) == (100, 200)
    assert wide.p < 0.05 <= last.p
    assert few.answer[1].startswith("Unclear since 200: from 100 to 250 images the errors of a fell by ")
    assert len(few.answer[1].split()) <= MOST_WORDS


def test_an_interval_of_a_gain_is_never_printed_without_its_sign():
    """An open step whose own interval leaves out 0 was "at most 12.2 points fewer errors, or -7.8 more"."""
    wrong = answers([[0.05, 0.55, 0.3], [0.3] * 3, [0.2] * 3], (100, 200, 400), 1000)
    cells = [run("a", size, seed, 0, correct=~one) for size, own in wrong.items() for seed, one in own.items()]
    last = summarize(cells, PROTOCOL, [], None)
    assert last.series[0].gains[-1].points.low > 0
    assert "400 images a makes 7.8 to 12.3 points fewer errors (uncorrected)" in last.answer[1]


def test_a_claim_of_more_images_has_an_interval_without_zero():
    """The test is of the points. The ratio's interval may hold 0, and "41 % (0 to 65)" stood for -0.5 to 65."""
    drawn = np.random.default_rng(198).random((11, 60))[1:]
    wrong = {100: dict(enumerate(drawn[:5] < 0.2)), 200: dict(enumerate(drawn[5:] < 0.1))}
    cells = [run("a", size, seed, 0, correct=~one) for size, own in wrong.items() for seed, one in own.items()]
    found = summarize(cells, PROTOCOL, [], None)
    gain = found.series[0].gains[-1]
    assert gain.p < 0.05 and gain.fall.low < 0 < gain.points.low
    assert found.answer[1].startswith("Yes: from 100 to 200 images a makes 0.63 to 12.7 points fewer errors")


def test_a_gain_of_a_later_look_counts_more():
    """Seeds that were added until "Yes" stood there made false claims, as those until two networks differ."""
    cells = study({"a": [0.3, 0.26]}, sizes=(100, 200), seeds=5)
    few = [replace(one, correct=one.correct[:: T // 500]) for one in cells]
    first, later = (summarize(few, {**PROTOCOL, "looks": looks}, [], None).series[0].gains[-1].p for looks in (1, 3))
    assert later == pytest.approx(min(24 * first, 1.0)) and first < 0.05


@pytest.mark.parametrize(("errors", "words"), [([0.3, 0.0], "Yes: "), ([0.0, 0.3], "No: ")])
def test_no_errors_have_no_ratio(errors, words):
    """From none to 30 % the errors "rose by 586933 %", and from 30 % to none they "fell by > 99 % (99 to 100)"."""
    answer = summarize(study({"a": errors}, sizes=(100, 200), seeds=3), PROTOCOL, [], None).answer[1]
    assert answer.startswith(words) and "points" in answer.partition(";")[0]


def test_few_test_images_show_no_gain():
    generator = np.random.default_rng(0)
    few = [run("a", size, seed, 0, correct=generator.random(40) > 0.2) for seed in range(3) for size in (100, 200)]
    assert summarize(few, PROTOCOL, [], None).answer[1].startswith("Unclear: from 100 to 200 images a makes at most ")


def test_forecasts_and_back_tests_are_rows_of_the_summary():
    plain = to_json(judged({"vit": law(2, -0.4), "cnn": law(1, -0.4)}))
    assert [(row["series"], row["images"]) for row in plain["forecasts"]] == [
        (name, size) for name in ("vit", "cnn") for size in (15_000, 20_000, 30_000, 40_000)
    ]
    assert set(plain["forecasts"][0]) == {"series", "images", "error", "low", "high"}
    assert set(plain["backtest"][0]) == {"series", "known_to", "images", "error", "low", "high", "measured"}
    assert all(row["low"] <= row["measured"] <= row["high"] for row in plain["backtest"])


def test_networks_that_have_not_learned_are_called_so():
    """Two networks that guess were "not to be told apart", like two good ones."""
    ten = {**PROTOCOL, COMMONEST: 0.1}
    found = judged({"vit": [0.9, 0.9], "cnn": [0.9, 0.9]}, ten, 0.08, sizes=(100, 200))
    assert found.answer[0] == "Neither vit nor cnn is shown to be better than guessing one class with 200 images."
    assert [words.split()[0] for words in found.warnings] == ["vit", "cnn", "Guessing"], "guessing reaches the target"
    assert "Networks that guess need longer trainings" in found.next_steps[1] and "seeds would" not in said(found)
    one = judged({"vit": [0.9, 0.9], "cnn": [0.5, 0.4]}, ten, sizes=(100, 200))
    assert one.answer[0].startswith("Use cnn") and len(one.warnings) == 1
    assert "vit is not shown to be better than guessing" in one.warnings[0]
    rare = judged({"vit": [0.06, 0.05], "cnn": [0.06, 0.05]}, {**PROTOCOL, COMMONEST: 0.95}, sizes=(100, 200))
    assert rare.answer[0].startswith("Neither vit nor cnn") and "most common class 5 %" in rare.warnings[0]
    labels = judged({"vit": [0.9, 0.9], "cnn": [0.9, 0.9]}, {**ten, "right": "all"}, sizes=(100, 200))
    assert labels.answer[0].endswith("guessing the same labels with 200 images.")
    assert "always guessing the most common labels 90 %" in labels.warnings[0]
    for num_images, expected in ((40, ["cnn"]), (6000, [])):  # one seed has the interval of its test images
        tested = {**ten, "images": {"train": 200, "test": num_images}}
        found = judged({"vit": [0.3, 0.3], "cnn": [0.85, 0.85]}, tested, sizes=(100, 200), seeds=1)
        assert [words.split()[0] for words in found.warnings] == expected
        assert not expected or "its error is 85.00 % (95 % interval 7" in found.warnings[0]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"vit": "timm:a", "cnn": "random weights"}, "vit began with pretrained weights and cnn with random ones"),
        ({"vit": "timm:a", "cnn": "timm:b"}, ""),
        ({"vit": "random weights", "cnn": "random weights"}, ""),
    ],
)
def test_a_pretrained_network_against_a_random_one_is_warned_of(start, words):
    found = judged({"vit": law(2, -0.4), "cnn": law(1, -0.4)}, {**PROTOCOL, "start": start})
    assert any(words in one for one in found.warnings) == bool(words)


def test_an_answer_says_that_some_classes_are_not_tested():
    words = "2 of 3 classes have test images: nothing is measured about the others"
    assert words in judged({"vit": law(2, -0.4), "cnn": law(1, -0.4)}, {**PROTOCOL, "tested": words}).conditions


def test_networks_of_unlike_size_are_called_so():
    cells = study({"vit": law(2, -0.4), "cnn": law(1, -0.4)})
    assert "families" not in summarize(cells, PROTOCOL, [], None).cost
    cells = [replace(one, parameters=4) for one in cells]
    larger = [replace(one, parameters=16, flops=one.flops * 3) if one.series == "vit" else one for one in cells]
    assert " has 4.0 times the parameters and 3.0 times the FLOPs of " in summarize(larger, PROTOCOL, [], None).cost


def test_a_target_is_a_next_step():
    found = judged({"vit": law(2, -0.4, 0.0), "cnn": law(1, -0.4, 0.0)}, target=0.98)
    words = "For an accuracy of 98 %, cnn: 13,000 training images or more, about 19,000 if errors fall as before;"
    assert found.next_steps[0].startswith(words) and "more, then run again." in found.next_steps[0]


def test_few_runs():
    one = summarize([run("vit", 100, 0, 3000)], {}, [], 0.9)
    assert one.answer[0] == "Only one network was measured; test error: vit 30.0 % with 100 images."
    assert one.answer[1].startswith("Not known") and not one.forecasts
    assert one.next_steps == ["For an accuracy of 90 %, vit: no forecast, because only one size was measured."]
    two = summarize([run("vit", 100, 0, 3000), run("cnn", 100, 0, 2000)], {}, [], None)
    assert two.answer[0] == "Not tested, from one seed: cnn makes 10.0 points fewer errors than vit with 100 images."
    assert "give --seeds 3 or more" in two.next_steps[0]
    equal = summarize([run(name, size, 0, 3000) for name in ("vit", "cnn") for size in (100, 200)], {}, [], None)
    assert equal.answer[0] == "Not tested, from one seed: vit and cnn make equally many errors with 200 images."
    assert equal.answer[1].startswith("Untested, one seed: from 100 to 200 images vit makes equally many errors;")
    apart = summarize([run("vit", 100, 0, 3000), run("cnn", 200, 0, 2000)], {}, [], None)
    errors = "vit 30.0 % with 100 images; cnn 20.0 % with 200 images"
    assert apart.answer[0] == f"The networks share no size and seed; test error: {errors}."
    grown = summarize([run("vit", 100, 0, 3000), run("vit", 200, 0, 2000)], {}, [], None)
    assert grown.answer[1].startswith("Untested, one seed: from 100 to 200 images vit makes 10.0 points fewer errors")
    for found in (one, two, apart, grown):
        to_json(found)


def test_no_error_is_below_nothing_or_above_everything():
    found = summarize([run("vit", 100, seed, wrong) for seed, wrong in enumerate((2000, 9000))], PROTOCOL, [], None)
    assert "vit 55.0 % (0.4 to 99.7)" in found.answer[0]
    assert percents(found.series[0].points[0].mean) == ("55.00", "0.37 to 99.75")


def test_a_budget_of_few_passes_is_warned_of():
    cells = study({"vit": law(9, -0.7), "cnn": law(2, -0.5)})
    assert "passes" not in said(summarize(cells, PROTOCOL, [], None))
    whole_batches = [replace(cell, epochs=2.9993) for cell in cells]
    assert "passes" not in said(summarize(whole_batches, PROTOCOL, [], None))
    short = [replace(cell, epochs=66.6 / cell.num_images * 100) for cell in cells]
    verdict = said(summarize(short, PROTOCOL, [], None))
    assert "may change this answer." in verdict and "At 10,000 images the budget was 0.67 passes over" in verdict
    once = [replace(cell, epochs=1.0) for cell in cells]
    assert "the budget was 1 pass over them" in said(summarize(once, PROTOCOL, [], None))


def test_checkpoints_that_were_chosen_too_early_are_warned_of():
    found = study({"A": law(9, -0.7), "B": law(2, -0.5)})
    early = [replace(one, last_is_better=one.num_images == found[0].num_images) for one in found]
    count = sum(one.last_is_better for one in early)
    (told,) = [step for step in summarize(early, PROTOCOL, [], None).notes if "best_metric=last" in step]
    assert told.startswith(f"In {count:,} of {len(found):,} runs ")
    assert not [step for step in summarize(found, PROTOCOL, [], None).notes if "best_metric" in step]


def test_a_budget_that_grows_with_the_images_is_named():
    cells = study({"vit": law(9, -0.7), "cnn": law(2, -0.5)})
    assert "more steps" not in said(summarize(cells, PROTOCOL, [], None))
    longer = [replace(cell, steps=max(300, cell.num_images // 4)) for cell in cells]
    verdict = said(summarize(longer, PROTOCOL, [], None))
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
    verdict = said(summarize(cells, PROTOCOL, [], None))
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
    assert (words or "x") in said(told) + "x"
    assert any("count all test images alike" in one for one in told.notes) == bool(words)


def test_options_are_advised_where_they_help():
    """Cells of five sizes and seeds had failed, and "give two or more --sizes", "--seeds 3 or more" was the advice."""
    for timed, fix in (({}, "two or more --sizes"), ({"seconds": 60.0}, "two or more --sizes, or a longer --time")):
        assert judged({"vit": [0.03]}, PROTOCOL | timed, sizes=(100,)).answer[1].endswith(f"; give {fix}.")
    cells = study({"vit": [0.2, 0.1], "cnn": [0.1, 0.05]}, sizes=(100, 200))
    small = summarize([one for one in cells if one.series == "vit" or one.num_images == 100], PLANNED, [], None)
    assert small.answer[0].startswith("Use cnn") and "the errors of vit fell by" in small.answer[1]
    one = [one for one in cells if one.num_images == 200 and (one.series == "vit" or one.seed == 0)]
    found = summarize(one, PLANNED, [], None)
    assert found.answer[0].startswith("Not tested") and found.next_steps == []
    assert found.answer[1] == "Not known: the effect of more images needs two sizes that share a seed."


def test_runs_without_a_result_are_missing():
    assert "Runs are missing: cnn has no run." in said(judged({"vit": law(2, -0.4)}, PLANNED))
    cells = study({"vit": law(2, -0.4), "cnn": law(1, -0.4)})
    assert "missing" not in said(summarize(cells, PLANNED, [], None))
    verdict = said(summarize([one for one in cells if one.seed < 3], PLANNED, [], None))
    assert "Runs are missing: vit lacks 10 of 25 runs, cnn lacks 10 of 25 runs. The study's command " in verdict


def test_sizes_that_one_network_lacks_are_named():
    cells = study({"vit": law(2, -0.4), "cnn": law(1, -0.4)})
    found = summarize([one for one in cells if one.series == "vit" or one.num_images < 9999], PLANNED, [], None)
    assert "with 3,000 images" in found.answer[0] and "every measured size" not in found.comparisons[0].words
    assert found.comparisons[0].unshared == [10_000] and "cnn lacks 5 of 25 runs" in said(found)


def test_variants_at_one_size_are_set_beside_the_first():
    curves = {"plain": [0.020], "same": [0.0201], "worse": [0.03], "better": [0.01]}
    found = summarize(study(curves, sizes=(500,)), PROTOCOL, [], None)
    assert found.answer[0].startswith("Use better: 1.0 points fewer errors than plain with 500 images")
    p, adjusted = min((one.differences[0].p, one.differences[0].p_adjusted) for one in found.comparisons)
    assert adjusted == pytest.approx(3 * p, abs=1e-9), "the smallest of three is tested three times as hard"


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
    assert "more test images would help most" in said(agree) and "known to ±" in said(agree)
    assert agree.series[0].points[0].seed_correlation > 0.98
    assert "more seeds would help most" in said(scatter)
    (one,) = scatter.comparisons[0].differences
    margin = one.margin_of_error
    assert margin.twice_the_seeds < 0.6 * margin.now and margin.twice_the_test_images > 0.9 * margin.now


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
    assert words in said(told) and told.answer[0].startswith("Not decided")
    assert any(words in step for step in told.next_steps)


@pytest.mark.parametrize(("seeds", "advice"), [(2, "Twice the seeds"), (5, "Twice the images would make that about")])
def test_seeds_that_would_test_a_fold_again_are_not_advised(seeds, advice):
    """With all of five folds tested, "twice the seeds" would be ten folds, which is another study."""
    generator = np.random.default_rng(0)
    runs = [
        run(name, 160, seed, 0, correct=generator.random(40) < 0.8) for name in ("vit", "cnn") for seed in range(seeds)
    ]
    (step,) = summarize(runs, {**PROTOCOL, "folds": 5}, [], None).next_steps
    assert advice in step and ("seeds" in step) is (seeds == 2)


def test_images_that_the_first_weights_knew_are_warned_of():
    """The plan of a study warned, and its verdict, its page and `vit report` did not."""
    told = "the run runs/a, from which this training starts, has trained on 3 of 9 test images"
    found = summarize(study({"vit": law(2, -0.4), "cnn": law(1, -0.4)}), {**PROTOCOL, "seen_before": [told]}, [], None)
    assert f"{told}." in found.warnings


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
    assert "The difference is known to ±100.00 points." in said(found)
    assert twice in said(found), said(found)
    assert found.answer[0] == "Not decided with 100 images: nothing is known yet about vit and cnn."
    reach = found.comparisons[0].differences[0].margin_of_error
    assert reach.now == 1.0 and max(reach.twice_the_seeds, reach.twice_the_test_images) <= 1.0
    assert all(float(number) <= 100 for number in re.findall(r"±([\d.]+\d)", said(found)))
