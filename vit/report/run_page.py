"""A run as one HTML page that needs nothing but itself: how good, where it errs, how sure it may be, how made."""

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.stats import binomtest
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.dataset import array_image
from vit.data.decode import ImageError, read_image
from vit.data.samples import Source
from vit.errors import DataError
from vit.inference.metrics import MOST_IN_CONFUSION, NAMES, confusion, per_class
from vit.inference.scored_rows import ScoredRow, read_scored
from vit.report.figures import confusion_matrix, curves, reliability
from vit.report.page import drawn, templates
from vit.report.run_attention import overlays
from vit.report.thumbnails import encoded, shrunk

PICTURES = 24  # of the worst, and of the most doubtful
PAIRS, OF_A_PAIR = 8, 6
EXPLAINED = 6  # right and wrong images with a map each
SHOWN_CLASSES = 60
LEFT_OUT = 20
THUMBNAIL = 128  # pixels, of the longer side

Cell = tuple[str, str]  # a value, and in small letters below it its interval
Pixels = Callable[[int], Tensor | None]


@dataclass(frozen=True)
class Card:
    """An image on the page.

    Attributes:
        picture: the source of its <img>; None where it cannot be had any more.
    """

    row: ScoredRow
    picture: Markup | None


def write_run_report(run: RunDirectory, source: Source | None, result: RunResult | None = None) -> None:
    """Write report.html into the folder of a finished run.

    Args:
        source: the run's images; None, or others than it was measured on: the page has no pictures of them.
        result: what the run found, where result.json is not written yet; None: read it.

    Raises:
        UsageError: the run has not finished.
        DataError: one of its files is damaged.
    """
    result = run.read_result() if result is None else result
    try:
        class_names: list[str] = json.loads(run.class_names_path.read_text(encoding="utf-8"))["classes"]
        split = "test" if "test" in result.num_images else "validation"
        rows = read_scored(run.scored_path(split), result.num_images[split])
        content = _content(run, result, class_names, split, rows, _pixels(source, split, rows))
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or train again") from error
    html = templates.get_template("run.html").render(content)
    with atomic_write(run.report_path) as partial:
        partial.write_text(html, encoding="utf-8", errors="replace")


def _pixels(source: Source | None, split: str, rows: Sequence[ScoredRow]) -> Pixels | None:
    """The images of rows by their index; None where the images are not those that the run was measured on."""
    if source is None or split not in source.splits:
        return None
    samples = source.splits[split]
    names = (source.class_names[label] for label in samples.labels.tolist())
    places = {
        (os.path.join(samples.root or "", path), name): place
        for place, (path, name) in enumerate(zip(samples.paths, names, strict=True))
    }
    try:
        found = [places[os.path.join(samples.root or "", row.path), row.label] for row in rows]
    except KeyError:
        return None

    def pixels(index: int) -> Tensor | None:
        try:
            place = found[index]
            return read_image(samples.file(place)) if samples.arrays is None else array_image(samples, place)
        except ImageError:
            return None  # the file changed since it was measured

    return pixels


def _content(
    run: RunDirectory,
    result: RunResult,
    class_names: Sequence[str],
    split: str,
    rows: Sequence[ScoredRow],
    pixels: Pixels | None,
) -> dict[str, Any]:
    """What the template prints."""
    number = {name: place for place, name in enumerate(class_names)}
    labels = np.array([number[row.label] for row in rows], dtype=np.int64)
    guesses = np.array([number[row.predicted] for row in rows], dtype=np.int64)
    sure, before = (np.array([row[place] for row in rows], dtype=np.float32) for place in (3, 5))
    correct, losses = labels == guesses, np.array([row.loss for row in rows])
    seen = np.bincount(labels, minlength=len(class_names))
    matrix = confusion(labels, guesses, len(class_names)) if len(class_names) <= MOST_IN_CONFUSION else None

    @cache
    def picture(index: int) -> Markup | None:
        image = pixels(index) if pixels else None
        return None if image is None else encoded(shrunk(image, THUMBNAIL))

    def cards(order: Any) -> list[Card]:
        return [Card(rows[i], picture(i)) for i in map(int, order)]

    def explained(order: Any) -> list[tuple[ScoredRow, Markup, Markup]]:
        found = [(rows[i], pixels(i)) for i in map(int, order)] if pixels else []
        there = [(row, image) for row, image in found if image is not None]
        maps = overlays(run, [image for _, image in there], [row.predicted for row, _ in there])
        return [(row, *both) for (row, _), both in zip(there, maps, strict=False)]

    return {
        "network": result.spec.name,
        "data": result.data,
        "folder": run.path.resolve().name,
        "split": split,
        "images": len(rows),
        "right": int(correct.sum()),
        "accuracy": _share(int(correct.sum()), len(rows)),
        "metrics": _metrics(result),
        "temperature": result.temperature,
        "has_pictures": pixels is not None,
        "curves": drawn(curves(run.metrics_path)),
        "best_epoch": result.best_epoch + 1,
        "classes": _classes(labels, guesses, class_names)[:SHOWN_CLASSES],
        "class_count": len(class_names),
        "confusion": None if matrix is None else drawn(confusion_matrix(matrix, class_names)),
        "pairs": [
            (class_names[true], class_names[guess], len(order), int(seen[true]), cards(order[:OF_A_PAIR]))
            for true, guess, order in _pairs(labels, guesses, losses)
        ],
        "worst": cards(np.argsort(-losses, kind="stable")[:PICTURES]),
        "doubtful": cards(np.argsort(sure, kind="stable")[:PICTURES]),
        "looks": [
            (
                "right, and sure of it",
                explained([i for i in np.argsort(-sure, kind="stable") if correct[i]][:EXPLAINED]),
            ),
            (
                "wrong, and sure of it",
                explained([i for i in np.argsort(-losses, kind="stable") if not correct[i]][:EXPLAINED]),
            ),
        ],
        "reliability": drawn(reliability(correct, sure, before)),
        "facts": _facts(result),
        "config": run.config_path.read_text(encoding="utf-8").splitlines(),
    }


