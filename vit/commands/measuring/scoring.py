"""The scores of the images that `vit evaluate` measures, of one model or of several, and what it shows of them"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vit.commands.cli.arguments import in_points
from vit.console import Reporter, count_of, percent
from vit.data.core.batch import Batch
from vit.data.core.dataset_names import TableColumns
from vit.data.core.samples import Samples, Source
from vit.data.loading.loader import labeled_images
from vit.data.sources.csv_source import other_columns
from vit.inference.answers.selective import fewest_images
from vit.inference.engine import NoveltyOf, score
from vit.inference.files import TABLES
from vit.inference.metrics.measured_answers import MeasuredAnswers
from vit.inference.metrics.metrics import Measurement
from vit.inference.metrics.multilabel_metrics import MultilabelMeasurement
from vit.inference.metrics.weak_groups import FEWEST, ImageTraits, WeakGroups
from vit.inference.predictor import Predictor
from vit.inference.scores.image_groups import count_text, in_groups
from vit.inference.scores.intervals import Interval, Metric
from vit.inference.scores.scored_images import Scored, ScoredImages
from vit.study.statistics.paired import paired_gap

SHOWN_ROWS = 20  # of classes or labels
_NOT_GUARANTEED = "cannot be guaranteed"


def score_images(
    predictor: Predictor, part: str, samples: Samples, reporter: Reporter, traits: ImageTraits | None = None
) -> Scored:
    """The scores of images. Traits of those that this process scores are gathered, if they are asked for."""
    engine = predictor.engine
    images = f"{count_of(len(samples), 'image')} of {part}"
    reporter.notice(f"{images}, {engine.device.type}, {engine.precision}, {engine.name}")
    batches: Iterable[Batch] = labeled_images(samples, predictor.preprocess)
    novelty_of: NoveltyOf | None = None if predictor.novelty is None else predictor.novelty.of_features
    if traits is not None:
        batches = traits.watch(batches)
        novelty_of = novelty_of and traits.watch_features(novelty_of)
    return in_groups(score(engine, batches, novelty_of), samples)


def weak_groups_of(
    traits: ImageTraits | None, scored: Scored, samples: Samples, data: Path, columns: TableColumns, source: Source,
    class_names: Sequence[str],
) -> WeakGroups | None:  # fmt: skip
    """Groups of images with more errors than others, also by columns of a CSV; None: few images, several processes."""
    if traits is None or not isinstance(scored, ScoredImages) or traits.num_images != len(scored.paths):
        return None
    units = len(scored.paths) if scored.groups is None else len(set(scored.groups.tolist()))
    if units < FEWEST:
        return None
    table = data.expanduser()
    is_table = table.suffix.lower() in TABLES and table.is_file() and not source.is_one_hot
    return traits.find(scored, samples, other_columns(table, columns) if is_table else {}, class_names)


@dataclass(frozen=True)
class EnsembleFinding:
    """An ensemble beside its models."""

    accuracies: Mapping[str, float]  # accuracy of each model
    seconds: Mapping[str, float]  # seconds in which each scored the images
    best: str  # the model with the highest accuracy on these images, the first of equal ones
    gain: Interval  # accuracy of the ensemble minus that of `best`, with the paired 95 % interval over the images


def score_together(
    predictors: Mapping[str, Predictor], part: str, samples: Samples, reporter: Reporter
) -> tuple[ScoredImages, EnsembleFinding]:
    """The scores of an ensemble on images that all models read, and its gain over the best of these, in a table."""
    every, seconds = dict[str, ScoredImages](), dict[str, float]()
    class_names = next(iter(predictors.values())).class_names  # in whose order the labels of images are
    for name, predictor in predictors.items():
        began = time.perf_counter()
        scored = score_images(predictor, part, samples, reporter)
        assert isinstance(scored, ScoredImages)
        order = [predictor.class_names.index(one) for one in class_names]
        every[name] = replace(scored, probabilities=scored.probabilities[:, order])
        seconds[name] = time.perf_counter() - began
    bad = {path: reason for one in every.values() for path, reason in one.left_out.items()}
    every = {name: in_groups(one.without(bad), samples) for name, one in every.items()}
    first = next(iter(every.values()))
    mean = np.mean([one.probabilities for one in every.values()], axis=0)
    ensemble = replace(first, probabilities=mean, temperature=1.0)
    accuracies = {name: float(one.correct.mean()) for name, one in every.items()}
    best = max(accuracies, key=lambda name: accuracies[name])
    gain = paired_gap(ensemble.correct, every[best].correct, ensemble.groups)
    reporter.line()
    measured = [(name, accuracies[name], seconds[name]) for name in every]
    measured.append(("all, averaged", float(ensemble.correct.mean()), sum(seconds.values())))
    rows = [(name, percent(accuracy), f"{len(first.labels) / taken:,.1f}") for name, accuracy, taken in measured]
    reporter.table(("model", "accuracy", "images/s"), rows)
    gained = f"all minus the best one on these images, {best}: {in_points(gain)}"
    reporter.line(f"{gained}, paired 95 % interval over {'images' if ensemble.groups is None else 'groups'}")
    reporter.line()
    return ensemble, EnsembleFinding(accuracies, seconds, best, gain)


def show_measurement(reporter: Reporter, measurement: Measurement | MultilabelMeasurement) -> None:
    """Metrics with their intervals, the worst classes or labels, and what thresholds and prediction sets do."""
    reporter.line(f"{measurement.describe_images()}; 95 % intervals")
    reporter.facts([*measurement.metrics.facts(), *measurement.temperature_fact()])
    for sentence in measurement.warnings:
        reporter.line(f"WARNING: {sentence}")
    if isinstance(measurement, Measurement) and measurement.levels:
        reporter.line("\naccuracy by level of the class names")
        levels = [(level.text, _proportion(level.accuracy)) for level in reversed(measurement.levels)]
        reporter.table(("level", "accuracy"), levels)
    table = measurement.table(SHOWN_ROWS)
    reporter.line(f"\n{table.title}")
    reporter.table(table.columns, table.rows)
    if table.note:
        reporter.line(table.note)
    if measurement.answers is not None:
        show_answers(reporter, measurement.answers)


def show_answers(reporter: Reporter, answers: MeasuredAnswers) -> None:
    """What `vit predict --target_accuracy` and `--coverage` would do on these images."""
    known = count_text(answers.num_validation, answers.num_groups)
    reporter.line(f"\nlabels only where the model is sure; thresholds from {known} outside the training")
    if any(row.kept is not None for row in answers.thresholds):
        rows = []
        for row in answers.thresholds:
            lack = "no image is labeled" if row.keeps_none else _NOT_GUARANTEED
            rows.append((f"{row.target:g}", _proportion(row.kept), _proportion(row.accuracy, lack)))
        reporter.table(("--target_accuracy", "labeled", "accuracy of the labeled"), rows)
    else:
        least = min(row.target for row in answers.thresholds)
        few = (answers.num_groups or answers.num_validation) < (needed := fewest_images(least))
        units = "images" if answers.num_groups is None else "groups"
        why = f"at least {needed:,} {units} are needed" if few else "the network errs too often where it is surest"
        reporter.line(f"no --target_accuracy of {least:g} or more can be guaranteed: {why}")
    answered = [row for row in answers.thresholds if row.answered is not None]
    groups = [(f"{row.target:g}", _proportion(row.answered), _proportion(row.right, "no image")) for row in answered]
    if groups:
        reporter.line("\nthe label, or else the group of classes that is sure")
        reporter.table(("--target_accuracy", "answered", "accuracy of the answers"), groups)
    reporter.line("\nsets of labels")
    limited = [row for row in answers.sets if row.unlimited < len(row.by_class)]
    sets = [(f"{row.coverage:g}", row.method, _proportion(row.measured), f"{row.mean_size:.2f}") for row in limited]
    if sets:
        reporter.table(("--coverage", "--sets", "with the true label", "labels in a set"), sets)
    else:
        reporter.line(f"{_NOT_GUARANTEED} with so few: {known}")
    if answers.tells_unlike and answers.novelty is not None:
        unlike = _proportion(answers.novelty.unlike)
        reporter.line(f"\nunlike the training images: {unlike} of these images (at most 5 % of images like them)")


def _proportion(metric: Metric | None, lack: str = _NOT_GUARANTEED) -> str:
    return lack if metric is None else metric.text
