"""Figures of a run, drawn from its files and results"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import ConfusionMatrixDisplay

from vit.console import percent
from vit.csv_files import records
from vit.inference.metrics.metrics import CALIBRATION_BINS
from vit.inference.scores.scored_images import Floats
from vit.report.page.style import plain, plot

_TRAIN, _VALIDATION = "tab:blue", "tab:orange"


def curves(metrics: Path, best_epoch: int, validation_name: str, loss_axis: str) -> Figure:
    """Loss and accuracy of each validation in metrics.csv; mAP where an image may have several labels.

    `best_epoch` is the validation of the best checkpoint, counted from 0. `validation_name`, such as "epoch", is what
    precedes a validation.
    """
    table = records(metrics)
    column, name_of = ("val/map", "mAP") if table and "val/map" in table[0] else ("val/acc1", "accuracy")
    rows = [row for row in table if row[column] or row["train/images_per_second"]]
    epochs = [int(row["epoch"]) + 1 for row in rows]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    marker = "o" * (len(epochs) == 1)  # one point is not a line
    for name, color, label in (("train/loss", _TRAIN, "training"), ("val/loss", _VALIDATION, "validation")):
        loss.plot(epochs, [float(row[name] or "nan") for row in rows], marker=marker, color=color, label=label)
    loss.set(xlabel=validation_name, ylabel=loss_axis, title="Loss")
    loss.legend(frameon=False)
    values = [100 * float(row[column] or "nan") for row in rows]
    accuracy.plot(epochs, values, color=_VALIDATION)
    if best_epoch + 1 in epochs:
        best = epochs.index(best_epoch + 1)
        accuracy.annotate(
            f"kept: {percent(values[best] / 100)}",
            (epochs[best], values[best]),
            xytext=(0, -14),
            textcoords="offset points",
            ha="center",
        )
        accuracy.plot(epochs[best], values[best], "o", color=_VALIDATION)
    accuracy.set(xlabel=validation_name, ylabel=f"{name_of} (%)", title=f"Validation {name_of}")
    for axes in (loss, accuracy):
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        low, high = axes.get_ylim()
        axes.set_ylim(low, high if axes is loss else min(high, 101.0))  # no accuracy is above 100 %
    return figure


def confusion_matrix(counts: npt.NDArray[np.int64], class_names: Sequence[str]) -> Figure:
    """Counts (C, C) as colors by their fraction of the row; with numbers and names up to 30 classes."""
    few = len(class_names) <= 30
    side = 2.5 + 0.42 * len(class_names) if few else 9.0
    figure, axes = plot(side, side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    display = ConfusionMatrixDisplay(shares, display_labels=[plain(name) for name in class_names] if few else None)
    display.plot(ax=axes, cmap="Blues", include_values=False, colorbar=not few, xticks_rotation="vertical")
    if few:
        for row, column in zip(*np.nonzero(counts), strict=True):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=color, fontsize=8)
    else:
        axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.set(xlabel="predicted", ylabel="true")
    return figure


def reliability(
    correct: npt.NDArray[np.bool_],
    confidences: Floats,
    uncalibrated: Floats,
    words: tuple[str, str, str, str] = ("Accuracy by confidence", "confidence", "accuracy", "images"),
) -> Figure:
    """Accuracy against confidence in bins of equal width, above a histogram of the confidences.

    The right panel is with temperature scaling, the left panel without. Equal panels become one. `words` are the title
    of one panel, and those for confidence, accuracy and what is counted.
    """
    panels = {words[0]: confidences}
    if not np.allclose(confidences, uncalibrated):
        panels = {"Without temperature scaling": uncalibrated, "With temperature scaling": confidences}
    bins = CALIBRATION_BINS
    centers = (np.arange(bins) + 0.5) / bins
    figure = Figure(figsize=(3.8 * len(panels), 4.2), layout="constrained")
    grid = figure.subplots(2, len(panels), sharex=True, sharey="row", height_ratios=[3, 1], squeeze=False)
    for column, (title, sure) in enumerate(panels.items()):
        bin_numbers = np.minimum((sure * bins).astype(int), bins - 1)
        seen = np.bincount(bin_numbers, minlength=bins)
        accuracy = np.bincount(bin_numbers, correct, bins) / np.maximum(seen, 1)
        upper, lower = grid[:, column]
        upper.plot([0, 1], [0, 1], color="gray", linestyle=":")
        upper.bar(centers[seen > 0], accuracy[seen > 0], width=0.9 / bins, color=_TRAIN)
        upper.set(title=title, ylim=(0, 1))
        lower.bar(centers, seen, width=0.9 / bins, color="gray")
        lower.set(xlabel=words[1], xlim=(0, 1))
    grid[0, 0].set(ylabel=words[2])
    grid[1, 0].set(ylabel=words[3])
    return figure
