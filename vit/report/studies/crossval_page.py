"""A cross-validation as one self-contained HTML page"""

from collections import Counter
from pathlib import Path

from vit.inference.metrics.metrics import MOST_IN_CONFUSION, confusion, f1_order, per_class
from vit.report.page.figures import confusion_matrix
from vit.report.page.page import scripts, write_page
from vit.report.page.style import drawn
from vit.study.answer.wording import percents, value_text
from vit.study.crossval import CrossvalResult

MOST_CLASSES = 1000
MOST_PAIRS = 40


def write_crossval_page(found: CrossvalResult, path: Path) -> None:
    """Write the page of a finished cross-validation."""
    predictions, accuracy, names = found.predictions, found.accuracy, found.predictions.class_names
    labels, guesses = predictions.labels, predictions.predictions
    wrong = ~predictions.correct
    pairs = Counter(zip(labels[wrong].tolist(), guesses[wrong].tolist(), strict=True)).most_common(MOST_PAIRS)
    is_readable = len(names) <= MOST_IN_CONFUSION
    rows = zip(accuracy.num_images, accuracy.folds, found.runs, strict=True)
    content = {
        "data": value_text(found.description["data"]),
        "network": value_text(found.description["network"]),
        "division": value_text(found.description["division"]),
        "folder": path.parent.resolve().name,
        "found": found,
        "num_right": int(predictions.correct.sum()),
        "num_images": len(labels),
        "num_classes": len(names),
        "num_groups": accuracy.num_groups,
        "accuracy": percents(accuracy.accuracy),
        "naive": percents(accuracy.naive),
        "unreadable": list(found.left_out.items()),
        "folds": [(number, count, percents(one), run.name) for number, (count, one, run) in enumerate(rows, 1)],
        "classes": sorted(per_class(labels, guesses, names), key=lambda row: f1_order(row.f1))[:MOST_CLASSES],
        "confusion": drawn(confusion_matrix(confusion(labels, guesses, len(names)), names)) if is_readable else None,
        "pairs": [(names[label], names[guess], count) for (label, guess), count in pairs],
        **scripts("table.js"),
    }
    write_page(path, "crossval.html", content)
