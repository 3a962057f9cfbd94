"""The verdict on a claim follows from its numbers: changed numbers change it, and chance supports nothing."""

from dataclasses import replace

import numpy as np
import pytest

SIZE = 400


@pytest.fixture
def rows():
    import definitions

    return definitions


@pytest.fixture
def verdict_of():
    import verdicts

    return verdicts.verdict_of


def answers_of(num_images, correct):
    from kept import Answers

    return Answers(num_images, correct)


def answers(accuracies, condition="", seeds=5):
    """Networks whose test images are right at random."""
    generator = np.random.default_rng(0)
    drawn = {
        name: {seed: generator.random(SIZE) < accuracy for seed in range(seeds)}
        for name, accuracy in accuracies.items()
    }
    return answers_of(SIZE, {condition: drawn})


def claim(rows, **values):
    return rows.Claim(name="c", title="c", row="r", said="s", text="t", **values)


@pytest.mark.parametrize(
    ("one", "other", "expects", "label"),
    [
        (0.5, 0.9, "more", "Supported"),
        (0.9, 0.5, "more", "Contradicted"),
        (0.9, 0.5, "less", "Supported"),
        (0.9, 0.9, "more", "Not shown"),
        (0.9, 0.9, "same", "Not contradicted"),
        (0.5, 0.9, "same", "Contradicted"),
    ],
)
def test_one_comparison(rows, verdict_of, one, other, expects, label):
    found = verdict_of(claim(rows, compare=(("a", "b"),), expects=(expects,)), answers({"a": one, "b": other}))
    assert found.label == label


def test_several_comparisons_are_counted_and_each_outcome_has_a_sentence(rows, verdict_of):
    accuracies = {"a": 0.5, "b": 0.9, "c": 0.9, "d": 0.99}
    made = claim(rows, compare=(("a", "b"), ("c", "b")), expects=("more", "more"), names={"a": "the first"})
    found = verdict_of(made, answers(accuracies))
    assert found.label == "Partly supported (1 of 2)"
    assert "With **the first** there are" in found.sentence and "**c** and **b** cannot be told apart" in found.sentence
    made = claim(rows, compare=(("a", "b"), ("d", "b")), expects=("more", "more"))
    found = verdict_of(made, answers(accuracies))
    assert found.label == "Mixed (1 of 2)" and "points fewer errors" in found.sentence


def test_a_pair_with_one_common_seed_agrees_with_nothing(rows, verdict_of):
    """It has no test, and leaves the p values of the other pairs as they are."""
    from sentences import compared

    tested, single = answers({"a": 0.9, "b": 0.89}).correct[""], answers({"c": 0.9, "d": 0.9}, seeds=1).correct[""]
    both = answers_of(SIZE, {"": {**tested, **single}})
    one_pair, two_pairs = (("c", "d"),), (("a", "b"), ("c", "d"))
    assert verdict_of(claim(rows, compare=one_pair, expects=("same",)), both).label == "Not shown"
    found = verdict_of(claim(rows, compare=two_pairs, expects=("same", "same")), both)
    assert found.label == "Not contradicted (1 of 2)" and "one seed" in found.sentence
    alone, among = compared(both, two_pairs[:1])[0], compared(both, two_pairs)[0]
    assert alone.p == among.p < 1


def test_what_a_test_did_not_tell_apart_is_no_agreement_beside_what_differs(rows, verdict_of):
    """Two wide intervals around zero were "Partly supported (1 of 2)"."""
    pairs, words = (("a", "b"), ("c", "d")), ("more", "same")
    made = claim(rows, compare=pairs, expects=words)
    assert verdict_of(made, answers({"a": 0.9, "b": 0.9, "c": 0.8, "d": 0.8}, seeds=2)).label == "Not shown"
    assert verdict_of(made, answers({"a": 0.5, "b": 0.9, "c": 0.8, "d": 0.8})).label == "Partly supported (1 of 2)"
    equal = answers({"a": 0.5, "b": 0.9, "c": 0.9}).correct[""]
    assert verdict_of(made, answers_of(SIZE, {"": {**equal, "d": equal["c"]}})).label == "Supported"


def test_a_comparison_without_expectation_decides_nothing(rows, verdict_of):
    made = claim(rows, compare=(("a", "b"), ("c", "b")), expects=("", "more"))
    assert verdict_of(made, answers({"a": 0.99, "b": 0.9, "c": 0.5})).label == "Supported"


