"""Figures and tables of a finished training, for its run folder and its tracker"""

from dataclasses import astuple, dataclass, fields

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from torch import Tensor

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.dataset import ImageDataset
from vit.data.sampler import Key
from vit.inference.metrics import MOST_IN_CONFUSION, confusion, per_class
from vit.inference.scored_images import ScoredImages
from vit.report.class_sizes import class_sizes, recall_by_size
from vit.report.figures import confusion_matrix, curves, range_curve, reliability, save
from vit.report.image_grid import displayable, image_grid
from vit.training.planning.plan import Plan
from vit.training.range_test import RangeTest
from vit.training.result import FitResult
from vit.training.tracking.tracker import Tracker

MOST_WORST = 24
MOST_SAMPLES = 24
SHOWING_IMAGES = {"augmented", "worst"}


@dataclass(frozen=True)
class WorstImage:
    """A validation image with a large loss: a row of the tracker's table."""

    path: str
    label: str
    predicted: str
    probability: float
    loss: float


def write_classes(run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...]) -> None:
    """Write metrics of every class and the confusion matrix, of the test images or else of the validation images."""
    split = _measured_split(fitted)
    if split is not None:
        scored = fitted.scored[split]
        rows = per_class(scored.labels, scored.predictions, class_names)
        content: dict[str, object] = {"per_class": [row.to_dict() for row in rows]}
        if len(class_names) <= MOST_IN_CONFUSION:
            content["confusion"] = confusion(scored.labels, scored.predictions, len(class_names)).tolist()
        write_json(run.per_class_path(split), content)


def draw_run(run: RunDirectory, plan: Plan, fitted: FitResult, tracker: Tracker) -> None:
    """Curves, confusion matrix, reliability, augmented training images, worst validation images."""
    class_names = plan.source.class_names
    figures = {"curves": curves(run.metrics_path, fitted.result.best_epoch)}
    if run.range_test_path.is_file():
        figures["range_test"] = range_curve(RangeTest.read(run.range_test_path))
    split = _measured_split(fitted)
    if split is not None:
        scored = fitted.scored[split]
        if len(class_names) <= MOST_IN_CONFUSION:
            counts = confusion(scored.labels, scored.predictions, len(class_names))
            figures["confusion_matrix"] = confusion_matrix(counts, class_names)
        figures["recall_by_size"] = recall_by_size(
            class_sizes(plan.class_balance.counts, scored.labels, scored.correct, class_names)
        )
        figures["reliability"] = reliability(scored.correct, scored.confidences, scored.uncalibrated)
        tracker.confusion_matrix(f"{split}/confusion", scored.labels.tolist(), scored.predictions.tolist(), class_names)
    figures["augmented"] = _augmented(plan, fitted)
    worst: list[WorstImage] = []
    if "validation" in fitted.scored:
        worst = _worst(fitted.scored["validation"], class_names)
        figures["worst"] = _worst_figure(worst, fitted.data.dataset("validation"))
    for name, figure in figures.items():
        path = run.figure_path(name)
        save(figure, path)
        show = tracker.media if name in SHOWING_IMAGES else tracker.figure
        show(f"figures/{name}", path)
    if worst:
        columns = [field.name for field in fields(WorstImage)]
        tracker.image_table("validation/worst", columns, [astuple(row) for row in worst])
    _track_result(run, fitted.result, tracker)


def _measured_split(fitted: FitResult) -> str | None:
    return next((split for split in ("test", "validation") if split in fitted.scored), None)


def _track_result(run: RunDirectory, result: RunResult, tracker: Tracker) -> None:
    values = {f"test/{name}": metric["value"] for name, metric in result.metrics.items()}
    best = {f"best/{name}": value for name, value in result.validation.items()}
    tracker.summary({**values, **best, **({} if result.mfu is None else {"mfu": result.mfu})})
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


def _worst(scored: ScoredImages, class_names: tuple[str, ...]) -> list[WorstImage]:
    order = np.argsort(-scored.losses, kind="stable")[:MOST_WORST]
    return [
        WorstImage(
            scored.paths[index],
            class_names[scored.labels[index]],
            class_names[scored.predictions[index]],
            float(scored.confidences[index]),
            float(scored.losses[index]),
        )
        for index in order
    ]


def _worst_figure(worst: list[WorstImage], dataset: ImageDataset) -> Figure:
    indices = {path: index for index, path in enumerate(dataset.samples.paths)}
    images = [_picture(dataset, indices[row.path]) for row in worst]
    captions = [f"{row.label} → {row.predicted}, {row.probability:.0%}" for row in worst]
    return image_grid(images, captions, "Validation images with the largest loss: true → predicted, probability")


def _picture(dataset: ImageDataset, index: int) -> Tensor:
    return dataset.__getitems__([Key(-1, index)]).image[0]


def _mixed(labels: npt.NDArray[np.float32] | npt.NDArray[np.int64]) -> list[list[int]]:
    """The classes of each image: one, or those that were mixed."""
    return [[int(row)] if labels.ndim == 1 else np.flatnonzero(row).tolist() for row in labels]
