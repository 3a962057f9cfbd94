"""Parts of the pages of a run and of an evaluation that are equal for both tasks"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.model_path import weights_name
from vit.checkpoints.result import RunResult, rule_words
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
from vit.report.tables.loss_text import LossText
from vit.report.tables.run_tables import facts
from vit.tasks.task import Task, task_with
from vit.training.running.run_images import SeenImages

MOST_CLASSES = 1000  # rows of a table of classes
MOST_PICTURES = 24  # of the worst images, and of the least confident
EXPLAINED = 6  # right and wrong images with a map each


@dataclass(frozen=True)
class CommonContent:
    """What the templates of both pages print.

    Attributes:
        warnings: sentences about measured images that the network knew already, and about classes without test images,
            without a full stop.
    """

    network: str
    data: str
    folder: str
    first_weights: str
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
    """A finished run whose page is made.

    Attributes:
        listed: the rows of the run's `splits.csv`.
        source: the run's images; see `write_run_report`.
    """

    run: RunDirectory
    result: RunResult
    common: CommonContent
    class_names: Sequence[str]
    listed: Mapping[str, Sequence[SplitRow]]
    source: Source | None


@dataclass(frozen=True)
class EvaluatedImages:
    """The images of an evaluation, and what is said about them.

    Attributes:
        model: the model as the user named it.
        network: name of its network.
        data: name of the data set.
        split: split of the data set; "all": the data set has no splits.
        samples: the images, of which those that could not be read are not among the scored ones.
        preprocess: the preprocessing of the model: pictures are read with its channels and its window.
        seen: how many images of the training were left out, or are among the measured ones.
        fitted_on: images that temperature and thresholds are fitted to, in words.
        class_names: classes or labels of the model.
        rules: rules of its labels; None: one class for an image.
        weak: groups of images with more errors than others; None: not looked for.
    """

    model: str
    network: str
    data: str
    split: str
    samples: Samples
    preprocess: Preprocess
    seen: SeenImages
    fitted_on: str
    class_names: Sequence[str]
    rules: LabelRules | None
    weak: WeakGroups | None = None

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
            *([f"{result.tested_words}; accuracy and macro figures are about these"] if result.tested_words else ()),
        ],
        curves=drawn(curves(run.metrics_path, result.best_epoch, result.validation_name, losses.axis)),
        loss_text=losses.caption,
        validation_name=result.validation_name,
        best_epoch=result.best_epoch + 1,
        best_rule=rule_words(result.best_metric),
        facts=facts(result),
        config_name=run.config_path.name,
        config=config.splitlines(),
    )


def first_weights(config: str) -> str:
    """What a training began with, from the text of its config.yaml."""
    source = (parse_yaml(config).get("model") or {}).get("init_from")
    return f"weights of {weights_name(source)}" if source else "random weights"
