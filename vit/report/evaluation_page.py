"""The page of `vit evaluate`: metrics, classes, confusions with their images, and the most confident errors"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from torch import Tensor

from vit.data.dataset import image_of
from vit.data.image_bytes import ImageError
from vit.data.preprocess import Preprocess
from vit.data.samples import Samples
from vit.inference.image_groups import count_words
from vit.inference.metrics import MOST_IN_CONFUSION, Measurement, Metrics
from vit.inference.scored_images import ScoredImages
from vit.layout import EvaluationLayout
from vit.report.answer_tables import UnsureContent, unsure_content
from vit.report.confusion_images import MOST_IN_MATRIX, ConfusionContent, confusion_content
from vit.report.figures import confusion_matrix, reliability
from vit.report.inline_figure import drawn
from vit.report.page import with_next_steps, write_page
from vit.report.run_common import MOST_CLASSES, MOST_PICTURES
from vit.report.run_pictures import Card, Cards, Pixels
from vit.report.run_summary import advice, result_lines
from vit.report.run_tables import ClassRow, MetricRow, Tested, cell_of, class_rows, metric_row
from vit.report.scripts import scripts
from vit.study.wording import Cell
from vit.training.run_images import SeenImages


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
    """

    model: str
    network: str
    data: str
    split: str
    samples: Samples
    preprocess: Preprocess
    seen: SeenImages
    fitted_on: str


@dataclass(frozen=True)
class EvaluationContent:
    """Everything that the template prints."""

    model: str
    network: str
    data: str
    split: str
    left_out: dict[str, int]
    warning: str
    images: str
    num_right: int
    num_classes: int
    accuracy: Cell
    metrics: list[MetricRow]
    temperature: float
    fitted_on: str
    has_pictures: bool
    classes: list[ClassRow]
    absent: list[str]
    confusion: Markup | None
    confusions: ConfusionContent
    worst: list[Card]
    doubtful: list[Card]
    reliability: Markup
    unsure: UnsureContent | None
    unreadable: list[tuple[str, str]]
    summary: list[str]


def write_evaluation_page(
    files: EvaluationLayout,
    images: EvaluatedImages,
    measurement: Measurement,
    scored: ScoredImages,
    class_names: Sequence[str],
) -> None:
    """Write report.html into the folder of an evaluation."""
    rows = scored.rows(class_names)
    tested = Tested.of(rows, class_names, scored.groups)
    pictures = Cards(rows, pixels_of_scored(images, scored.paths))
    classes = class_rows(tested, class_names)
    measured = [row for row in classes if row.num_images or row.false_alarms][:MOST_CLASSES]
    confusions = confusion_content(
        tested, class_names, pictures, files.predictions_path.name, [row.number for row in measured]
    )
    num_right, accuracy = int(tested.correct.sum()), measurement.metrics.acc1
    counted_images = count_words(len(rows), measurement.num_groups)
    after, before = measurement.metrics.to_dict(), measurement.uncalibrated.to_dict()
    small = len(class_names) <= MOST_IN_MATRIX or len(class_names) > MOST_IN_CONFUSION
    answers = measurement.answers
    content = EvaluationContent(
        model=Path(images.model).name,
        network=images.network,
        data=images.data,
        split=images.split,
        left_out={name: count for name, count in images.seen.left_out.items() if count},
        warning=images.seen.warning,
        images=counted_images,
        num_right=num_right,
        num_classes=len(class_names),
        accuracy=cell_of(accuracy),
        metrics=[metric_row(title, name, after, before) for name, title in Metrics.TITLES.items() if name in after],
        temperature=measurement.temperature,
        fitted_on=images.fitted_on,
        has_pictures=True,
        classes=measured,
        absent=[row.name for row in classes if not row.num_images],
        confusion=None if small or measurement.confusion is None
        else drawn(confusion_matrix(measurement.confusion, class_names)),
        confusions=confusions,
        worst=pictures.cards(tested.by_loss[:MOST_PICTURES]),
        doubtful=pictures.cards(tested.by_confidence()[:MOST_PICTURES]),
        reliability=drawn(reliability(tested.correct, tested.confidences, tested.uncalibrated)),
        unsure=None if answers is None else unsure_content(answers, tested, class_names),
        unreadable=list(scored.left_out.items()),
        summary=_summary(images, measurement, num_right, confusions, measured),
    )  # fmt: skip
    write_page(files.report_path, "evaluation.html", {**vars(content), **scripts("table.js", "copy.js")})


def _summary(
    images: EvaluatedImages,
    measurement: Measurement,
    num_right: int,
    confusions: ConfusionContent,
    classes: Sequence[ClassRow],
) -> list[str]:
    kind = "image" if images.split == "all" else f"{images.split} image"
    measured, accuracy = count_words(measurement.num_images, measurement.num_groups, kind), measurement.metrics.acc1
    lines = result_lines(f"{images.network} on {images.data}", accuracy, num_right, measured, confusions.cells)
    if images.seen.warning:
        lines.append(f"Warning: {images.seen.warning}")
    return with_next_steps(lines, advice(accuracy, classes, measurement.num_groups))


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
