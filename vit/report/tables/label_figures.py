"""Figures of a model that gives several labels: precision and recall, average precision by size, labels that meet"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from sklearn.metrics import precision_recall_curve

from vit.data.core.samples import Labels
from vit.inference.metrics.multilabel_metrics import LabelMetrics
from vit.inference.scores.scored_labels import ScoredLabels
from vit.report.page.figures import reliability
from vit.report.page.style import look, plain
from vit.report.tables.class_sizes import ClassSize, metric_by_size
from vit.tasks.label_text import PRESENT

MOST_CURVES = 10  # more curves than colors tell nothing
MOST_TOGETHER = 30  # labels of a table of pairs


def average_precision_by_size(rows: Sequence[LabelMetrics], training_images: Labels) -> Figure:
    """Average precision of the labels that some image has, against the number of training images (K,) with each."""
    sizes = [ClassSize(row.label, int(n), row.ap) for n, row in zip(training_images, rows, strict=True) if row.ap]
    sizes.sort(key=lambda one: one.training_images)
    return metric_by_size(sizes, "average precision", "training images with the label")


def precision_recall(scored: ScoredLabels, rows: Sequence[LabelMetrics]) -> Figure:
    """Precision against recall of every label, with a dot at its threshold; the ten labels of the lowest AP if many."""
    figure = Figure(figsize=(7.4, 4.2), layout="constrained")
    axes = figure.subplots()
    measured = [(row.ap.value, number) for number, row in enumerate(rows) if row.ap is not None]
    known = scored.known
    for place, (_, number) in enumerate(sorted(measured)[:MOST_CURVES]):
        cells, row = known[:, number], rows[number]
        present = scored.labels[cells, number] == PRESENT
        precision, recall, _ = precision_recall_curve(present, scored.probabilities[cells, number])
        color, marker = look(place)
        axes.step(100 * recall, 100 * precision, where="post", color=color, linewidth=1.2, label=plain(row.label))
        if row.recall is not None and row.precision is not None:  # so of every label that an image has
            axes.plot(100 * row.recall, 100 * row.precision, marker, color=color, markersize=5)
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


def together(scored: ScoredLabels, thresholds: npt.ArrayLike, label_names: Sequence[str]) -> Figure | None:
    """How many of the images with one label have another, in truth and in the predictions; None for many labels.

    Only images whose two labels are known count.
    """
    if len(label_names) > MOST_TOGETHER:
        return None
    known = scored.known.astype(np.float64)
    side = 1.6 + 0.32 * len(label_names)
    figure = Figure(figsize=(2 * side + 1, side + 0.4), layout="constrained")
    names = [plain(name) for name in label_names]
    has = {"true": scored.labels == PRESENT, "predicted": scored.predicted(thresholds) & scored.known}
    for axes, (title, cells) in zip(figure.subplots(1, 2, sharey=True), has.items(), strict=True):
        own = cells.astype(np.float64)
        share = (own.T @ own) / np.maximum(own.T @ known, 1.0)
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
        for (row, column), value in np.ndenumerate(share):
            color = "white" if value > 0.5 else "black"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=color)
        axes.set(xticks=range(len(names)), yticks=range(len(names)), title=title)
        axes.set_xticklabels(names, rotation=90)
        axes.set_yticklabels(names)
    return figure
