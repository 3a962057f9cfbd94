"""Report of images with several labels: labels, mistakes and calibration of a run or an evaluation"""
# ruff: noqa: D103  `TaskReport` has the docstrings

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import precision_recall_curve

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult
from vit.checkpoints.validation_scores import ValidationScores
from vit.console import percent
from vit.data.core.samples import Labels
from vit.data.splits.split import groups_of
from vit.inference.metrics.multilabel_metrics import (
    LabelMetrics,
    MultilabelMeasurement,
    MultilabelMetrics,
    measure_labels,
)
from vit.inference.scores.image_groups import count_text, number_of, numbered
from vit.inference.scores.scored_images import ScoredLabels, read_scored_labels
from vit.report.page.figures import reliability
from vit.report.page.style import drawn, look, plain, plot
from vit.report.run.run_common import EXPLAINED, MOST_PICTURES, EvaluatedImages, MeasuredRun, pixels_of_scored
from vit.report.run.run_pictures import Cards, Pixels, RunImages, pixels_of
from vit.report.tables.class_sizes import ClassSize, metric_by_size
from vit.report.tables.label_mistakes import NotedLabel, label_mistakes, sure_labels
from vit.report.tables.run_tables import cell_of, metric_rows
from vit.tasks.label_text import PRESENT, label_text, parse_labels

RUN_TEMPLATE, EVALUATION_TEMPLATE, SCRIPTS = "run_labels.html", "label_evaluation.html", ("table.js",)
WORST_TITLE = "Validation images with the most surely wrong label, and its probability"
MOST_LABELS = 1000
MOST_CURVES = 10  # more curves than colors tell nothing


def average_precision_by_size(rows: Sequence[LabelMetrics], training_images: Labels) -> Figure:
    """Average precision of the labels that some image has, against the number of training images (K,) with each."""
    sizes = [ClassSize(row.label, int(n), row.ap) for n, row in zip(training_images, rows, strict=True) if row.ap]
    sizes.sort(key=lambda one: one.training_images)
    return metric_by_size(sizes, "average precision", "training images with the label")


def precision_recall(scored: ScoredLabels, rows: Sequence[LabelMetrics]) -> Figure:
    """Precision against recall of every label, with a dot at its threshold; the ten labels of the lowest AP if many."""
    figure, axes = plot(7.4, 4.2)
    measured = [(row.ap.value, number) for number, row in enumerate(rows) if row.ap is not None]
    known = scored.known
    for place, (_, number) in enumerate(sorted(measured)[:MOST_CURVES]):
        cells, row = known[:, number], rows[number]
        present = scored.labels[cells, number] == PRESENT
        precision, recall, thresholds = precision_recall_curve(present, scored.probabilities[cells, number])
        color, marker = look(place)  # both stand in the legend, because colors repeat
        dot = [] if row.precision is None else [int(np.searchsorted(thresholds, row.threshold))]
        axes.step(100 * recall, 100 * precision, where="post", color=color, linewidth=1.2, label=plain(row.label),
                  marker=marker, markersize=5, markevery=dot)  # fmt: skip
    axes.set(xlabel="recall (%)", ylabel="precision (%)", xlim=(-3, 103), ylim=(-3, 103))
    if measured:
        figure.legend(frameon=False, fontsize=7, loc="outside right upper")  # curves go everywhere in the axes
    return figure


def label_reliability(scored: ScoredLabels) -> Figure:
    """Fraction of images with a label against its probability, over all known cells, before and after temperatures."""
    known = scored.known
    before = scored.at(np.ones(scored.labels.shape[1]))
    return reliability(
        scored.labels[known] == PRESENT,
        scored.probabilities[known],
        before.probabilities[known],
        words=("Labels by probability", "probability of a label", "images with the label", "cells"),
    )


def measure(
    scored: ScoredLabels, class_names: Sequence[str], rules: LabelRules | None, scores: ValidationScores | None
) -> MultilabelMeasurement:
    assert rules is not None
    return measure_labels(scored, rules.thresholds.tolist(), class_names)


def class_table(scored: ScoredLabels, result: RunResult, class_names: Sequence[str]) -> dict[str, object]:
    return {"per_label": [row.to_dict() for row in _rows_of_run(scored, result, class_names)]}


def run_figures(
    scored: ScoredLabels, result: RunResult, sizes: Labels, class_names: Sequence[str]
) -> dict[str, Figure]:
    return _figures(scored, result, sizes, _rows_of_run(scored, result, class_names))


def worst(scored: ScoredLabels, result: RunResult, class_names: Sequence[str], most: int) -> list[NotedLabel]:
    return label_mistakes(scored, _rules(result).thresholds, class_names)[:most]


def evaluation_figures(
    scored: ScoredLabels, measurement: MultilabelMeasurement, class_names: Sequence[str]
) -> dict[str, Figure]:
    precision = precision_recall(scored, measurement.per_label)
    return {"precision_recall": precision, "reliability": label_reliability(scored)}


def evaluation_content(
    images: EvaluatedImages, scored: ScoredLabels, measurement: MultilabelMeasurement, figures: Mapping[str, Figure],
    predictions: str,
) -> dict[str, object]:  # fmt: skip
    assert images.rules is not None
    mistakes = label_mistakes(scored, images.rules.thresholds, images.class_names)
    cards = _cards(mistakes[:MOST_PICTURES], pixels_of_scored(images, scored.paths))
    return {
        **_measured_content(scored, measurement, images.rules, mistakes, cards),
        "judged": _judged_text(scored),
        "has_pictures": True,
        "labels": _label_rows(measurement.per_label, None, measurement.temperatures),
        "figures": {name: drawn(figure) for name, figure in figures.items()},
        "unreadable": len(scored.left_out),
    }


