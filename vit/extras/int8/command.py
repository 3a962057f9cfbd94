"""`vit export --precision int8`: calibrate, quantize, measure, and say what int8 costs"""

from pathlib import Path

from vit.console import ProgressReport, Reporter, count_of, interval
from vit.export.card import Int8Cost, MeasuredImages
from vit.export.format import Quantized
from vit.extras.int8.export import Int8Answers, export_int8
from vit.extras.int8.formats import format_of
from vit.extras.int8.images import calibration_images, labeled_samples, scorer
from vit.inference.deployment import LoadedModel
from vit.inference.scores.image_groups import number_of
from vit.inference.scores.intervals import Metric
from vit.study.statistics.paired import mcnemar, paired_gap


class Int8Export:
    """The `Quantizer` of --precision int8."""

    def check(self, format: str) -> None:
        format_of(format).check_int8_installed(format)

    def write(
        self,
        trained: LoadedModel,
        format: str,
        path: Path,
        model: Path,
        calibration: str | None,
        measure: str | None,
        reporter: Reporter,
    ) -> Quantized:
        preprocess = trained.description.preprocess
        samples, measured = labeled_samples(model, trained.description, measure, reporter)
        images = calibration_images(model, preprocess, calibration)
        reporter.notice(f"calibrating on {len(images):,} images, measuring on {len(samples):,} {measured.words}")
        with ProgressReport(reporter, "image calibrated") as progress:
            score, fitted_on = scorer(samples, preprocess), measured.split if measure is None else None
            answers = export_int8(trained, format, path, images, score, progress.update, fitted_on)
        cost = _cost(answers, measured)
        return Quantized(answers.description, cost, _facts(answers, cost), format_of(format).engine(path).probabilities)


def _cost(answers: Int8Answers, images: MeasuredImages) -> Int8Cost:
    """Both accuracies on the same images, and their paired difference with its interval."""
    gap = paired_gap(answers.reference, answers.correct, answers.groups)
    assert gap.low is not None
    assert gap.high is not None
    found, reference = (Metric.share(one, answers.groups) for one in (answers.correct, answers.reference))
    is_calibrated = answers.temperature not in (None, answers.before)
    loss = Metric(gap.value, gap.low, gap.high)
    return Int8Cost(images, len(answers.correct), found, reference, loss, is_calibrated, number_of(answers.groups))


def _facts(answers: Int8Answers, cost: Int8Cost) -> list[tuple[str, str]]:
    """What int8 costs on labeled images, for people."""
    table = mcnemar(answers.reference, answers.correct)
    points = [100 * value for value in (cost.loss.value, cost.loss.low, cost.loss.high)]
    right = "accuracy" if answers.micro_f1 is None else "exact match"
    facts = [
        ("calibrated on", f"{count_of(answers.num_calibrated, 'image')}"),
        ("measured on", f"{cost.measured_on}; 95 % intervals"),
        (f"{right}, checkpoint", interval(cost.reference.value, cost.reference.low, cost.reference.high)),
        (f"{right}, int8", interval(cost.accuracy.value, cost.accuracy.low, cost.accuracy.high)),
        (f"loss of {right}", "{:.2f} points ({:.2f} to {:.2f}), paired".format(*points)),
        ("images", f"{table.only_first:,} right before alone, {table.only_second:,} right in int8 alone"),
        ("labels", f"of {count_of(answers.num_labels, 'image')} differ, probabilities by up to {answers.largest:.2g}"),
    ]
    if answers.micro_f1 is not None:
        facts.append(("micro F1", "{:.3f} in the checkpoint, {:.3f} in int8".format(*answers.micro_f1)))
    if answers.temperature is not None:
        stays = f"stays {answers.before:.3f}: the images do not tell it from that of the checkpoint"
        fitted = f"{answers.temperature:.3f}, fitted on these images; {answers.before:.3f} in the checkpoint"
        facts.append(("temperature", stays if answers.temperature == answers.before else fitted))
    else:
        facts.append(("temperatures", "of all labels stay those of the checkpoint, and so do thresholds"))
    return facts
