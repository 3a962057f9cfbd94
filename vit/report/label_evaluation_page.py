"""The page of `vit evaluate` where an image may have several labels"""

from collections.abc import Sequence
from pathlib import Path

from vit.checkpoints.label_rules import LabelRules
from vit.inference.multilabel_metrics import MultilabelMeasurement, MultilabelMetrics
from vit.inference.scored_labels import ScoredLabels
from vit.layout import EvaluationLayout
from vit.report.evaluation_page import EvaluatedImages, pixels_of_scored
from vit.report.inline_figure import drawn
from vit.report.label_figures import label_reliability, precision_recall
from vit.report.label_mistakes import label_mistakes
from vit.report.multilabel_page import MOST_LABELS, interval_cell, judged_words, label_rows
from vit.report.page import write_page
from vit.report.run_common import MOST_PICTURES
from vit.report.run_pictures import Cards
from vit.report.run_tables import metric_row
from vit.report.scripts import scripts


def write_label_evaluation_page(
    files: EvaluationLayout,
    images: EvaluatedImages,
    measurement: MultilabelMeasurement,
    scored: ScoredLabels,
    rules: LabelRules,
    label_names: Sequence[str],
) -> None:
    """Write report.html into the folder of an evaluation."""
    metrics, before = measurement.metrics.to_dict(), measurement.uncalibrated.to_dict()
    mistakes = label_mistakes(scored, rules.thresholds, label_names)
    shown, pixels = mistakes[:MOST_PICTURES], pixels_of_scored(images, scored.paths)
    judged = scored.known.any(axis=1)
    content = {
        "model": Path(images.model).name,
        "network": images.network,
        "data": images.data,
        "split": images.split,
        "warning": images.seen.warning,
        "num_images": len(scored.paths),
        "num_labels": len(label_names),
        "num_exact": int(scored.exact(rules.thresholds)[judged].sum()),
        "judged": judged_words(scored),
        "exact_match": interval_cell(measurement.metrics.exact_match),
        "mean_ap": interval_cell(measurement.metrics.map),
        "metrics": [
            metric_row(title, name, metrics, before)
            for name, title in MultilabelMetrics.TITLES.items()
            if name in metrics
        ],
        "has_temperatures": any(value != 1 for value in measurement.temperatures),
        "has_pictures": True,
        "labels": label_rows(measurement.per_label, None, measurement.temperatures)[:MOST_LABELS],
        "figures": {
            "precision_recall": drawn(precision_recall(scored, measurement.per_label)),
            "reliability": drawn(label_reliability(scored)),
        },
        "mistakes": Cards(shown, lambda place: pixels(shown[place].index)).cards(range(len(shown))),
        "num_mistaken": len(mistakes),
        "unreadable": len(scored.left_out),
    }
    write_page(files.report_path, "label_evaluation.html", {**content, **scripts("table.js")})
