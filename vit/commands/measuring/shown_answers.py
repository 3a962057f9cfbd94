"""What `vit evaluate` shows: metrics, classes or labels, and what thresholds and prediction sets do"""

from typing import TYPE_CHECKING

from vit.console import Reporter, interval

if TYPE_CHECKING:
    from vit.inference.metrics.measured_answers import MeasuredAnswers, MeasuredThreshold
    from vit.inference.metrics.metrics import Measurement
    from vit.inference.metrics.multilabel_metrics import MultilabelMeasurement
    from vit.inference.scores.intervals import Metric

SHOWN_ROWS = 20  # of classes or labels


def show_measurement(reporter: Reporter, measurement: "Measurement | MultilabelMeasurement") -> None:
    """Metrics with their intervals, the worst classes or labels, and what thresholds and prediction sets do."""
    from vit.inference.metrics import metrics

    reporter.line(f"{measurement.describe_images()}; 95 % intervals")
    reporter.facts([*measurement.metrics.facts(), *measurement.temperature_fact()])
    if isinstance(measurement, metrics.Measurement) and measurement.levels:
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


def show_answers(reporter: Reporter, answers: "MeasuredAnswers") -> None:
    """What `vit predict --target_accuracy` and `--coverage` would do on these images."""
    from vit.inference.answers.selective import fewest_images
    from vit.inference.scores.image_groups import count_text

    known = count_text(answers.num_validation, answers.num_groups)
    reporter.line(f"\nlabels only where the model is sure; thresholds from {known} that were not trained on")
    if any(row.kept is not None for row in answers.thresholds):
        reporter.table(
            ("--target_accuracy", "labeled", "accuracy of the labeled"),
            [(f"{row.target:g}", _proportion(row.kept), _accuracy(row)) for row in answers.thresholds],
        )
    else:
        least = min(row.target for row in answers.thresholds)
        few = (answers.num_groups or answers.num_validation) < (needed := fewest_images(least))
        units = "images" if answers.num_groups is None else "groups"
        why = f"at least {needed:,} {units} are needed" if few else "the network errs too often where it is surest"
        reporter.line(f"no --target_accuracy of {least:g} or more can be guaranteed: {why}")
    groups = [
        (f"{row.target:g}", _proportion(row.answered), _proportion(row.right) if row.right else "no image")
        for row in answers.thresholds
        if row.answered is not None
    ]
    if groups:
        reporter.line("\nthe label, or else the group of classes that is sure")
        reporter.table(("--target_accuracy", "answered", "accuracy of the answers"), groups)
    reporter.line("\nsets of labels")
    sets = [
        (f"{row.coverage:g}", row.method, _proportion(row.measured), f"{row.mean_size:.2f}")
        for row in answers.sets
        if row.unlimited < len(row.by_class)
    ]
    if sets:
        reporter.table(("--coverage", "--sets", "with the true label", "labels in a set"), sets)
    else:
        reporter.line(f"cannot be guaranteed: {known} are too few")
    if answers.novelty is not None:
        unlike = _proportion(answers.novelty.unlike)
        reporter.line(f"\nunlike the training images: {unlike} of these images (at most 5 % of images like them)")


def _accuracy(row: "MeasuredThreshold") -> str:
    """The accuracy of the images with a label. None has one where the least probability is above all of them."""
    return "no image is labeled" if row.keeps_none else _proportion(row.accuracy)


def _proportion(found: "Metric | None") -> str:
    return "cannot be guaranteed" if found is None else interval(found.value, found.low, found.high)
