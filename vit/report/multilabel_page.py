"""The content of a run's page where an image may have several labels"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.samples import Labels, Source
from vit.data.split import SplitRow, groups_of
from vit.inference.image_groups import count_words, number_of, numbered
from vit.inference.intervals import Metric
from vit.inference.multilabel_metrics import LabelMetrics, MultilabelMetrics
from vit.inference.scored_labels import ScoredLabels, read_scored_labels
from vit.report.inline_figure import drawn
from vit.report.label_mistakes import NotedLabel, label_mistakes, sure_labels
from vit.report.label_run_figures import LabelResults, rules_of
from vit.report.run_common import EXPLAINED, MOST_PICTURES, CommonContent, common_content
from vit.report.run_pictures import Card, ExplainedCard, Pictures, Pixels, num_changed, pixels_of
from vit.report.run_tables import MetricRow, metric_row
from vit.study.wording import Cell
from vit.tasks.label_text import PRESENT, label_text, parse_labels

MOST_LABELS = 1000


@dataclass(frozen=True)
class LabelRow:
    """A label: its images, how well they are found, and its rule."""

    name: str
    training_images: int | None
    num_known: int
    num_positives: int
    ap: Cell
    threshold: float
    precision: float | None
    recall: float | None
    f1: float | None
    ece: str
    temperature: float


@dataclass(frozen=True)
class LabelContent:
    """Everything that the template prints beside the common parts.

    Attributes:
        split: split of the measured images.
        fitted_split: split that chose temperatures and thresholds.
        is_fitted: whether these are the measured images. No metric that depends on the rules is then shown.
        is_chosen: whether the validation images chose the best checkpoint.
    """

    common: CommonContent
    split: str
    fitted_split: str | None
    is_fitted: bool
    is_chosen: bool
    num_images: int
    num_labels: int
    num_exact: int
    judged: str
    exact_match: Cell
    mean_ap: Cell
    metrics: list[MetricRow]
    has_temperatures: bool
    has_pictures: bool
    labels: list[LabelRow]
    figures: dict[str, Markup]
    mistakes: list[Card]
    num_mistaken: int
    explained: list[tuple[str, list[ExplainedCard]]]
    num_changed: int = 0


def label_content(
    run: RunDirectory,
    source: Source | None,
    result: RunResult,
    label_names: Sequence[str],
    listed: Mapping[str, Sequence[SplitRow]],
) -> LabelContent:
    """The content of the page of a finished run.

    Args:
        source: the run's images; see `write_run_report`.
        listed: the rows of the run's `splits.csv`.
    """
    rules, split = rules_of(result), result.measured_split
    temperatures = rules.temperatures.tolist()
    scored = read_scored_labels(run.scored_path(split), label_names, result.num_images[split], temperatures)
    scored = replace(scored, groups=numbered(groups_of(scored.paths, listed.get(split, ()))))
    found = LabelResults.of(scored, result, label_names)
    texts = [label_text(row, label_names) for row in scored.labels]
    pixels = pixels_of(run, source, split, list(zip(scored.paths, texts, strict=True)), listed)
    metrics, before = found.measurement.metrics, found.measurement.uncalibrated
    sizes = _training_images(listed["train"], label_names)
    values, others = metrics.to_dict(), before.to_dict()
    mistakes = label_mistakes(scored, rules.thresholds, label_names)
    sure = sure_labels(scored, rules.thresholds, label_names)
    judged = scored.known.any(axis=1)
    content = LabelContent(
        common=common_content(run, result),
        split=split,
        fitted_split=result.fitted_split,
        is_fitted=found.is_fitted,
        is_chosen=result.is_chosen,
        num_images=len(scored.paths),
        num_labels=len(label_names),
        num_exact=int(scored.exact(rules.thresholds)[judged].sum()),
        judged=judged_words(scored, f"{split} image"),
        exact_match=interval_cell(metrics.exact_match),
        mean_ap=interval_cell(metrics.map),
        metrics=[
            metric_row(title, name, values, others)
            for name, title in MultilabelMetrics.TITLES.items()
            if name in values
        ],
        has_temperatures=any(value != 1 for value in temperatures),
        has_pictures=pixels is not None,
        labels=label_rows(found.per_label, sizes, temperatures)[:MOST_LABELS],
        figures={name: drawn(figure) for name, figure in found.figures(sizes).items()},
        mistakes=_pictures(run, mistakes[:MOST_PICTURES], pixels).cards(range(len(mistakes[:MOST_PICTURES]))),
        num_mistaken=len(mistakes),
        explained=[
            ("rightly given and sure", _explained(run, sure[:EXPLAINED], pixels)),
            ("wrong and sure", _explained(run, mistakes[:EXPLAINED], pixels)),
        ],
    )
    return replace(content, num_changed=num_changed(pixels))


def judged_words(scored: ScoredLabels, kind: str = "image") -> str:
    """How many images have a known label, and of how many groups these are."""
    judged = scored.known.any(axis=1)
    groups = None if scored.groups is None else scored.groups[judged]
    return count_words(int(judged.sum()), number_of(groups), kind)


def _training_images(listed: Sequence[SplitRow], label_names: Sequence[str]) -> Labels:
    """(K,) number of training images with each label, from splits.csv."""
    counts: Counter[str] = Counter()
    for row in listed:
        counts.update(name for name, value in parse_labels(row.label).items() if value == PRESENT)
    return np.array([counts[name] for name in label_names], dtype=np.int64)


def label_rows(rows: Sequence[LabelMetrics], sizes: Labels | None, temperatures: Sequence[float]) -> list[LabelRow]:
    """A row for each label, lowest average precision first; labels that no image has at the top.

    Args:
        sizes: (K,) number of training images with each label; None if not known.
    """
    order = sorted(range(len(rows)), key=lambda k: _value(rows[k].ap))
    return [
        LabelRow(
            name=rows[k].label,
            training_images=None if sizes is None else int(sizes[k]),
            num_known=rows[k].num_known,
            num_positives=rows[k].num_positives,
            ap=interval_cell(rows[k].ap),
            threshold=rows[k].threshold,
            precision=rows[k].precision,
            recall=rows[k].recall,
            f1=rows[k].f1,
            ece=_ece(rows[k]),
            temperature=temperatures[k],
        )
        for k in order
    ]


def _value(metric: Metric | None) -> float:
    return -1.0 if metric is None else metric.value


def interval_cell(metric: Metric | None) -> Cell:
    """A metric in percent, and its interval."""
    if metric is None:
        return "", ""
    return f"{100 * metric.value:.2f}", f"{100 * metric.low:.2f} to {100 * metric.high:.2f}"


def _ece(row: LabelMetrics) -> str:
    return "" if row.ece is None else f"{100 * row.ece.value:.2f}"


def _pictures(run: RunDirectory, noted: Sequence[NotedLabel], pixels: Pixels | None) -> Pictures:
    return Pictures(run, noted, None if pixels is None else lambda place: pixels(noted[place].index))


def _explained(run: RunDirectory, noted: Sequence[NotedLabel], pixels: Pixels | None) -> list[ExplainedCard]:
    return _pictures(run, noted, pixels).explained(range(len(noted)), [one.label for one in noted])