def _share(count: int, total: int) -> Cell:
    """A share in percent and Wilson's 95 % interval of it."""
    if total == 0:
        return "", ""
    within = binomtest(count, total).proportion_ci(0.95, "wilson")
    return f"{100 * count / total:.2f}", f"{100 * within.low:.2f} to {100 * within.high:.2f}"


def _calibration_words(metric: dict[str, float]) -> Cell:
    """The calibration error, and in place of an interval what chance makes; runs of earlier versions do not say it."""
    beside = f"{100 * metric['chance']:.2f} by chance" if "chance" in metric else ""
    return f"{100 * metric['value']:.2f} %", beside


def _metrics(result: RunResult) -> list[tuple[str, Cell, Cell]]:
    """(name, value, value without temperature scaling if that is another) of each metric."""

    def said(name: str, metric: dict[str, float] | None) -> Cell:
        if metric is None:
            return "", ""
        if name == "ece":
            return _calibration_words(metric)
        scale, digits = (1, 4) if name == "nll" else (100, 2)
        value, low, high = (f"{scale * metric[key]:.{digits}f}" for key in ("value", "low", "high"))
        return value + " %" * (name != "nll"), f"{low} to {high}"

    after, before = result.metrics, result.uncalibrated
    return [(NAMES[name], said(name, after[name]), said(name, before.get(name))) for name in NAMES if name in after]


def _classes(labels: Any, guesses: Any, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each class, the one with the lowest F1 first."""
    rows: list[dict[str, Any]] = [row.to_dict() for row in per_class(labels, guesses, class_names)]
    taken_for: list[Counter[int]] = [Counter() for _ in class_names]
    for label, guess in zip(labels.tolist(), guesses.tolist(), strict=True):
        taken_for[label][guess] += 1
    called = np.bincount(guesses, minlength=len(class_names))
    for place, (row, wrong) in enumerate(zip(rows, taken_for, strict=True)):
        right = wrong.pop(place, 0)
        row["recall"] = _share(right, right + wrong.total())
        row["missed"] = wrong.total()
        row["alarms"] = int(called[place]) - right
        row["taken_for"] = ", ".join(f"{class_names[other]} ({n})" for other, n in wrong.most_common(2))
    return sorted(rows, key=lambda row: row["f1"])


def _pairs(labels: Any, guesses: Any, losses: Any) -> list[tuple[int, int, list[int]]]:
    """(true class, predicted class, its images with the largest loss first) of the most frequent mistakes."""
    mistakes: dict[tuple[int, int], list[int]] = {}
    for index in np.flatnonzero(labels != guesses):
        mistakes.setdefault((int(labels[index]), int(guesses[index])), []).append(int(index))
    most = sorted(mistakes.items(), key=lambda one: (-len(one[1]), one[0]))[:PAIRS]
    return [(*pair, sorted(found, key=lambda index: -losses[index])) for pair, found in most]


def _facts(result: RunResult) -> list[tuple[str, str]]:
    """How the run was made, in a line each."""
    options = {"image_size": result.image_size, **result.spec.options, "num_classes": result.spec.num_classes}
    network = ", ".join(f"{name} {value}" for name, value in options.items())
    return [
        ("network", f"{result.spec.name}: {network}"),
        ("size", f"{result.parameters:,} parameters, {result.flops / 1e6:,.1f} million FLOPs an image"),
        ("images", ", ".join(f"{count:,} {split}" for split, count in result.num_images.items())),
        ("fingerprints", ", ".join(f"{split} {value}" for split, value in result.fingerprints.items())),
        ("training", f"{result.steps:,} steps of {result.batch_size:,} images ({result.epochs:,.4g} epochs)"),
        ("seed", str(result.seed)),
        ("time", f"{result.seconds:,.0f} s, {result.images_per_second:,.0f} training images/s"),
        ("device", f"{result.device}, {result.precision}"),
        *(("left out", f"{split}: {path}: {reason}") for split, path, reason in _left_out(result)),
        *([("steps left out", f"{result.skipped_steps:,}")] if result.skipped_steps else []),
        ("versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())),
    ]


def _left_out(result: RunResult) -> list[tuple[str, str, str]]:
    """(split, name, reason) of images that could not be read and were not measured."""
    left_out = result.left_out.items()
    return [(split, path, reason) for split, some in left_out for path, reason in some.items()][:LEFT_OUT]
