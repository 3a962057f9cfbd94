"""What `vit evaluate` writes and shows of a model that gives an image one class"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.commands.shown_answers import show_answers, show_measurement
from vit.console import Reporter
from vit.layout import EvaluationLayout

if TYPE_CHECKING:
    from vit.inference.metrics import Measurement
    from vit.inference.scored_images import ScoredImages
    from vit.report.evaluation_page import EvaluatedImages


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
        from vit.report.figures import confusion_matrix, reliability, save

        scored, counts = self.scored, self.measurement.confusion
        scored.write(files.predictions_path, self.class_names)
        if counts is not None:
            save(confusion_matrix(counts, self.class_names), files.confusion_matrix_path)
        save(reliability(scored.correct, scored.confidences, scored.uncalibrated), files.reliability_path)

    def write_page(self, files: EvaluationLayout, images: "EvaluatedImages") -> None:
        """Write the page of the evaluation."""
        from vit.report.evaluation_page import write_evaluation_page

        write_evaluation_page(files, images, self.measurement, self.scored, self.class_names)

    def show(self, reporter: Reporter) -> None:
        """Show all metrics on the terminal."""
        show_measurement(reporter, self.measurement, "")
        if self.measurement.answers is not None:
            show_answers(reporter, self.measurement.answers)
