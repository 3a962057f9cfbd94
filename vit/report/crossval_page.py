"""A cross-validation as one self-contained HTML page"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vit.inference.metrics import MOST_IN_CONFUSION, ClassMetrics, confusion, f1_order, per_class
from vit.report.figures import confusion_matrix
from vit.report.inline_figure import drawn
from vit.report.page import write_page
from vit.report.scripts import scripts
from vit.study.crossval import CrossvalResult
from vit.study.wording import Cell, in_words, percents

MOST_CLASSES = 1000
MOST_PAIRS = 40


@dataclass(frozen=True)
class CrossvalContent:
    """Everything that the template prints."""

    data: str
    network: str
    division: str
    folder: str
    judges: str
    seen_before: Sequence[str]
    num_right: int
    num_images: int
    num_classes: int
    num_groups: int | None
    accuracy: Cell
    naive: Cell
    last_weights_warning: str
    left_out_words: str
    unreadable: list[tuple[str, str]]
    folds: list[tuple[int, int, Cell, str]]
    classes: list[ClassMetrics]
    confusion: Markup | None
    pairs: list[tuple[str, str, int]]


def write_crossval_page(found: CrossvalResult, path: Path) -> None:
    """Write the page of a finished cross-validation."""
    predictions, accuracy, names = found.predictions, found.accuracy, found.predictions.class_names
    labels, guesses = predictions.labels, predictions.predictions
    wrong = ~predictions.correct
    pairs = Counter(zip(labels[wrong].tolist(), guesses[wrong].tolist(), strict=True)).most_common(MOST_PAIRS)
    is_readable = len(names) <= MOST_IN_CONFUSION
    rows = zip(accuracy.num_images, accuracy.folds, found.runs, strict=True)
    content = CrossvalContent(
        data=in_words(found.description["data"]),
        network=in_words(found.description["network"]),
        division=in_words(found.description["division"]),
        folder=path.parent.resolve().name,
        judges=found.judges,
        seen_before=found.seen_before,
        num_right=int(predictions.correct.sum()),
        num_images=len(labels),
        num_classes=len(names),
        num_groups=accuracy.num_groups,
        accuracy=percents(accuracy.accuracy),
        naive=percents(accuracy.naive),
        last_weights_warning=found.last_weights_warning,
        left_out_words=found.left_out_words,
        unreadable=list(found.left_out.items()),
        folds=[(number, count, percents(one), run.name) for number, (count, one, run) in enumerate(rows, 1)],
        classes=sorted(per_class(labels, guesses, names), key=f1_order)[:MOST_CLASSES],
        confusion=drawn(confusion_matrix(confusion(labels, guesses, len(names)), names)) if is_readable else None,
        pairs=[(names[label], names[guess], count) for (label, guess), count in pairs],
    )
    write_page(path, "crossval.html", {**vars(content), **scripts("table.js")})