def test_one_seed_supports_nothing(rows, verdict_of):
    made = claim(rows, compare=(("a", "b"),), expects=("more",))
    found = verdict_of(made, answers({"a": 0.1, "b": 0.9}, seeds=1))
    assert found.label == "Not shown" and "by other test images alone" in found.sentence


def test_kinds_of_images_are_counted(rows, verdict_of):
    correct = {}
    for number in range(4):
        ahead = 0.6 if number else 0.9
        correct |= answers({"ViT": ahead, "CNN": 0.9}, f"kind {number}").correct
    correct |= answers({"ViT": 0.9, "CNN": 0.9}, "unchanged").correct
    made = claim(rows, compare=(("ViT", "CNN"),), expects=("less",), measured="conditions")
    found = verdict_of(made, answers_of(SIZE, correct))
    assert found.label == "Partly supported (3 of 4)"
    assert "Of 4 kinds of changed images, ViT is better on 0, and CNN on 3" in found.sentence
    assert "points lower" in found.sentence
    shares = verdict_of(replace(made, value="share of the images"), answers_of(SIZE, correct))
    assert "ViT has the larger share in 0, and CNN in 3" in shares.sentence


def test_kinds_of_images_that_tell_nothing_apart_are_one_sentence(rows, verdict_of):
    correct = {}
    for number in range(4):
        correct |= answers({"ViT": 0.9, "CNN": 0.9}, f"kind {number}").correct
    found = verdict_of(
        claim(rows, compare=(("ViT", "CNN"),), expects=("less",), measured="c"), answers_of(SIZE, correct)
    )
    assert found.label == "Not shown"
    assert found.sentence == "None of 4 kinds of changed images tells ViT and CNN apart."


@pytest.mark.parametrize(
    ("factor", "expects", "label"),
    [(0.1, "less", "Supported"), (10.0, "less", "Contradicted"), (1.0, "less", "Not shown")],
)
def test_lines_are_judged_by_their_interval(rows, verdict_of, factor, expects, label):
    import lines

    rows_of = np.exp(np.random.default_rng(0).normal(0, 0.1, (5, 2))) * [factor, 1.0]
    lines = lines.Lines("block", "norm", (1.0, 2.0), {"a": rows_of}, "seeds", False, "command")
    assert verdict_of(claim(rows, lines=True, measured="m", kinds={"a": expects}), lines).label == label


def test_series_are_compared_between_kinds_of_images():
    found = answers_of(3, {"kind": {"a": {0: np.array([True, False, True])}}}).across()
    assert list(found.correct[""]) == ["a: kind"]
    assert found.only(["b"]).correct == {}


def test_one_seed_has_the_interval_of_its_test_images():
    import sentences

    found = answers({"a": 0.5, "b": 0.9}, seeds=1)
    (one,) = sentences.compared(found, [("a", "b")])
    assert 0.3 < one.gap.value < 0.5
    assert one.reach == pytest.approx(1.96 * (0.5 * 0.5 + 0.9 * 0.1) ** 0.5 / SIZE**0.5, rel=0.1)
    assert sentences.accuracy_text(sentences.over_images(0.1, SIZE)).count("(") == 1


def test_a_section_names_each_of_its_rows_and_those_that_are_missing(rows):
    import blocks

    named = {name: rows.Row(name=name, title=f"Title of {name}", data="") for name in ("one", "other")}
    sections = [rows.Section("Both", "Words.", ("one", "other")), rows.Section("Alone", "More words.", ("one",))]
    page = blocks.results_page({}, named, sections, "<!-- note -->")
    assert (
        page.count("Not measured yet: `make results ROW=one`.") == 2 and "ROW=other" in page and "<!-- note -->" in page
    )
    assert (
        page.index("## Both")
        < page.index("### Title of one")
        < page.index("### Title of other")
        < page.index("## Alone")
    )
    assert page.count("### ") == 2  # the title of an only row is that of its section


def test_a_change_is_compared_with_its_own_recipe():
    import blocks

    names = ["CNN", "CNN, erasing", "ViT", "ViT, stem", "ViT, long", "ViT, long, stem"]
    found = [blocks.reference(name, names) for name in names[1:]]
    assert found == ["CNN", "CNN", "ViT", "ViT", "ViT, long"]


def test_a_pair_that_is_measured_with_one_seed_has_a_section_without_a_verdict(rows, verdict_of):
    correct = answers({"ViT": 0.1, "CNN": 0.9}, "a kind", seeds=1).correct
    made = claim(rows, compare=(("ViT", "CNN"),), expects=("less",), measured="conditions")
    found = verdict_of(made, answers_of(SIZE, correct))
    assert found.label == "Not shown" and "with one seed" in found.sentence
