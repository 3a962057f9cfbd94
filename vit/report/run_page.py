"""A run as one self-contained HTML page"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.samples import Labels, Source
from vit.data.split import read_splits
from vit.errors import DataError
from vit.inference.measured_answers import MeasuredAnswers
from vit.inference.metrics import MOST_IN_CONFUSION, confusion
from vit.inference.scored_rows import ScoredRow, read_scored
from vit.report.answer_tables import UnsureContent, unsure_content
from vit.report.class_sizes import class_sizes, recall_by_size
from vit.report.figures import confusion_matrix, reliability
from vit.report.inline_figure import drawn
from vit.report.multilabel_page import label_content
from vit.report.page import write_page
from vit.report.run_common import EXPLAINED, MOST_PICTURES, CommonContent, common_content
from vit.report.run_pictures import Card, ExplainedCard, Pictures, pixels_of
from vit.report.run_tables import (
    ClassRow,
    MetricRow,
    Tested,
    class_rows,
    metric_rows,
    mistakes,
    share,
)
from vit.study.wording import Cell

OF_A_PAIR = 6  # pictures of a frequent mistake
MOST_CLASSES = 60


@dataclass(frozen=True)
class Pair:
    """A frequent mistake with some of its images."""

    label: str
    predicted: str
    count: int
    total: int
    cards: list[Card]


@dataclass(frozen=True)
class RunContent:
    """Everything that the template prints."""

    common: CommonContent
    split: str
    num_images: int
    num_right: int
    accuracy: Cell
    metrics: list[MetricRow]
    temperature: float
    has_pictures: bool
    classes: list[ClassRow]
    recall_by_size: Markup
    num_classes: int
    confusion: Markup | None
    pairs: list[Pair]
    worst: list[Card]
    doubtful: list[Card]
    explained: list[tuple[str, list[ExplainedCard]]]
    reliability: Markup
    unsure: UnsureContent | None


def write_run_report(run: RunDirectory, source: Source | None, result: RunResult | None = None) -> None:
    """Write report.html into the folder of a finished run.

    Args:
        run: the run.
        source: the run's images. With None, or with images that the run was not measured on, the page has no pictures.
        result: the result where result.json is not written yet; None: read the file.

    Raises:
        UsageError: the run has not finished.
        DataError: one of its files is damaged.
    """
    result = result or run.finished_result()
    try:
        class_names: list[str] = json.loads(run.class_names_path.read_text(encoding="utf-8"))["classes"]
        split = "test" if "test" in result.num_images else "validation"
        if result.multilabel is not None:
            labels = label_content(run, source, result, class_names, split)
            write_page(run.report_path, "run_labels.html", {**vars(labels.common), **vars(labels)})
            return
        rows = read_scored(run.scored_path(split), result.num_images[split])
        pictures = Pictures(run, rows, pixels_of(run, source, split, [(row.path, row.label) for row in rows]))
        content = _content(result, class_names, split, rows, pictures)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or train again") from error
    write_page(run.report_path, "run.html", {**vars(content.common), **vars(content)})


def _content(
    result: RunResult, class_names: Sequence[str], split: str, rows: Sequence[ScoredRow], pictures: Pictures
) -> RunContent:
    run, tested = pictures.run, Tested.of(rows, class_names)
    sizes = _training_images(run, class_names)
    num_right = int(tested.correct.sum())
    return RunContent(
        split=split,
        num_images=len(rows),
        num_right=num_right,
        accuracy=share(num_right, len(rows)),
        metrics=metric_rows(result),
        temperature=result.temperature,
        has_pictures=pictures.pixels is not None,
        common=common_content(run, result),
        classes=class_rows(tested, class_names, sizes)[:MOST_CLASSES],
        recall_by_size=drawn(recall_by_size(class_sizes(sizes, tested.labels, tested.correct, class_names))),
        num_classes=len(class_names),
        confusion=_confusion(tested, class_names),
        pairs=[
            Pair(
                class_names[one.label],
                class_names[one.predicted],
                len(one.indices),
                one.total,
                pictures.cards(one.indices[:OF_A_PAIR]),
            )
            for one in mistakes(tested)
        ],
        worst=pictures.cards(tested.by_loss[:MOST_PICTURES]),
        doubtful=pictures.cards(tested.by_confidence()[:MOST_PICTURES]),
        explained=_explained(tested, pictures, class_names),
        reliability=drawn(reliability(tested.correct, tested.confidences, tested.uncalibrated)),
        unsure=_unsure(result, tested, class_names),
    )


def _training_images(run: RunDirectory, class_names: Sequence[str]) -> Labels:
    """(C,) number of training images of each class, from splits.csv."""
    counts = Counter(row.label for row in read_splits(run.splits_path)["train"])
    return np.array([counts[name] for name in class_names], dtype=np.int64)


def _unsure(result: RunResult, tested: Tested, class_names: Sequence[str]) -> UnsureContent | None:
    if not result.answers:
        return None
    answers = MeasuredAnswers.from_dict(result.answers)
    return unsure_content(answers, tested.correct, tested.confidences, class_names)


def _confusion(tested: Tested, class_names: Sequence[str]) -> Markup | None:
    if len(class_names) > MOST_IN_CONFUSION:
        return None
    return drawn(confusion_matrix(confusion(tested.labels, tested.predictions, len(class_names)), class_names))


def _explained(tested: Tested, pictures: Pictures, class_names: Sequence[str]) -> list[tuple[str, list[ExplainedCard]]]:
    right = [index for index in tested.by_confidence(descending=True) if tested.correct[index]]
    wrong = [index for index in tested.by_loss if not tested.correct[index]]

    def predicted(indices: Sequence[int]) -> list[str]:
        return [class_names[tested.predictions[index]] for index in indices]

    return [
        ("right and confident", pictures.explained(right[:EXPLAINED], predicted(right[:EXPLAINED]))),
        ("wrong and confident", pictures.explained(wrong[:EXPLAINED], predicted(wrong[:EXPLAINED]))),
    ]
