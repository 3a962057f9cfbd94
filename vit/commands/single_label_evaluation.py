"""What `vit evaluate` writes and shows of a model that gives an image one class"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.commands.shown_answers import show_answers
from vit.console import Reporter, interval, percent
from vit.layout import EvaluationLayout

if TYPE_CHECKING:
    from vit.inference.metrics import ClassMetrics, Measurement
    from vit.inference.scored_images import ScoredImages
    from vit.report.evaluation_page import EvaluatedImages

SHOWN_CLASSES = 20


@dataclass(frozen=True)
class MeasuredImages:
    """Measured images and their metrics.

    Attributes:
        scored: the images.
        measurement: all metrics.
        class_names: classes of the model.
    """

    scored: "ScoredImages"
    measurement: "Measurement"
    class_names: tuple[str, ...]

    def write(self, files: EvaluationLayout) -> None:
        """Write a row for every image, and figures."""
        from vit.inference.scored_rows import write_scored
        from vit.report.figures import confusion_matrix, reliability, save

        scored, counts = self.scored, self.measurement.confusion
        write_scored(files.predictions_path, scored, self.class_names)
        if counts is not None:
            save(confusion_matrix(counts, self.class_names), files.confusion_matrix_path)
        save(reliability(scored.correct, scored.confidences, scored.uncalibrated), files.reliability_path)

    def write_page(self, files: EvaluationLayout, images: "EvaluatedImages") -> None:
        """Write the page of the evaluation."""
        from vit.report.evaluation_page import write_evaluation_page

        write_evaluation_page(files, images, self.measurement, self.scored, self.class_names)

    def show(self, reporter: Reporter) -> None:
        """Show all metrics on the terminal."""
        from vit.inference.image_groups import count_words
        from vit.inference.metrics import f1_order

        measurement = self.measurement
        reporter.line(f"{count_words(measurement.num_images, measurement.num_groups)}; 95 % intervals")
        reporter.facts(_facts(measurement))
        measured = [row for row in measurement.per_class if row.num_images]
        worst = sorted(measured, key=f1_order)[:SHOWN_CLASSES]
        count = len(measured)
        lowest = f"\nthe {len(worst)} classes with the lowest F1 of {count}"
        reporter.line(lowest if count > len(worst) else "\nby class, lowest F1 first")
        reporter.table(("class", "images", "precision", "recall", "F1"), _class_rows(worst))
        if count < len(measurement.per_class):
            reporter.line(_absent_words(measurement.per_class))
        if measurement.answers is not None:
            show_answers(reporter, measurement.answers)


def _absent_words(rows: "Sequence[ClassMetrics]") -> str:
    """How many classes have no images, and how many of these lower the macro F1 as predictions that are all wrong."""
    absent = [row for row in rows if not row.num_images]
    predicted = sum(row.precision is not None for row in absent)
    words = f"{len(absent):,} of {len(rows):,} classes have no image here, and so no recall or F1"
    if not predicted:
        return words
    are, count = ("is", "counts") if predicted == 1 else ("are", "count")
    return f"{words}; {predicted:,} of them {are} predicted here, and {count} as 0 in the macro F1"


def _facts(measurement: "Measurement") -> list[tuple[str, str]]:
    from vit.inference.metrics import NAMES

    metrics, ece, nll = measurement.metrics, measurement.metrics.ece, measurement.metrics.nll
    words = {
        "acc1": interval(metrics.acc1.value, metrics.acc1.low, metrics.acc1.high),
        "ece": f"{percent(ece.value)} ({percent(ece.chance)} by chance, were it calibrated)",
        "nll": f"{nll.value:.4f} ({nll.low:.4f} to {nll.high:.4f})",
    }
    for name in ("acc5", "balanced_accuracy", "macro_f1"):
        metric = getattr(metrics, name)
        if metric is not None:
            words[name] = interval(metric.value, metric.low, metric.high)
    facts = [(name, words[key]) for key, name in NAMES.items() if key in words]
    if measurement.temperature != 1:
        before = measurement.uncalibrated
        without = f"calibration error {percent(before.ece.value)}, log-loss {before.nll.value:.4f}"
        facts.append(("temperature", f"{measurement.temperature:.3f}; without it {without}"))
    return facts


def _class_rows(rows: "Sequence[ClassMetrics]") -> list[tuple[str, int, str, str, str]]:
    def words(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    return [(row.class_name, row.num_images, words(row.precision), words(row.recall), words(row.f1)) for row in rows]
