"""Figures and tables of a finished training, for its run folder and its tracker"""

from collections.abc import Sequence
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
from vit.data.samples import Labels
from vit.inference.metrics import MOST_IN_CONFUSION, confusion, per_class
from vit.inference.scored_images import ScoredImages
from vit.inference.scored_labels import ScoredLabels
from vit.plain_files import read_text
from vit.report.class_sizes import are_unequal, class_sizes, recall_by_size
from vit.report.figures import confusion_matrix, curves, range_curve, reliability, save
from vit.report.image_grid import displayable, image_grid
from vit.report.label_mistakes import NotedLabel, label_mistakes
from vit.report.label_run_figures import LabelResults, rules_of
from vit.report.loss_words import LossWords
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

    @property
    def words(self) -> str:
        """True and predicted class, and the probability of the predicted one."""
        return f"{self.label} → {self.predicted}, {self.probability:.0%}"


def write_classes(run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...]) -> None:
    """Write metrics of every class and the confusion matrix, of the test images or else of the validation images.

    Several labels for an image have metrics of every label, and no confusion matrix: a label is not taken for another.
    """
    split = _measured_split(fitted)
    if split is not None:
        scored = fitted.scored[split]
        if isinstance(scored, ScoredLabels):
            labels = LabelResults.of(scored, fitted.result, class_names).per_label
            write_json(run.per_class_path(split), {"per_label": [row.to_dict() for row in labels]})
            return
        rows = per_class(scored.labels, scored.predictions, class_names)
        content: dict[str, object] = {"per_class": [row.to_dict() for row in rows]}
        if len(class_names) <= MOST_IN_CONFUSION:
            content["confusion"] = confusion(scored.labels, scored.predictions, len(class_names)).tolist()
        write_json(run.per_class_path(split), content)


def draw_run(run: RunDirectory, plan: Plan, fitted: FitResult, tracker: Tracker) -> None:
    """Curves, confusion matrix, reliability, augmented training images, worst validation images."""
    class_names = plan.source.class_names
    result = fitted.result
    axis = LossWords.of(read_text(run.config_path), result.task).axis
    figures = {"curves": curves(run.metrics_path, result.best_epoch, result.validation_name, axis)}
    if run.range_test_path.is_file():
        figures["range_test"] = range_curve(RangeTest.read(run.range_test_path))
    split = _measured_split(fitted)
    if split is not None:
        scored, sizes = fitted.scored[split], plan.class_balance.counts
        if isinstance(scored, ScoredLabels):
            figures |= LabelResults.of(scored, fitted.result, class_names).figures(sizes)
        else:
            figures |= _figures(scored, sizes, class_names)
            guesses = scored.predictions.tolist()
            tracker.confusion_matrix(f"{split}/confusion", scored.labels.tolist(), guesses, class_names)
    figures["augmented"] = _augmented(plan, fitted)
    worst = _worst(fitted, class_names)
    if worst:
        figures["worst"] = _worst_figure(worst, fitted.data.dataset("validation"))
    for name, figure in figures.items():
        path = run.figure_path(name)
        save(figure, path)
        show = tracker.media if name in SHOWING_IMAGES else tracker.figure
        show(f"figures/{name}", path)
    if worst:
        columns = [field.name for field in fields(worst[0])]
        tracker.image_table("validation/worst", columns, [astuple(row) for row in worst])
    _track_result(run, result, tracker)


def _figures(scored: ScoredImages, sizes: Labels, class_names: tuple[str, ...]) -> dict[str, Figure]:
    """Figures of images with one class each."""
    found = {}
    if len(class_names) <= MOST_IN_CONFUSION:
        counts = confusion(scored.labels, scored.predictions, len(class_names))
        found["confusion_matrix"] = confusion_matrix(counts, class_names)
    classes = class_sizes(sizes, scored.labels, scored.correct, class_names, scored.groups)
    if are_unequal(classes):
        found["recall_by_size"] = recall_by_size(classes)
    found["reliability"] = reliability(scored.correct, scored.confidences, scored.uncalibrated)
    return found


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


def _worst(fitted: FitResult, class_names: tuple[str, ...]) -> Sequence[WorstImage | NotedLabel]:
    """The validation images with the largest loss, or with the most surely wrong label."""
    scored = fitted.scored.get("validation")
    if scored is None:
        return []
    if isinstance(scored, ScoredLabels):
        return label_mistakes(scored, rules_of(fitted.result).thresholds, class_names)[:MOST_WORST]
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


def _worst_figure(worst: Sequence[WorstImage | NotedLabel], dataset: ImageDataset) -> Figure:
    indices = {path: index for index, path in enumerate(dataset.samples.paths)}
    images = [_picture(dataset, indices[row.path]) for row in worst]
    title = "Validation images with the largest loss: true → predicted, probability"
    if isinstance(worst[0], NotedLabel):
        title = "Validation images with the most surely wrong label, and its probability"
    return image_grid(images, [row.words for row in worst], title)


def _picture(dataset: ImageDataset, index: int) -> Tensor:
    return dataset.__getitems__([Key(-1, index)]).image[0]


def _mixed(labels: npt.NDArray[np.float32] | npt.NDArray[np.int64]) -> list[list[int]]:
    """The classes of each image: one, those that were mixed, or the labels that it has (-1 is unknown)."""
    return [[int(row)] if labels.ndim == 1 else np.flatnonzero(row > 0).tolist() for row in labels]
