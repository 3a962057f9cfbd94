"""What `vit evaluate` says below its table of classes that have no image."""

import numpy as np
import pytest

from vit.checkpoints.validation_scores import ValidationScores
from vit.commands.measuring.scoring import show_answers, show_measurement
from vit.console import Reporter
from vit.inference.metrics.metrics import measure
from vit.inference.scores.scored_images import ScoredImages
from vit.report.tables import run_tables
from vit.report.tables.run_tables import unsure_content

NAMES = ("ant", "bee", "cat", "dog")


@pytest.mark.parametrize(
    ("predictions", "words"),
    [
        ([0, 1, 1], ""),
        ([0, 1, 2], "; 1 of them is predicted here, and counts as 0 in the macro F1"),
        ([0, 3, 2], "; 2 of them are predicted here, and count as 0 in the macro F1"),
    ],
)
def test_classes_without_images_that_lower_the_macro_f1(capsys, predictions, words):
    """Images of "ant" and "bee" alone."""
    scored = ScoredImages(("0", "1", "2"), np.array([0, 1, 1]), np.eye(4, dtype=np.float32)[predictions])
    measurement = measure(scored, NAMES)
    show_measurement(Reporter(), measurement)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "have no image" in line)
    assert line == "2 of 4 classes have no image here, and so no recall or F1" + words
    f1 = [row.f1 for row in measurement.per_class if row.f1 is not None]
    assert measurement.metrics.macro_f1.value == pytest.approx(sum(f1) / (2 + int("0" + words[2:3])))


@pytest.mark.parametrize(("probability", "words"), [(0.5, "no image is labeled"), (0.999, "100.00 %")])
def test_a_threshold_that_no_image_reaches_is_not_one_that_cannot_be_guaranteed(capsys, probability, words):
    """Of 100 validation images all are right and sure: 90 % can be promised, and 99.5 % cannot."""
    scores = ValidationScores.of(np.zeros(100, dtype=np.int64), np.tile([[0.99, 0.01]], (100, 1)).astype(np.float32))
    probabilities = np.array([[probability, 1 - probability]] * 3, dtype=np.float32)
    scored = ScoredImages(("0", "1", "2"), np.zeros(3, dtype=np.int64), probabilities)
    answers = measure(scored, ("ant", "bee"), scores=scores).answers
    show_answers(Reporter(), answers)
    table = capsys.readouterr().out.partition("sets of labels")[0]
    lines = {line.split()[0]: line for line in table.splitlines() if line.strip()}
    assert words in lines["0.9"] and "guaranteed" not in lines["0.9"]
    assert lines["0.995"].count("cannot be guaranteed") == 2
    tested = run_tables.Tested(scored.labels, scored.predictions, scored.confidences, scored.confidences, scored.losses)
    (row, *_) = unsure_content(answers, tested, ("ant", "bee"))["thresholds"]
    assert row["accuracy"][0] == words.removesuffix(" %") and row["threshold"] == "0.9900"


@pytest.mark.parametrize(
    ("right", "wrong", "groups", "words"),
    [
        (28, 0, None, "at least 29 images are needed"),
        (100, 0, np.arange(100) % 28, "at least 29 groups are needed"),
        (500, 500, None, "the network errs too often where it is surest"),
    ],
)
def test_why_no_accuracy_can_be_guaranteed(capsys, right, wrong, groups, words):
    """Two lines instead of a table without a number: a thousand images are not too few."""
    labels = np.repeat([0, 1], (right, wrong))
    probabilities = np.tile([[0.99, 0.01]], (len(labels), 1)).astype(np.float32)
    scores = ValidationScores.of(labels, probabilities, groups=groups)
    scored = ScoredImages(("0", "1"), np.array([0, 1]), probabilities[:2])
    show_answers(Reporter(), measure(scored, ("ant", "bee"), scores=scores).answers)
    table = capsys.readouterr().out.partition("sets of labels")[0]
    assert table.splitlines()[2:] == [f"no --target_accuracy of 0.9 or more can be guaranteed: {words}", ""]
