"""`vit export --precision int8`: calibrate, quantize, measure, and say what int8 costs

int8 changes probabilities by far more than a rounding error. So the rule of other exports cannot hold. The file is
judged by what matters: the labels of images, from the bytes of their files, beside the checkpoint's on the same images.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vit.checkpoints.format import Description
from vit.checkpoints.validation_scores import ValidationScores
from vit.console import ProgressReport, Reporter, count_of, percent
from vit.data.core.samples import Labels
from vit.data.loading.loader import labeled_images
from vit.errors import CheckpointError, DataError
from vit.export.card import Int8Cost
from vit.export.exporting import new_output
from vit.export.format import Progress, Quantized
from vit.extras.int8.formats import installed_format
from vit.extras.int8.images import calibration_images, labeled_samples
from vit.inference.answers.calibration import fit_temperature
from vit.inference.deployment import LoadedModel
from vit.inference.engine import Classifies, score, trained_engine
from vit.inference.scores.image_groups import in_groups, number_of
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import Scored, ScoredImages, ScoredLabels
from vit.study.statistics.paired import mcnemar, paired_gap
from vit.tasks.label_text import PRESENT

MAX_LOSS = 0.05  # of the accuracy, and of the micro F1 of several labels; a file that loses more is not kept
Measure = Callable[[Classifies], Scored]  # scores the same labeled images at every call


def write(
    trained: LoadedModel,
    format: str,
    path: Path,
    model: Path,
    calibration: str | None,
    measure: str | None,
    reporter: Reporter,
) -> Quantized:
    """Write a network in int8 to a new file or folder, and measure it on labeled images; errors as of `export_int8`.

    Args:
        model: run folder or checkpoint of the network.
        calibration: images that give the ranges of activations; None: training images of the run.
        measure: DATA with labels; None: images of the run.
    """
    preprocess = trained.description.preprocess
    samples, measured = labeled_samples(model, trained.description, measure, reporter)
    images = calibration_images(model, preprocess, calibration)
    reporter.notice(f"calibrating on {len(images):,} images, measuring on {len(samples):,} {measured.words}")

    def scored(engine: Classifies) -> Scored:
        return in_groups(score(engine, labeled_images(samples, preprocess)), samples)

    with ProgressReport(reporter, "image calibrated") as progress:
        fitted_on = measured.split if measure is None else None
        answers = export_int8(trained, format, path, images, scored, progress.update, fitted_on)
    gap = paired_gap(answers.reference, answers.correct, answers.groups)
    cost = Int8Cost(
        measured,
        len(answers.correct),
        Metric.share(answers.correct, answers.groups),
        Metric.share(answers.reference, answers.groups),
        gap,
        answers.temperature not in (None, answers.before),
        number_of(answers.groups),
    )
    engine = installed_format(format).engine(path)
    return Quantized(answers.description, cost, _facts(answers, cost), engine.probabilities)


@dataclass(frozen=True)
class Int8Answers:
    """What a file of int8 and its checkpoint answer on the same labeled images."""

    num_calibrated: int  # number of images that gave the ranges of the activations
    correct: npt.NDArray[np.bool_]  # (n,) whether the file is right; of several labels, whether all are
    reference: npt.NDArray[np.bool_]  # (n,) whether the checkpoint is right
    num_labels: int  # number of images to which both give different labels
    largest: float  # largest difference of a probability
    before: float  # temperature of the checkpoint
    description: Description  # what the file says about itself
    # (n,) number of each image's group, as of `image_groups.numbered`; None: all images are independent
    groups: Labels | None = None
    # micro F1 of the checkpoint and of the file, of several labels; None with one class for an image
    micro_f1: tuple[float, float] | None = None

    @property
    def temperature(self) -> float | None:
        """Temperature of the file; None with several labels, which keep the checkpoint's."""
        return self.description.temperature if self.description.multilabel is None else None

    @property
    def loss(self) -> float:
        """Accuracy of the checkpoint minus accuracy of the file; of several labels the loss of micro F1 if larger.

        Of many labels all are seldom right, so that a file could lose nearly everything and no exact match.
        """
        before, after = self.micro_f1 or (0.0, 0.0)
        return max(float(self.reference.mean() - self.correct.mean()), before - after)


