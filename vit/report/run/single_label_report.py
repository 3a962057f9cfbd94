"""Report of images with one class each: classes, confusions, pictures and calibration of a run or an evaluation"""
# ruff: noqa: D103  `TaskReport` has the docstrings

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult
from vit.checkpoints.validation_scores import ValidationScores
from vit.console import percent
from vit.data.core.samples import Labels
from vit.data.splits.split import groups_of
from vit.inference.metrics import metrics
from vit.inference.metrics.measured_answers import MeasuredAnswers
from vit.inference.metrics.metrics import MOST_IN_CONFUSION, Measurement, Metrics, confusion, per_class
from vit.inference.scores.image_groups import count_text, number_of, numbered
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import ScoredImages, read_scored
from vit.report.page.figures import confusion_matrix, reliability
from vit.report.page.page import with_next_steps
from vit.report.page.style import drawn
from vit.report.run import run_common
from vit.report.run.run_pictures import MOST_IN_MATRIX, Cards, RunImages, confusion_content, pixels_of
from vit.report.tables.class_sizes import recall_by_size
from vit.report.tables.run_tables import ClassRow, Tested, cell_of, class_rows, metric_rows, unsure_content

MOST_OF_GROUP = 12  # pictures of a weak group
RUN_TEMPLATE, EVALUATION_TEMPLATE, SCRIPTS = "run.html", "evaluation.html", ("table.js", "copy.js")
WORST_TITLE = "Validation images with the largest loss: true → predicted, probability"


@dataclass(frozen=True)
class WorstImage:
    """A validation image with a large loss: a row of the tracker's table."""

    path: str
    label: str
    predicted: str
    probability: float
    loss: float

    @property
    def text(self) -> str:
        return f"{self.label} → {self.predicted}, {percent(self.probability, 0)}"


def measure(
    scored: ScoredImages, class_names: Sequence[str], rules: LabelRules | None, scores: ValidationScores | None
) -> Measurement:
    return metrics.measure(scored, class_names, scores=scores)


def class_table(scored: ScoredImages, result: RunResult, class_names: Sequence[str]) -> dict[str, object]:
    rows = per_class(scored.labels, scored.predictions, class_names)
    content: dict[str, object] = {"per_class": [row.to_dict() for row in rows]}
    if len(class_names) <= MOST_IN_CONFUSION:
        content["confusion"] = confusion(scored.labels, scored.predictions, len(class_names)).tolist()
    return content


def run_figures(
    scored: ScoredImages, result: RunResult, sizes: Labels, class_names: Sequence[str]
) -> dict[str, Figure]:
    return _figures(scored, class_names, sizes)


def worst(scored: ScoredImages, result: RunResult, class_names: Sequence[str], most: int) -> list[WorstImage]:
    rows = scored.rows(class_names)
    largest = [rows[index] for index in np.argsort(-scored.losses, kind="stable")[:most]]
    return [WorstImage(row.path, row.label, row.predicted, row.probability, row.loss) for row in largest]


def evaluation_figures(scored: ScoredImages, measurement: Measurement, class_names: Sequence[str]) -> dict[str, Figure]:
    return _figures(scored, class_names)


def evaluation_content(
    images: run_common.EvaluatedImages, scored: ScoredImages, measurement: Measurement, figures: Mapping[str, Figure],
    predictions: str,
) -> dict[str, object]:  # fmt: skip
    class_names, rows, num_groups = images.class_names, scored.rows(images.class_names), measurement.num_groups
    tested, accuracy = Tested.of(rows, class_names, scored.groups), measurement.metrics.acc1
    pictures = Cards(rows, run_common.pixels_of_scored(images, scored.paths))
    classes = class_rows(tested, class_names)
    shown = [row for row in classes if row.num_images or row.false_alarms][: run_common.MOST_CLASSES]
    content = _measured_content(tested, pictures, class_names, shown, predictions, measurement.answers, figures)
    kind = "image" if images.split == "all" else f"{images.split} image"
    measured = count_text(measurement.num_images, num_groups, kind)
    title = f"{images.network} on {images.data}"
    lines = run_common.result_lines(title, accuracy, content["num_right"], measured, content["confusions"].cells)
    lines += [f"Warning: {images.seen.warning}"] if images.seen.warning else []
    lines += [f"Warning: {sentence}" for sentence in measurement.warnings]
    weak_text = images.weak.describe() if images.weak else ""
    return {
        **content,
        "left_out": {name: count for name, count in images.seen.left_out.items() if count},
        "images": count_text(len(rows), num_groups),
        "accuracy": cell_of(accuracy),
        "metrics": metric_rows(Metrics.TITLES, measurement.metrics.to_dict(), measurement.uncalibrated.to_dict()),
        "levels": [(level.text, cell_of(level.accuracy)) for level in measurement.levels],
        "temperature": measurement.temperature,
        "has_temperatures": measurement.temperature != 1,
        "fitted_on": images.fitted_on,
        "absent": [row.name for row in classes if not row.num_images],
        "weak": weak_text[:1].upper() + weak_text[1:],
        "weak_groups": [
            (one.describe(), pictures.cards(one.wrong[:MOST_OF_GROUP]))
            for one in (images.weak.found if images.weak else ())
        ],
        "unreadable": list(scored.left_out.items()),
        "summary": with_next_steps(lines, run_common.advice(accuracy, shown, num_groups)),
    }


