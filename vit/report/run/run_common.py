"""Parts of the pages of a run and of an evaluation that are equal for both tasks"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.model_path import weights_name
from vit.checkpoints.result import RunResult, rule_text
from vit.checkpoints.run import RunDirectory
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Samples, Source
from vit.data.loading.dataset import image_of
from vit.data.pixels.preprocess import Preprocess
from vit.data.splits.split import SplitRow
from vit.inference.metrics.weak_groups import WeakGroups
from vit.plain_files import parse_yaml, read_text
from vit.report.page.figures import curves
from vit.report.page.style import drawn
from vit.report.run.run_pictures import Pixels
from vit.report.tables.run_tables import facts
from vit.tasks.task import Task, task_with
from vit.training.running.run_images import SeenImages


@dataclass(frozen=True)
class LossText:
    """What the losses of metrics.csv are."""

    axis: str  # name of both losses; "loss" where they are not the same
    caption: str  # what the training loss includes, and the validation loss does not

    @classmethod
    def of(cls, config: str, task: Task) -> "LossText":
        """The losses of a run, from the text of its config.yaml."""
        options = parse_yaml(config)
        is_asymmetric = _option(options, "optim", "multilabel_loss") == "asymmetric"
        plain = task.plain_loss
        others = []
        if _option(options, "optim", "class_weights") not in (None, "none"):
            others.append("weights of the classes")
        if _option(options, "optim", "logit_adjustment"):
            others.append("logits adjusted to the frequencies of the classes")
        if _option(options, "distill", "teacher"):
            others.append("the teacher's part")
        own_loss = _option(options, "optim", "loss")
        axis = "loss" if is_asymmetric or own_loss or others else f"{plain} (nats)"
        included = [*others]
        if _option(options, "model", "freeze") != "backbone":
            smoothed = _option(options, "optim", "label_smoothing")
            is_smoothed = bool(smoothed) and not own_loss
            included = ["augmentation"] * _varies(options) + ["label smoothing"] * is_smoothed + others
        kind = own_loss or ("asymmetric loss" if is_asymmetric else plain)
        with_what = f" with {' and '.join(included)}" if included else ""
        what = f"The training loss is the {kind}{with_what}."
        return cls(axis, f"{what} The validation loss is the {plain} of the labels alone.")


def _varies(options: Any) -> bool:
    """Whether the training varied its images."""
    augment = options.get("augment") or {}
    kinds = {name: value for name, value in augment.items() if name not in ("name", "crop", "magnitude")}
    return augment.get("crop", 1.0) != 1.0 or any(kinds.values())


def _option(options: Any, part: str, name: str) -> Any:
    return (options.get(part) or {}).get(name)


MOST_CLASSES = 1000  # rows of a table of classes
MOST_PICTURES = 24  # of the worst images, and of the least confident
EXPLAINED = 6  # right and wrong images with a map each


@dataclass(frozen=True)
class CommonContent:
    """What the templates of both pages print."""

    network: str
    data: str
    folder: str
    first_weights: str
    # sentences about measured images that the network knew already, and about classes without test images, without a
    # full stop
    warnings: list[str]
    curves: Markup
    loss_text: str
    validation_name: str
    best_epoch: int
    best_rule: str
    facts: list[tuple[str, str]]
    config_name: str
    config: list[str]


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run whose page is made."""

    run: RunDirectory
    result: RunResult
    common: CommonContent
    class_names: Sequence[str]
    listed: Mapping[str, Sequence[SplitRow]]  # the rows of the run's `splits.csv`
    source: Source | None  # the run's images; see `write_run_report`


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
        """Whether an image has one class, or any number of labels."""
        return task_with(self.rules)


def pixels_of_scored(images: EvaluatedImages, paths: Sequence[str]) -> Pixels:
    """Pixels of an image by its place among the scored ones, which lack those that could not be read."""
    samples, decoding = images.samples, images.preprocess.decoding
    places: list[int] = []
    for index, path in enumerate(samples.paths):
        if len(places) < len(paths) and path == paths[len(places)]:
            places.append(index)

    def pixels(place: int) -> Tensor | None:
        try:
            return image_of(samples, places[place], decoding)
        except (ImageError, IndexError):
            return None  # the file changed after the measurement

    return pixels


def common_content(run: RunDirectory, result: RunResult) -> CommonContent:
    """The common parts of the page of a finished run."""
    config = read_text(run.config_path)
    losses = LossText.of(config, result.task)
    return CommonContent(
        network=result.spec.name,
        data=result.data,
        folder=run.path.resolve().name,
        first_weights=first_weights(config),
        warnings=[
            *(result.seen_before or ()),
            *([f"{result.tested_text}; accuracy and macro figures are about these"] if result.tested_text else ()),
        ],
        curves=drawn(curves(run.metrics_path, result.best_epoch, result.validation_name, losses.axis)),
        loss_text=losses.caption,
        validation_name=result.validation_name,
        best_epoch=result.best_epoch + 1,
        best_rule=rule_text(result.best_metric),
        facts=facts(result),
        config_name=run.config_path.name,
        config=config.splitlines(),
    )


def first_weights(config: str) -> str:
    """What a training began with, from the text of its config.yaml."""
    source = (parse_yaml(config).get("model") or {}).get("init_from")
    return f"weights of {weights_name(source)}" if source else "random weights"