def _facts(answers: Int8Answers, cost: Int8Cost) -> list[tuple[str, str]]:
    table = mcnemar(answers.reference, answers.correct)
    points = [100 * value for value in (cost.loss.value, cost.loss.low, cost.loss.high)]
    right = "accuracy" if answers.micro_f1 is None else "exact match"
    facts = [
        ("calibrated on", f"{count_of(answers.num_calibrated, 'image')}"),
        ("measured on", f"{cost.measured_on}; 95 % intervals"),
        (f"{right}, checkpoint", cost.reference.text),
        (f"{right}, int8", cost.accuracy.text),
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


def export_int8(
    trained: LoadedModel,
    name: str,
    output: Path,
    images: Tensor,
    measure: Measure,
    progress: Progress,
    fitted_on: str | None = None,
) -> Int8Answers:
    """Export a network in int8. The temperature changes where the measured images tell it from the checkpoint's.

    Args:
        name: name of the format, of `formats.FORMATS`.
        images: (n, C, S, S) uint8 whose activations give the ranges: training images, prepared as in `vit predict`.
        measure: scores labeled images that were not trained on.
        progress: called with (done, total) images of the calibration.
        fitted_on: split of the labeled images, where they are those of the run that fit its temperature. The file then
            keeps their scores for thresholds and prediction sets. None: it has none, because those of the checkpoint
            are of another network.

    Raises:
        UsageError: as for `export`, or the format does not hold int8.
        DataError: there are no images.
        CheckpointError: the file loses more than `MAX_LOSS` of the accuracy, or gives NaN. It is removed.
        ResourceError: the output cannot be written.
    """
    int8_format = installed_format(name)
    if not len(images):
        raise DataError("there are no images to calibrate int8 on", "give --calibration other images")
    with new_output(name, output) as written:
        expected = measure(trained_engine(trained, torch.device("cpu"), "32-true"))
        # without numbers that were measured with the float32 network
        exported = replace(trained, description=replace(trained.description, validation_scores=None, metrics={}))
        int8_format.write_int8(exported, written, images, progress)
        scored = measure(int8_format.engine(written))
        factor = _temperature_factor(scored)
        if factor != 1.0:
            temperature = exported.description.temperature * factor
            exported = replace(exported, description=replace(exported.description, temperature=temperature))
            int8_format.describe(exported, written, factor)
            scored = measure(int8_format.engine(written))
        if fitted_on is not None and isinstance(scored, ScoredImages):
            names = exported.description.class_names
            scores = ValidationScores.of(scored.labels, scored.probabilities, scored.groups, fitted_on, names)
            exported = replace(exported, description=replace(exported.description, validation_scores=scores))
            int8_format.describe(exported, written)
        answers = _answers(expected, scored, trained.description, exported.description, len(images))
        if not answers.loss <= MAX_LOSS:
            f1 = " (micro F1 {1:.3f} and {0:.3f})".format(*answers.micro_f1) if answers.micro_f1 else ""
            raise CheckpointError(
                f"int8 answers {percent(float(answers.correct.mean()))} of {len(answers.correct):,} images right, and "
                f"the checkpoint {percent(float(answers.reference.mean()))}{f1}; at most {100 * MAX_LOSS:g} points may "
                "be lost; nothing was written",
                "leave --precision int8 out, or give --calibration more images",
            )
    return answers


def _temperature_factor(scored: Scored) -> float:
    """By what the temperature of int8 should be multiplied; 1 where the images do not tell, and with several labels."""
    return fit_temperature(replace(scored, temperature=1.0)).value if isinstance(scored, ScoredImages) else 1.0


def _answers(expected: Scored, scored: Scored, before: Description, after: Description, count: int) -> Int8Answers:
    """Both sides' answers on the images that both could read."""
    if expected.paths != scored.paths:
        raise DataError("the labeled images changed while they were measured", "run the command again")
    if not np.isfinite(scored.probabilities).all():
        raise CheckpointError("int8 gives NaN or infinite probabilities; nothing was written", "give another --format")
    largest = float(np.abs(expected.probabilities - scored.probabilities).max())
    f1 = None
    if isinstance(expected, ScoredImages) and isinstance(scored, ScoredImages):
        differs = expected.predictions != scored.predictions
        right = scored.correct, expected.correct
    else:
        assert isinstance(expected, ScoredLabels)
        assert isinstance(scored, ScoredLabels)
        assert before.multilabel is not None
        thresholds = before.multilabel.thresholds
        differs = (expected.predicted(thresholds) != scored.predicted(thresholds)).any(axis=1)
        right = scored.exact(thresholds), expected.exact(thresholds)
        f1 = _micro_f1(expected, thresholds), _micro_f1(scored, thresholds)
    return Int8Answers(count, *right, int(differs.sum()), largest, before.temperature, after, scored.groups, f1)


def _micro_f1(scored: ScoredLabels, thresholds: npt.ArrayLike) -> float:
    """F1 over all known cells (image, label) together."""
    from sklearn.metrics import f1_score

    known = scored.known
    return float(f1_score(scored.labels[known] == PRESENT, scored.predicted(thresholds)[known], zero_division=0.0))
