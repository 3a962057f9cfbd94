"""The figures and tables that a finished training leaves in its run folder, and sends to its tracker."""

from typing import Any

import numpy as np

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.dataset import ImageDataset
from vit.data.sampler import Key
from vit.inference.metrics import MOST_IN_CONFUSION, confusion, per_class
from vit.inference.scored_images import ScoredImages
from vit.report.figures import confusion_matrix, curves, displayable, image_grid, reliability, save
from vit.training.plan import Plan
from vit.training.result import FitResult
from vit.training.tracking import Tracker

WORST = 24
SAMPLES = 24
SHOWING_IMAGES = {"augmented", "worst"}


def write_classes(run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...]) -> None:
    """What the best checkpoint said of the images of every class."""
    split = "test" if "test" in fitted.scored else "validation"
    if split in fitted.scored:
        shown = fitted.scored[split]
        rows = per_class(shown.labels, shown.predictions, class_names)
        content: dict[str, Any] = {"per_class": [row.to_dict() for row in rows]}
        if len(class_names) <= MOST_IN_CONFUSION:
            content["confusion"] = confusion(shown.labels, shown.predictions, len(class_names)).tolist()
        write_json(run.per_class_path(split), content)


def draw_run(run: RunDirectory, plan: Plan, fitted: FitResult, tracker: Tracker) -> None:
    """Curves, confusion matrix, reliability, augmented training images, worst validation images."""
    class_names = plan.source.class_names
    scored, data = fitted.scored, fitted.data
    pictures = {"curves": curves(run.metrics_path)}
    split = "test" if "test" in scored else "validation"
    if split in scored:
        shown = scored[split]
        if len(class_names) <= MOST_IN_CONFUSION:
            counts = confusion(shown.labels, shown.predictions, len(class_names))
            pictures["confusion_matrix"] = confusion_matrix(counts, class_names)
        pictures["reliability"] = reliability(shown.correct, shown.confidences, shown.uncalibrated)
        tracker.confusion_matrix(f"{split}/confusion", shown.labels.tolist(), shown.predictions.tolist(), class_names)
    count = min(SAMPLES, len(plan.source.splits["train"]))
    batch = data.augmented(data.dataset("train").__getitems__([Key(0, index) for index in range(count)]))
    augmented = displayable(batch.image, plan.preprocess.mean, plan.preprocess.std)
    labels = [" + ".join(class_names[c] for c in found) for found in _shown(batch.label.numpy())]
    pictures["augmented"] = image_grid(list(augmented), labels, "Training images as the network sees them")
    if "validation" in scored:
        dataset = data.dataset("validation")
        worst = _worst(scored["validation"], class_names)
        places = {path: place for place, path in enumerate(dataset.samples.paths)}
        captions = [f"{row['label']} → {row['predicted']}, {row['probability']:.0%}" for row in worst]
        pictures["worst"] = image_grid(
            [_picture(dataset, places[row["path"]]) for row in worst],
            captions,
            "Validation images with the largest loss: true → predicted, probability",
        )
    for name, figure in pictures.items():
        path = run.figure_path(name)
        save(figure, path)
        show = tracker.media if name in SHOWING_IMAGES else tracker.figure
        show(f"figures/{name}", path)
    if "validation" in scored:
        columns = ("path", "label", "predicted", "probability", "loss")
        rows = [[row[column] for column in columns] for row in worst]
        tracker.image_table("validation/worst", columns, rows)
    _track_result(run, fitted.result, tracker)


def _track_result(run: RunDirectory, result: RunResult, tracker: Tracker) -> None:
    values = {f"test/{name}": metric["value"] for name, metric in result.metrics.items()}
    tracker.summary({**values, **{f"best/{name}": value for name, value in result.validation.items()}})
    tracker.artifact(run.best_path, f"{result.data}-{result.spec.name}", {"sha256": file_hash(run.best_path), **values})


def _worst(scored: ScoredImages, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
    order = np.argsort(-scored.losses, kind="stable")[:WORST]
    return [
        {
            "path": scored.paths[i],
            "label": class_names[scored.labels[i]],
            "predicted": class_names[scored.predictions[i]],
            "probability": float(scored.confidences[i]),
            "loss": float(scored.losses[i]),
        }
        for i in order
    ]


def _picture(dataset: ImageDataset, index: int) -> Any:
    return dataset.__getitems__([Key(-1, index)]).image[0]


def _shown(labels: np.ndarray[Any, Any]) -> list[list[int]]:
    """The classes of each image: one, or those that were mixed."""
    return [[int(row)] if labels.ndim == 1 else np.flatnonzero(row).tolist() for row in labels]
