"""Figures and tables of a finished training, for its run folder and its tracker"""

from dataclasses import astuple, fields

import numpy as np
from matplotlib.figure import Figure

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.loading.sampler import Key
from vit.plain_files import read_text
from vit.report.page.figures import curves, save
from vit.report.page.image_figures import displayable, image_grid
from vit.report.run.run_common import LossText
from vit.report.run.run_page import report_of
from vit.training.planning.plan import Plan
from vit.training.running.result import FitResult
from vit.training.tracking.tracker import Tracker

MOST_WORST = 24
MOST_SAMPLES = 24


def write_classes(run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...]) -> None:
    """Write metrics of every class or label, of the test images or else of the validation images."""
    split = _measured_split(fitted)
    if split is not None:
        table = report_of(fitted.result.task).class_table(fitted.scored[split], fitted.result, class_names)
        write_json(run.per_class_path(split), table)


def draw_run(run: RunDirectory, plan: Plan, fitted: FitResult, tracker: Tracker) -> None:
    """Curves, confusion matrix, reliability, augmented training images, worst validation images."""
    class_names, result = plan.source.class_names, fitted.result
    report = report_of(result.task)
    axis = LossText.of(read_text(run.config_path), result.task).axis
    figures = {"curves": curves(run.metrics_path, result.best_epoch, result.validation_name, axis)}
    split = _measured_split(fitted)
    if split is not None:
        scored, sizes = fitted.scored[split], plan.class_balance.counts
        figures |= report.run_figures(scored, result, sizes, class_names)
        if result.task.is_exclusive:
            guesses = scored.probabilities.argmax(axis=1).tolist()
            tracker.confusion_matrix(f"{split}/confusion", scored.labels.tolist(), guesses, class_names)
    figures["augmented"] = _augmented(plan, fitted)
    validated = fitted.scored.get("validation")
    worst = [] if validated is None else report.worst(validated, result, class_names, MOST_WORST)
    if worst:
        dataset = fitted.data.dataset("validation")
        indices = {path: index for index, path in enumerate(dataset.samples.paths)}
        images = [dataset.__getitems__([Key(-1, indices[row.path])]).image[0] for row in worst]
        figures["worst"] = image_grid(images, [row.text for row in worst], report.WORST_TITLE)
    for name, figure in figures.items():
        save(figure, run.figure_path(name))
        show = tracker.media if name in ("augmented", "worst") else tracker.figure  # which show images
        show(f"figures/{name}", run.figure_path(name))
    if worst:
        columns = [field.name for field in fields(worst[0])]
        tracker.image_table("validation/worst", columns, [astuple(row) for row in worst])
    _track_result(run, result, tracker)


def _measured_split(fitted: FitResult) -> str | None:
    return next((split for split in ("test", "validation") if split in fitted.scored), None)


def _track_result(run: RunDirectory, result: RunResult, tracker: Tracker) -> None:
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


def _augmented(plan: Plan, fitted: FitResult) -> Figure:
    """The first training images as the network sees them in the first epoch, with the classes that were mixed."""
    class_names, data = plan.source.class_names, fitted.data
    count = min(MOST_SAMPLES, len(plan.source.splits["train"]))
    batch = data.augmented(data.dataset("train").__getitems__([Key(0, index) for index in range(count)]))
    images, labels = displayable(batch.image, plan.preprocess.mean, plan.preprocess.std), batch.label.numpy()
    mixed = [[int(row)] if labels.ndim == 1 else np.flatnonzero(row > 0) for row in labels]  # -1 is an unknown label
    captions = [" + ".join(class_names[number] for number in numbers) for numbers in mixed]
    return image_grid(list(images), captions, "Training images as the network sees them")
