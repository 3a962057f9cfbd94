"""Parts of the pages of a run and of an evaluation that are equal for both tasks"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.model_path import weights_name
from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Samples, Source
from vit.data.loading.dataset import image_of
from vit.data.pixels.preprocess import Preprocess
from vit.data.splits.split import SplitRow
from vit.inference.metrics.weak_groups import WeakGroups
from vit.plain_files import parse_yaml
from vit.report.run.run_pictures import Pixels
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

        def option(part: str, name: str) -> Any:
            return (options.get(part) or {}).get(name)

        plain, own_loss = task.plain_loss, option("optim", "loss")
        is_asymmetric = option("optim", "multilabel_loss") == "asymmetric"
        others = ["weights of the classes"] * (option("optim", "class_weights") not in (None, "none"))
        others += ["logits adjusted to the frequencies of the classes"] * bool(option("optim", "logit_adjustment"))
        others += ["the teacher's part"] * bool(option("distill", "teacher"))
        included = others
        if option("model", "freeze") != "backbone":
            is_smoothed = bool(option("optim", "label_smoothing")) and not own_loss
            augment = options.get("augment") or {}
            kinds = [value for name, value in augment.items() if name not in ("name", "crop", "magnitude")]
            varies = augment.get("crop", 1.0) != 1.0 or any(kinds)
            included = ["augmentation"] * varies + ["label smoothing"] * is_smoothed + others
        kind = own_loss or ("asymmetric loss" if is_asymmetric else plain)
        with_what = f" with {' and '.join(included)}" if included else ""
        return cls(
            "loss" if is_asymmetric or own_loss or others else f"{plain} (nats)",
            f"The training loss is the {kind}{with_what}. The validation loss is the {plain} of the labels alone.",
        )


MOST_CLASSES = 1000  # rows of a table of classes
MOST_PICTURES = 24  # of the worst images, and of the least confident
EXPLAINED = 6  # right and wrong images with a map each


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
    def first_weights(self) -> str:
        return first_weights(self.config)

    @property
    def warnings(self) -> list[str]:
        """Sentences on measured images that the network knew, and on classes without test images, without full stop."""
        tested = self.result.tested_text
        about = [f"{tested}; accuracy and macro figures are about these"] if tested else []
        return [*(self.result.seen_before or ()), *about]


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


def first_weights(config: str) -> str:
    """What a training began with, from the text of its config.yaml."""
    source = (parse_yaml(config).get("model") or {}).get("init_from")
    return f"weights of {weights_name(source)}" if source else "random weights"
