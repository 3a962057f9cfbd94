"""A run as one self-contained HTML page"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.samples import Labels, Source
from vit.data.split import SplitRow, groups_of, read_splits
from vit.errors import DataError
from vit.inference.image_groups import count_words, number_of, numbered
from vit.inference.intervals import Metric
from vit.inference.measured_answers import MeasuredAnswers
from vit.inference.metrics import MOST_IN_CONFUSION, confusion
from vit.inference.scored_rows import ScoredRow, read_scored
from vit.plain_files import read_json
from vit.report.answer_tables import UnsureContent, unsure_content
from vit.report.class_sizes import are_unequal, class_sizes, recall_by_size
from vit.report.confusion_images import MOST_IN_MATRIX, ConfusionContent, confusion_content
from vit.report.figures import confusion_matrix, reliability
from vit.report.inline_figure import drawn
from vit.report.multilabel_page import label_content
from vit.report.page import with_next_steps, write_page
from vit.report.run_common import EXPLAINED, MOST_CLASSES, MOST_PICTURES, CommonContent, common_content
from vit.report.run_pictures import Card, ExplainedCard, Pictures, changed_words, num_changed, pixels_of
from vit.report.run_summary import advice, result_lines, training_advice, training_lines
from vit.report.run_tables import (
    ClassRow,
    MetricRow,
    Tested,
    cell_of,
    class_rows,
    metric_rows,
)
from vit.report.scripts import scripts
from vit.study.wording import Cell


@dataclass(frozen=True)
class RunContent:
    """Everything that the template prints."""

    common: CommonContent
    split: str
    images: str
    num_right: int
    accuracy: Cell
    metrics: list[MetricRow]
    temperature: float
    fitted_on: str
    has_pictures: bool
    classes: list[ClassRow]
    recall_by_size: Markup | None
    num_classes: int
    confusion: Markup | None
    confusions: ConfusionContent
    summary: list[str]
    worst: list[Card]
    doubtful: list[Card]
    explained: list[tuple[str, list[ExplainedCard]]]
    reliability: Markup
    unsure: UnsureContent | None


def write_run_report(run: RunDirectory, source: Source | None, result: RunResult | None = None) -> int:
    """Write report.html into the folder of a finished run.

    Args:
        run: the run.
        source: the run's images. With None, or with images that the run was not measured on, the page has no pictures.
        result: the result where result.json is not written yet; None: read the file.

    Returns:
        The number of images that have no picture on the page because their files were replaced.

    Raises:
        UsageError: the run has not finished.
        DataError: one of its files is damaged.
    """
    result = result or run.finished_result()
    try:
        class_names: list[str] = read_json(run.class_names_path)["classes"]
        split, listed = result.measured_split, read_splits(run.splits_path)
        if result.multilabel is not None:
            labels = label_content(run, source, result, class_names, listed)
            content_of_page = {**vars(labels.common), **vars(labels), **scripts("table.js")}
            content_of_page["changed"] = changed_words(labels.num_changed)
            write_page(run.report_path, "run_labels.html", content_of_page)
            return labels.num_changed
        rows = read_scored(run.scored_path(split), result.num_images[split])
        pixels = pixels_of(run, source, split, [(row.path, row.label) for row in rows], listed)
        content = _content(result, class_names, rows, Pictures(run, rows, pixels), listed)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or train again") from error
    told = {**scripts("table.js", "copy.js"), "changed": changed_words(num_changed(pixels))}
    write_page(run.report_path, "run.html", {**vars(content.common), **vars(content), **told})
    return num_changed(pixels)


def _content(
    result: RunResult,
    class_names: Sequence[str],
    rows: Sequence[ScoredRow],
    pictures: Pictures,
    listed: Mapping[str, Sequence[SplitRow]],
) -> RunContent:
    run, split = pictures.run, result.measured_split
    tested = Tested.of(rows, class_names, numbered(groups_of([row.path for row in rows], listed.get(split, ()))))
    sizes = _training_images(listed["train"], class_names)
    num_right = int(tested.correct.sum())
    is_test = split == "test"
    groups = result.test_groups if is_test else number_of(tested.groups)
    accuracy = Metric(**result.metrics["acc1"]) if is_test else Metric.share(tested.correct, tested.groups)
    images = count_words(len(rows), groups, f"{split} image")
    images += " (which chose the checkpoint)" * (result.is_chosen and not is_test)
    classes = class_rows(tested, class_names, sizes)[:MOST_CLASSES]
    name = run.scored_path(split).relative_to(run.path).as_posix()
    confusions = confusion_content(tested, class_names, pictures, name, [row.number for row in classes])
    common = common_content(run, result)
    by_size = class_sizes(sizes, tested.labels, tested.correct, class_names, tested.groups)
    return RunContent(
        split=split,
        images=images,
        num_right=num_right,
        accuracy=cell_of(accuracy),
        metrics=metric_rows(result),
        temperature=result.temperature,
        fitted_on=result.fitted_on,
        has_pictures=pictures.pixels is not None,
        common=common,
        classes=classes,
        recall_by_size=drawn(recall_by_size(by_size)) if are_unequal(by_size) else None,
        num_classes=len(class_names),
        confusion=_confusion(tested, class_names),
        confusions=confusions,
        summary=_summary(result, common, (accuracy, num_right, images), advice(accuracy, classes, groups), confusions),
        worst=pictures.cards(tested.by_loss[:MOST_PICTURES]),
        doubtful=pictures.cards(tested.by_confidence()[:MOST_PICTURES]),
        explained=_explained(tested, pictures, class_names),
        reliability=drawn(reliability(tested.correct, tested.confidences, tested.uncalibrated)),
        unsure=_unsure(result, tested, class_names),
    )


def _summary(
    result: RunResult,
    common: CommonContent,
    measured: tuple[Metric, int, str],
    steps: Sequence[str],
    confusions: ConfusionContent,
) -> list[str]:
    lines = result_lines(f"{common.network} on {common.data}", *measured, confusions.cells)
    lines += [f"Warning: {sentence}" for sentence in common.warnings]
    lines += [*training_lines(result, common.first_weights), f"Run {common.folder}"]
    return with_next_steps(lines, [*training_advice(result, common.first_weights), *steps])


def _training_images(listed: Sequence[SplitRow], class_names: Sequence[str]) -> Labels:
    """(C,) number of training images of each class, from splits.csv."""
    counts = Counter(row.label for row in listed)
    return np.array([counts[name] for name in class_names], dtype=np.int64)


def _unsure(result: RunResult, tested: Tested, class_names: Sequence[str]) -> UnsureContent | None:
    if not result.answers:
        return None
    answers = MeasuredAnswers.from_dict(result.answers)
    return unsure_content(answers, tested, class_names)


def _confusion(tested: Tested, class_names: Sequence[str]) -> Markup | None:
    if not MOST_IN_MATRIX < len(class_names) <= MOST_IN_CONFUSION:
        return None  # a small one is a table
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
