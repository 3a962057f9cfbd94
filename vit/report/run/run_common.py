"""Parts of the pages of a run and of an evaluation: what losses are, their images, and the summary to send"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.model_path import weights_name
from vit.checkpoints.result import RunResult, rule_text
from vit.checkpoints.run import RunDirectory
from vit.console import count_of, percent
from vit.data.core.samples import Samples, Source
from vit.data.pixels.preprocess import Preprocess
from vit.data.splits.split import SplitRow
from vit.inference.metrics.weak_groups import WeakGroups
from vit.inference.scores.intervals import Metric, like_guessing
from vit.plain_files import parse_yaml
from vit.report.run.run_pictures import CellImages, RunImages
from vit.report.tables.run_tables import ClassRow
from vit.study.answer.wording import percent_text
from vit.tasks.task import Task, task_with
from vit.training.running.run_images import SeenImages

MOST_CLASSES = 1000  # rows of a table of classes
MOST_PICTURES = 24  # of the worst images, and of the least confident
EXPLAINED = 6  # right and wrong images with a map each
WIDE = 0.02  # half width of an interval: beyond it more test images are advised
UNEVEN = 0.15  # a class whose recall lies so far below the accuracy is named
FEW_TRAINING_IMAGES = 20_000  # with fewer, pretrained weights are advised
_MIN_IMAGES = 10  # of a class that is named


def loss_text(config: str, task: Task) -> tuple[str, str]:
    """(name of both losses of metrics.csv, "loss" where they are not the same; what the training loss includes)."""
    options = parse_yaml(config)
    model, optim, augment, distill = (options.get(part) or {} for part in ("model", "optim", "augment", "distill"))
    plain, own_loss = task.plain_loss, optim.get("loss")
    is_asymmetric = optim.get("multilabel_loss") == "asymmetric"
    others = ["weights of the classes"] * (optim.get("class_weights") not in (None, "none"))
    others += ["logits adjusted to the frequencies of the classes"] * bool(optim.get("logit_adjustment"))
    others += ["the teacher's part"] * bool(distill.get("teacher"))
    included = others
    if model.get("freeze") != "backbone":
        is_smoothed = bool(optim.get("label_smoothing")) and not own_loss
        kinds = [value for name, value in augment.items() if name not in ("name", "crop", "magnitude")]
        varies = augment.get("crop", 1.0) != 1.0 or any(kinds)
        included = ["augmentation"] * varies + ["label smoothing"] * is_smoothed + others
    kind = own_loss or ("asymmetric loss" if is_asymmetric else plain)
    with_what = f" with {' and '.join(included)}" if included else ""
    axis = "loss" if is_asymmetric or own_loss or others else f"{plain} (nats)"
    return axis, f"The training loss is the {kind}{with_what}. The validation loss is the {plain} of the labels alone."


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run whose page is made."""

    run: RunDirectory
    result: RunResult
    config: str  # text of its config.yaml
    class_names: Sequence[str]
    listed: Mapping[str, Sequence[SplitRow]]  # the rows of the run's `splits.csv`
    source: Source | None  # the run's images; see `write_run_report`

    @property
    def warnings(self) -> list[str]:
        """Sentences on measured images that the network knew, and on classes without test images, without full stop."""
        tested = self.result.tested_text
        about = [f"{tested}; accuracy and macro figures are about these"] if tested else []
        return [*(self.result.seen_before or ()), *guessing(self.result), *about]


@dataclass(frozen=True)
class EvaluatedImages:
    """The images of an evaluation, and what is said about them."""

    model: str  # the model as the user named it
    network: str  # name of its network
    data: str  # name of the data set
    split: str  # split of the data set; "all": the data set has no splits
    samples: Samples  # the images, of which those that could not be read are not among the scored ones
    preprocess: Preprocess  # the preprocessing of the model: pictures are read with its channels and its window
    seen: SeenImages  # how many images of the training were left out, or are among the measured ones
    fitted_on: str  # images that temperature and thresholds are fitted to, in words
    class_names: Sequence[str]  # classes or labels of the model
    rules: LabelRules | None  # rules of its labels; None: one class for an image
    weak: WeakGroups | None = None  # groups of images with more errors than others; None: not looked for

    @property
    def task(self) -> Task:
        return task_with(self.rules)


