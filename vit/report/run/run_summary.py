"""A summary to send: the result of a run or an evaluation in a few plain lines, with what to do next"""

from collections.abc import Sequence

from vit.checkpoints.result import RunResult, rule_text
from vit.console import count_of
from vit.inference.scores.intervals import Metric
from vit.report.run.confusion_images import CellImages
from vit.report.tables.run_tables import ClassRow

WIDE = 0.02  # half width of an interval: beyond it more test images are advised
UNEVEN = 0.15  # a class whose recall lies so far below the accuracy is named
FEW_TRAINING_IMAGES = 20_000  # with fewer, pretrained weights are advised
_MIN_IMAGES = 10  # of a class that is named


def result_lines(title: str, found: Metric, num_right: int, images: str, cells: Sequence[CellImages]) -> list[str]:
    """Title, accuracy with its interval, and the most frequent mistake among the cells of the confusion matrix."""
    around = f"95 % interval {100 * found.low:.2f} to {100 * found.high:.2f}"
    lines = [title, f"Accuracy: {100 * found.value:.2f} % ({around}), {num_right:,} of {images}"]
    for worst in [cell for cell in cells if cell.is_open][:1]:
        where = f"{worst.label_name} taken for {worst.predicted_name}"
        lines.append(f"Most frequent mistake: {where}, {worst.count:,} of {worst.total:,} images")
    return lines


def advice(found: Metric, classes: Sequence[ClassRow], num_groups: int | None) -> list[str]:
    """What to do next, as far as the accuracy and the measured images say."""
    steps = []
    named = [row for row in classes if row.num_images >= _MIN_IMAGES]
    lowest = min(named, key=lambda row: float(row.recall[0]), default=None)
    if lowest is not None and found.value - float(lowest.recall[0]) / 100 > UNEVEN:
        where = f"{lowest.name}, of which {float(lowest.recall[0]):.1f} % are found"
        steps.append(f"Look at the images of {where}. Wrong labels and too few training images are common causes.")
    elif found.value < 1:
        steps.append("Look at the worst images on the page: some of their labels may be wrong.")
    half = (found.high - found.low) / 2
    if half > WIDE:
        units = "measured images" if num_groups is None else "groups of measured images"
        steps.append(f"The accuracy is known to ±{100 * half:.1f} points: more {units} would narrow that.")
    return steps


def training_lines(result: RunResult, first_weights: str) -> list[str]:
    """How the run was trained."""
    images = count_of(result.num_images.get("train", 0), "image")
    length = f"for {result.epochs:,.4g} epoch{'s' * (result.epochs != 1)}"
    if result.validation_name == "penalty":
        length = "by a linear probe of the last layer"
    return [f"Trained on {images} {length}, seed {result.seed}; {first_weights} at first"]


def training_advice(result: RunResult, first_weights: str) -> list[str]:
    """What to do next, as far as the training says."""
    steps, name = [*last_is_better(result), *without_test(result)], result.validation_name
    rounds = result.epochs if result.rounds is None else result.rounds  # earlier versions counted epochs alone
    if result.best_epoch + 1 == rounds > 1 and result.best_metric != "last" and name != "penalty":
        steps.append(f"The last {name} was the best one: a longer training may be better.")
    if first_weights == "random weights" and result.num_images.get("train", 0) < FEW_TRAINING_IMAGES:
        steps.append("With so few images pretrained weights are often better: vit probe DATA compares some.")
    return steps


def without_test(result: RunResult) -> list[str]:
    """A sentence where there are no test images, and the validation images chose the checkpoint."""
    if result.measured_split == "test" or not (result.validation and result.is_chosen):
        return []
    headline = result.task.headline
    return [
        f"The validation images chose the checkpoint, so their {headline} is too high on average: --data.test 0.1 sets "
        "test images aside."
    ]


def last_is_better(result: RunResult) -> list[str]:
    """A sentence where the last weights are clearly more accurate on validation images than the best checkpoint."""
    if not result.last_is_better:
        return []
    name = f"val/{result.accuracy_metric}"
    last, best = (f"{100 * values[name]:.2f} %" for values in (result.last_validation, result.validation))
    return [
        f"Of the validation images the last weights have {last} right, and best.ckpt ({rule_text(result.best_metric)}) "
        f"has {best}: --optim.best_metric last keeps the last weights."
    ]