def run_content(measured: run_common.MeasuredRun) -> tuple[dict[str, object], RunImages | None]:
    run, result, class_names, listed = measured.run, measured.result, measured.class_names, measured.listed
    split, started_from = result.measured_split, run_common.first_weights(measured.config)
    rows = read_scored(run.scored_path(split), result.num_images[split])
    pixels = pixels_of(run, measured.source, split, [(row.path, row.label) for row in rows], listed)
    pictures = Cards(rows, pixels)
    tested = Tested.of(rows, class_names, numbered(groups_of([row.path for row in rows], listed.get(split, ()))))
    counts = Counter(row.label for row in listed["train"])
    sizes = np.array([counts[name] for name in class_names], dtype=np.int64)
    is_test = split == "test"
    groups = result.test_groups if is_test else number_of(tested.groups)
    accuracy = Metric(**result.metrics["acc1"]) if is_test else Metric.share(tested.correct, tested.groups)
    images = count_text(len(rows), groups, f"{split} image")
    images += " (which chose the checkpoint)" * (result.is_chosen and not is_test)
    classes = class_rows(tested, class_names, sizes)[: run_common.MOST_CLASSES]
    file_name = run.scored_path(split).relative_to(run.path).as_posix()
    answers = MeasuredAnswers.from_dict(result.answers) if result.answers else None
    figures = _figures(tested, class_names, sizes)
    content = _measured_content(tested, pictures, class_names, classes, file_name, answers, figures)
    levels = [metrics.LevelAccuracy(**{**row, "accuracy": Metric(**row["accuracy"])}) for row in result.levels or ()]
    title = f"{result.spec.name} on {result.data}"
    lines = run_common.result_lines(title, accuracy, content["num_right"], images, content["confusions"].cells)
    lines += [f"Warning: {sentence}" for sentence in measured.warnings]
    lines += [run_common.training_line(result, started_from), f"Run {run.path.resolve().name}"]
    steps = [*run_common.training_advice(result, started_from), *run_common.advice(accuracy, classes, groups)]
    right = [index for index in tested.by_confidence(descending=True) if tested.correct[index]][: run_common.EXPLAINED]
    wrong = [index for index in tested.by_loss if not tested.correct[index]][: run_common.EXPLAINED]
    more = {
        "split": split,
        "images": images,
        "accuracy": cell_of(accuracy),
        "metrics": metric_rows(Metrics.TITLES, result.metrics, result.uncalibrated),
        "levels": [(level.text, cell_of(level.accuracy)) for level in levels],
        "temperature": result.temperature,
        "has_temperatures": result.temperature != 1,
        "fitted_on": result.fitted_on,
        "recall_by_size": drawn(figures["recall_by_size"]) if "recall_by_size" in figures else None,
        "summary": with_next_steps(lines, steps),
        "explained": [
            (title, pictures.explained(indices, run, [class_names[tested.predictions[index]] for index in indices]))
            for title, indices in (("right and confident", right), ("wrong and confident", wrong))
        ],
    }
    return {**content, **more}, pixels


def _figures(
    measured: ScoredImages | Tested, class_names: Sequence[str], sizes: Labels | None = None
) -> dict[str, Figure]:
    """Figures of measured images by their names; `sizes` (C,) are the training images of each class, if known."""
    figures = {}
    if len(class_names) <= MOST_IN_CONFUSION:
        counts = confusion(measured.labels, measured.predictions, len(class_names))
        figures["confusion_matrix"] = confusion_matrix(counts, class_names)
    if sizes is not None:
        by_size = recall_by_size(sizes, measured.labels, measured.correct, class_names, measured.groups)
        figures |= {} if by_size is None else {"recall_by_size": by_size}
    figures["reliability"] = reliability(measured.correct, measured.confidences, measured.uncalibrated)
    return figures


def _measured_content(
    tested: Tested,
    pictures: Cards,
    class_names: Sequence[str],
    classes: Sequence[ClassRow],
    predictions: str,
    answers: MeasuredAnswers | None,
    figures: Mapping[str, Figure],
) -> dict[str, Any]:
    """What both pages print of measured images."""
    number = len(class_names)
    has_figure = MOST_IN_MATRIX < number <= MOST_IN_CONFUSION  # a small one is a table
    return {
        "num_right": int(tested.correct.sum()),
        "num_classes": number,
        "has_pictures": pictures.pixels is not None,
        "classes": classes,
        "confusion": drawn(figures["confusion_matrix"]) if has_figure else None,
        "confusions": confusion_content(tested, class_names, pictures, predictions, [row.number for row in classes]),
        "worst": pictures.cards(tested.by_loss[: run_common.MOST_PICTURES]),
        "doubtful": pictures.cards(tested.by_confidence()[: run_common.MOST_PICTURES]),
        "reliability": drawn(figures["reliability"]),
        "unsure": None if answers is None else unsure_content(answers, tested, class_names),
    }
