"""A run, or an evaluation, as one self-contained HTML page; figures and tables of a training for folder and tracker"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from matplotlib.figure import Figure

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult, rule_text
from vit.checkpoints.run import RunDirectory
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.core.samples import Labels, Source
from vit.data.loading.sampler import Key
from vit.data.splits.split import read_splits
from vit.errors import DAMAGE, DataError, explained
from vit.inference.scores.scored_images import Scored
from vit.layout import EvaluationLayout
from vit.plain_files import read_json, read_text
from vit.report.page.figures import curves
from vit.report.page.image_figures import displayable, image_grid
from vit.report.page.page import scripts, write_page
from vit.report.page.style import drawn, save
from vit.report.run import multi_label_report, single_label_report
from vit.report.run.run_common import EvaluatedImages, MeasuredRun, first_weights, loss_text
from vit.report.run.run_pictures import RunImages, describe_changed
from vit.report.tables.run_tables import facts
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task

if TYPE_CHECKING:
    from vit.data.loading.module import ImageDataModule
    from vit.training.planning.plan import Plan
    from vit.training.running.result import FitResult
    from vit.training.tracking.tracker import Tracker

MOST_WORST = 24
MOST_SAMPLES = 24


class TaskReport(Protocol):
    """A module that reports measured images of one task, to which scored images and measurements (Any) belong."""

    WORST_TITLE: str
    RUN_TEMPLATE: str
    EVALUATION_TEMPLATE: str
    SCRIPTS: tuple[str, ...]
    # (scored, class names, rules and validation scores of the model) -> all metrics of an evaluation
    measure: Callable[[Any, Sequence[str], LabelRules | None, ValidationScores | None], Any]
    # (scored, measurement, class names) -> the figures of an evaluation
    evaluation_figures: Callable[[Any, Any, Sequence[str]], dict[str, Figure]]
    # (images, scored, measurement, its figures, file with all rows) -> what the page of an evaluation prints of its own
    evaluation_content: Callable[[EvaluatedImages, Any, Any, Mapping[str, Figure], str], dict[str, object]]
    # what the page of a run prints beside the common parts, and the images that it has asked for pictures
    run_content: Callable[[MeasuredRun], tuple[dict[str, object], RunImages | None]]
    # (scored, result, class names) -> metrics of every class or label, as the JSON file of a run has them
    class_table: Callable[[Any, RunResult, Sequence[str]], dict[str, object]]
    # (scored, result, number of training images of each class, class names) -> the figures of a run
    run_figures: Callable[[Any, RunResult, Labels, Sequence[str]], dict[str, Figure]]
    # (scored, result, class names, most) -> images with the largest loss, or with the most surely wrong label
    worst: Callable[[Any, RunResult, Sequence[str], int], Sequence[Any]]


def report_of(task: Task) -> TaskReport:
    """The reports of a task."""
    return {SINGLE_LABEL: single_label_report, MULTI_LABEL: multi_label_report}[task]


def write_run_report(run: RunDirectory, source: Source | None, result: RunResult | None = None) -> int:
    """Write report.html into the folder of a finished run; returns how many images have no picture, as files changed.

    With None for `source`, or with images that the run was not measured on, the page has no pictures. `result` is for
    a run without a result.json yet. UsageError where the run has not finished, DataError where a file is damaged.
    """
    result = result or run.finished_result()
    report = report_of(result.task)
    with explained(DataError, f"{run.path} is damaged", "restore its files, or train again", DAMAGE):
        class_names: list[str] = read_json(run.class_names_path)["classes"]
        config = read_text(run.config_path)
        axis, loss_caption = loss_text(config, result.task)
        drawn_curves = drawn(curves(run.metrics_path, result.best_epoch, result.validation_name, axis))
        measured = MeasuredRun(run, result, config, class_names, read_splits(run.splits_path), source)
        content, pixels = report.run_content(measured)
        num_changed = len(pixels.changed) if pixels else 0
        common = {
            "network": result.spec.name,
            "data": result.data,
            "folder": run.path.resolve().name,
            "first_weights": first_weights(config),
            "warnings": measured.warnings,
            "curves": drawn_curves,
            "loss_text": loss_caption,
            "validation_name": result.validation_name,
            "best_epoch": result.best_epoch + 1,
            "best_rule": rule_text(result.best_metric),
            "facts": facts(result),
            "config_name": run.config_path.name,
            "config": config.splitlines(),
            "changed": describe_changed(num_changed),
            **scripts(*report.SCRIPTS),
        }
    write_page(run.report_path, report.RUN_TEMPLATE, {**common, **content})
    return num_changed


def write_evaluation_page(
    files: EvaluationLayout, images: EvaluatedImages, scored: Scored, measurement: Any, figures: Mapping[str, Figure]
) -> None:
    """Write report.html into the folder of an evaluation; measurement and figures are those of its `TaskReport`."""
    report = report_of(images.task)
    common = {
        "model": Path(images.model).name,
        "network": images.network,
        "data": images.data,
        "split": images.split,
        "warnings": [*filter(None, [images.seen.warning]), *measurement.warnings],
        **scripts(*report.SCRIPTS),
    }
    content = report.evaluation_content(images, scored, measurement, figures, files.predictions_path.name)
    write_page(files.report_path, report.EVALUATION_TEMPLATE, {**common, **content})


def write_classes(run: RunDirectory, fitted: "FitResult", class_names: tuple[str, ...]) -> None:
    """Write metrics of every class or label, of the test images or else of the validation images."""
    split = fitted.result.measured_split
    table = report_of(fitted.result.task).class_table(fitted.scored[split], fitted.result, class_names)
    write_json(run.per_class_path(split), table)


def draw_run(run: RunDirectory, plan: "Plan", fitted: "FitResult", tracker: "Tracker") -> None:
    """Curves, confusion matrix, reliability, augmented training images, worst validation images."""
    class_names, result = plan.source.class_names, fitted.result
    report = report_of(result.task)
    axis, _ = loss_text(read_text(run.config_path), result.task)
    figures = {"curves": curves(run.metrics_path, result.best_epoch, result.validation_name, axis)}
    scored = fitted.scored[result.measured_split]
    figures |= report.run_figures(scored, result, plan.class_balance.counts, class_names)
    if result.task.is_exclusive:
        guesses = scored.probabilities.argmax(axis=1).tolist()
        tracker.confusion_matrix(f"{result.measured_split}/confusion", scored.labels.tolist(), guesses, class_names)
    figures["augmented"] = augmented(plan, fitted.data)
    worst = report.worst(fitted.scored["validation"], result, class_names, MOST_WORST)
    if worst:
        dataset = fitted.data.dataset("validation")
        indices = {path: index for index, path in enumerate(dataset.samples.paths)}
        images = [dataset.__getitems__([Key(-1, indices[row.path])]).image[0] for row in worst]
        figures["worst"] = image_grid(images, [row.text for row in worst], report.WORST_TITLE)
        columns = [field.name for field in fields(worst[0])]
        tracker.table("validation/worst", columns, [astuple(row) for row in worst], has_images=True)
    for name, figure in figures.items():
        save(figure, run.figure_path(name))
        tracker.figure(f"figures/{name}", run.figure_path(name), has_images=name in ("augmented", "worst"))
    _track_result(run, result, tracker)


def _track_result(run: RunDirectory, result: RunResult, tracker: "Tracker") -> None:
    values = {f"test/{name}": metric["value"] for name, metric in result.metrics.items()}
    ends = {
        f"test/{name}_{end}": metric[end]
        for name, metric in result.metrics.items()
        for end in ("low", "high")
        if end in metric
    }
    best = {f"best/{name}": value for name, value in result.validation.items()}
    tracker.summary({**values, **ends, **best, **({} if result.mfu is None else {"mfu": result.mfu})})
    name = f"{result.data}-{result.spec.name}"
    tracker.artifact(run.best_path, name, {"sha256": file_hash(run.best_path), **values})


def augmented(plan: "Plan", data: "ImageDataModule", has_labels: bool = True) -> Figure:
    """The first training images as the network sees them in the first epoch, with the classes that were mixed."""
    class_names = plan.source.class_names
    count = min(MOST_SAMPLES, len(plan.source.splits["train"]))
    batch = data.augmented(data.dataset("train").__getitems__([Key(0, index) for index in range(count)]))
    images, labels = displayable(batch.image, plan.preprocess.mean, plan.preprocess.std), batch.label.numpy()
    mixed = [[int(row)] if labels.ndim == 1 else np.flatnonzero(row > 0) for row in labels]  # -1 is an unknown label
    captions = [" + ".join(class_names[number] for number in numbers) if has_labels else "" for numbers in mixed]
    return image_grid(list(images), captions, "Training images as the network sees them")