def pixels_of_scored(images: EvaluatedImages, paths: Sequence[str]) -> RunImages:
    """Pixels of an image by its place among the scored ones, which lack those that could not be read."""
    places: list[int] = []
    for index, path in enumerate(images.samples.paths):
        if len(places) < len(paths) and path == paths[len(places)]:
            places.append(index)
    return RunImages(images.samples, places, {}, images.preprocess.decoding)


def first_weights(config: str) -> str:
    """What a training began with, from the text of its config.yaml."""
    source = (parse_yaml(config).get("model") or {}).get("init_from")
    return f"weights of {weights_name(source)}" if source else "random weights"


def result_lines(title: str, found: Metric, num_right: int, images: str, cells: Sequence[CellImages]) -> list[str]:
    """Title, accuracy with its interval, and the most frequent mistake among the cells of the confusion matrix."""
    lines = [title, f"Accuracy: {percent_text(found)}, {num_right:,} of {images}"]
    for worst in [cell for cell in cells if cell.is_open][:1]:
        where = f"{worst.label_name} taken for {worst.predicted_name}"
        lines.append(f"Most frequent mistake: {where}, {worst.count:,} of {worst.total:,} images")
    return lines


def advice(found: Metric, classes: Sequence[ClassRow], num_groups: int | None) -> list[str]:
    """What to do next, as far as the accuracy and the measured images say."""
    steps = []
    named = [row for row in classes if row.num_images >= _MIN_IMAGES]
    lowest = max(named, key=lambda row: row.missed / row.num_images, default=None)
    if lowest is not None and found.value - (least := 1 - lowest.missed / lowest.num_images) > UNEVEN:
        where = f"{lowest.name}, of which {percent(least, 1)} are found"
        steps.append(f"Look at the images of {where}. Wrong labels and too few training images are common causes.")
    elif found.value < 1:
        steps.append("Look at the worst images on the page: some of their labels may be wrong.")
    half = (found.high - found.low) / 2
    if half > WIDE:
        units = "measured images" if num_groups is None else "groups of measured images"
        steps.append(f"The accuracy is known to ±{100 * half:.1f} points: more {units} would narrow that.")
    return steps


def training_line(result: RunResult, first_weights: str) -> str:
    """How the run was trained."""
    images, is_probe = count_of(result.num_images.get("train", 0), "image"), result.validation_name == "penalty"
    length = "by a linear probe of the last layer" if is_probe else f"for {count_of(result.epochs, 'epoch')}"
    return f"Trained on {images} {length}, seed {result.seed}; {first_weights} at first"


def training_advice(result: RunResult, first_weights: str) -> list[str]:
    """What to do next, as far as the training says."""
    steps, name = about_choice(result), result.validation_name
    if result.is_chosen and result.best_epoch + 1 == result.rounds and name != "penalty":
        steps.append(f"The last {name} was the best one: a longer training may be better.")
    if first_weights == "random weights" and result.num_images.get("train", 0) < FEW_TRAINING_IMAGES:
        steps.append("With so few images pretrained weights are often better: vit probe DATA compares some.")
    return steps


def guessing(result: RunResult) -> list[str]:
    """A warning where the test does not show the network to be better than guessing, without full stop."""
    balanced, mean_ap = result.metrics.get("balanced_accuracy"), result.metrics.get("map")
    if mean_ap and (chance := result.metrics.get("map_of_guesses")):
        return like_guessing(Metric(**mean_ap), chance["value"], "mAP")
    return like_guessing(Metric(**balanced), 1 / (result.tested_classes or result.spec.num_classes)) if balanced else []


def about_choice(result: RunResult) -> list[str]:
    """Sentences about the choice of the checkpoint: what may be better, and whether its accuracy is too high."""
    sentences, is_known = [*last_is_better(result), *without_test(result)], not isnan(sum(result.validation.values()))
    end = {1: "largest", result.rounds: "smallest"}.get(result.best_epoch + 1)
    if result.validation_name == "penalty" and end and is_known:
        sentences.append(f"The {end} penalty that is tried was the best one: a value outside the range may be better.")
    return sentences


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
    last, best = (percent(values[name]) for values in (result.last_validation, result.validation))
    return [
        f"Of the validation images the last weights have {last} right, and best.ckpt ({rule_text(result.best_metric)}) "
        f"has {best}: --optim.best_metric last keeps the last weights."
    ]
