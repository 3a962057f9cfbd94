"""Figures and tables of a finished training, for its run folder and its tracker"""

from dataclasses import astuple, fields

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.loading.sampler import Key
from vit.plain_files import read_text
from vit.report.page.figures import curves, save
from vit.report.page.image_grid import displayable, image_grid
from vit.report.run.run_common import LossText
from vit.report.run.run_page import report_of
from vit.training.planning.plan import Plan
from vit.training.running.result import FitResult
from vit.training.tracking.tracker import Tracker

MOST_WORST = 24
MOST_SAMPLES = 24
SHOWING_IMAGES = {"augmented", "worst"}


def write_classes(run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...]) -> None:
    """Write metrics of every class or label, of the test images or else of the validation images."""
    split = _measured_split(fitted)
    if split is not None:
        result = fitted.result
        write_json(
            run.per_class_path(split), report_of(result.task).class_table(fitted.scored[split], result, class_names)
        )


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
        path = run.figure_path(name)
        save(figure, path)
        show = tracker.media if name in SHOWING_IMAGES else tracker.figure
        show(f"figures/{name}", path)
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
    """The first training images as the network sees them in the first epoch."""
    class_names, data = plan.source.class_names, fitted.data
    count = min(MOST_SAMPLES, len(plan.source.splits["train"]))
    batch = data.augmented(data.dataset("train").__getitems__([Key(0, index) for index in range(count)]))
    images = displayable(batch.image, plan.preprocess.mean, plan.preprocess.std)
    labels = [" + ".join(class_names[number] for number in mixed) for mixed in _mixed(batch.label.numpy())]
    return image_grid(list(images), labels, "Training images as the network sees them")


def _mixed(labels: npt.NDArray[np.float32] | npt.NDArray[np.int64]) -> list[list[int]]:
    """The classes of each image: one, those that were mixed, or the labels that it has (-1 is unknown)."""
    return [[int(row)] if labels.ndim == 1 else np.flatnonzero(row > 0).tolist() for row in labels]