def run_content(measured: MeasuredRun) -> tuple[dict[str, object], RunImages | None]:
    run, result, label_names, listed = measured.run, measured.result, measured.class_names, measured.listed
    rules, split = _rules(result), result.measured_split
    temperatures = rules.temperatures.tolist()
    scored = read_scored_labels(run.scored_path(split), label_names, result.num_images[split], temperatures)
    scored = replace(scored, groups=numbered(groups_of(scored.paths, listed.get(split, ()))))
    measurement = measure_labels(scored, rules.thresholds.tolist(), label_names)
    rows = _without_fitted(measurement.per_label, result)
    texts = [label_text(row, label_names) for row in scored.labels]
    pixels = pixels_of(run, measured.source, split, list(zip(scored.paths, texts, strict=True)), listed)
    counts = Counter(
        name for row in listed["train"] for name, value in parse_labels(row.label).items() if value == PRESENT
    )
    sizes = np.array([counts[name] for name in label_names], dtype=np.int64)
    mistakes = label_mistakes(scored, rules.thresholds, label_names)
    sure = sure_labels(scored, rules.thresholds, label_names)
    shown = (("rightly given and sure", sure[:EXPLAINED]), ("wrong and sure", mistakes[:EXPLAINED]))
    content = {
        **_measured_content(scored, measurement, rules, mistakes, _cards(mistakes[:MOST_PICTURES], pixels)),
        "split": split,
        "fitted_split": result.fitted_split,
        "is_fitted": _is_fitted(result),
        "is_chosen": result.is_chosen,
        "judged": _judged_text(scored, f"{split} image"),
        "has_pictures": pixels is not None,
        "labels": _label_rows(rows, sizes, temperatures),
        "figures": {name: drawn(figure) for name, figure in _figures(scored, result, sizes, rows).items()},
        "explained": [
            (title, _cards(noted, pixels).explained(range(len(noted)), run, [one.label for one in noted]))
            for title, noted in shown
        ],
    }
    return content, pixels


def _cards(noted: Sequence[NotedLabel], pixels: Pixels | None) -> Cards:
    """Cards of noted images; `pixels` finds an image by its place in the split."""
    return Cards(noted, None if pixels is None else lambda place: pixels(noted[place].index))


def _measured_content(
    scored: ScoredLabels,
    measurement: MultilabelMeasurement,
    rules: LabelRules,
    mistakes: Sequence[NotedLabel],
    cards: Cards,
) -> dict[str, Any]:
    """What both pages print of measured images; `cards` has the first mistakes."""
    metrics, judged = measurement.metrics, scored.known.any(axis=1)
    return {
        "num_images": len(scored.paths),
        "num_labels": len(rules),
        "num_exact": int(scored.exact(rules.thresholds)[judged].sum()),
        "exact_match": cell_of(metrics.exact_match),
        "mean_ap": cell_of(metrics.map),
        "metrics": metric_rows(MultilabelMetrics.TITLES, metrics.to_dict(), measurement.uncalibrated.to_dict()),
        "has_temperatures": any(value != 1 for value in measurement.temperatures),
        "mistakes": cards.cards(range(len(cards.rows))),
        "num_mistaken": len(mistakes),
    }


def _rules(result: RunResult) -> LabelRules:
    if result.rules is None:
        raise ValueError("result.json has no rules of labels")
    return result.rules


def _is_fitted(result: RunResult) -> bool:
    """Whether the rules were fitted to the measured images. Metrics that depend on the rules are then too good."""
    return result.measured_split == result.fitted_split


def _rows_of_run(scored: ScoredLabels, result: RunResult, label_names: Sequence[str]) -> list[LabelMetrics]:
    return _without_fitted(measure_labels(scored, _rules(result).thresholds.tolist(), label_names).per_label, result)


def _without_fitted(rows: list[LabelMetrics], result: RunResult) -> list[LabelMetrics]:
    """Metrics of each label, without those that depend on rules that were fitted to these images."""
    if not _is_fitted(result):
        return rows
    return [replace(row, precision=None, recall=None, f1=None, nll=None, ece=None) for row in rows]


def _figures(scored: ScoredLabels, result: RunResult, sizes: Labels, rows: Sequence[LabelMetrics]) -> dict[str, Figure]:
    """Figures by their names, without those that depend on rules that were fitted to these images."""
    figures = {
        "precision_recall": precision_recall(scored, rows),
        "average_precision_by_size": average_precision_by_size(rows, sizes),
    }
    return figures if _is_fitted(result) else {**figures, "reliability": label_reliability(scored)}


def _judged_text(scored: ScoredLabels, kind: str = "image") -> str:
    """How many images have a known label, and of how many groups these are."""
    judged = scored.known.any(axis=1)
    groups = None if scored.groups is None else scored.groups[judged]
    return count_text(int(judged.sum()), number_of(groups), kind)


def _label_rows(
    rows: Sequence[LabelMetrics], sizes: Labels | None, temperatures: Sequence[float]
) -> list[dict[str, object]]:
    """The values of each label, lowest average precision first; labels that no image has at the top."""
    order = sorted(range(len(rows)), key=lambda k: -1.0 if (ap := rows[k].ap) is None else ap.value)
    return [
        {
            **vars(rows[k]),
            "training_images": None if sizes is None else int(sizes[k]),
            "ap": cell_of(rows[k].ap),
            "ece": "" if (ece := rows[k].ece) is None else percent(ece.value, sign=""),
            "temperature": temperatures[k],
        }
        for k in order[:MOST_LABELS]
    ]
