"""An export in int8: quantize on training images, then measure on labeled images what that costs

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
from vit.data.core.samples import Labels
from vit.errors import CheckpointError, DataError
from vit.export.exporting import new_output
from vit.export.format import Progress
from vit.extras.int8.formats import format_of
from vit.inference.answers.calibration import fit_temperature
from vit.inference.deployment import LoadedModel
from vit.inference.engine import Classifies, trained_engine
from vit.inference.scores.scored_images import Scored, ScoredImages, ScoredLabels
from vit.tasks.label_text import PRESENT

MAX_LOSS = 0.05  # of the accuracy, and of the micro F1 of several labels; a file that loses more is not kept
Measure = Callable[[Classifies], Scored]  # scores the same labeled images at every call


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

    @property
    def losses(self) -> str:
        """What both sides reach, in words."""
        of_f1 = f" (micro F1 {self.micro_f1[1]:.3f} and {self.micro_f1[0]:.3f})" if self.micro_f1 else ""
        return (
            f"int8 answers {100 * self.correct.mean():.2f} % of {len(self.correct):,} images right, and the checkpoint "
            f"{100 * self.reference.mean():.2f} %{of_f1}"
        )


def export_int8(
    trained: LoadedModel,
    name: str,
    output: Path,
    images: Tensor,
    measure: Measure,
    progress: Progress,
    fitted_on: str | None = None,
) -> Int8Answers:
    """Export a network in int8.

    The temperature is fitted again on the measured images, and changed where they tell it from the checkpoint's.

    Args:
        name: name of the format, of `formats.FORMATS`.
        output: file or folder that does not exist yet.
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
    int8_format = format_of(name)
    int8_format.check_int8_installed(name)
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
            _remove(written)
            int8_format.write_int8(exported, written, images, progress)  # the same ranges, and another last division
            scored = measure(int8_format.engine(written))
        if fitted_on is not None and isinstance(scored, ScoredImages):
            names = exported.description.class_names
            scores = ValidationScores.of(scored.labels, scored.probabilities, scored.groups, fitted_on, names)
            exported = replace(exported, description=replace(exported.description, validation_scores=scores))
            int8_format.describe(exported, written)
        answers = _answers(expected, scored, trained.description, exported.description, len(images))
        if not answers.loss <= MAX_LOSS:
            raise CheckpointError(
                f"{answers.losses}; at most {100 * MAX_LOSS:g} points may be lost; nothing was written",
                "leave --precision int8 out, or give --calibration more images",
            )
    return answers


def _temperature_factor(found: Scored) -> float:
    """By what the temperature of int8 should be multiplied; 1 where the images do not tell, and with several labels."""
    if not isinstance(found, ScoredImages):
        return 1.0
    return fit_temperature(replace(found, temperature=1.0)).value


def _answers(expected: Scored, found: Scored, before: Description, after: Description, count: int) -> Int8Answers:
    """Both sides' answers on the images that both could read."""
    if expected.paths != found.paths:
        raise DataError("the labeled images changed while they were measured", "run the command again")
    if not np.isfinite(found.probabilities).all():
        raise CheckpointError("int8 gives NaN or infinite probabilities; nothing was written", "give another --format")
    largest = float(np.abs(expected.probabilities - found.probabilities).max())
    if isinstance(expected, ScoredImages) and isinstance(found, ScoredImages):
        differs = expected.predictions != found.predictions
        right = found.correct, expected.correct
        return Int8Answers(count, *right, int(differs.sum()), largest, before.temperature, after, found.groups)
    assert isinstance(expected, ScoredLabels)
    assert isinstance(found, ScoredLabels)
    assert before.multilabel is not None
    thresholds = before.multilabel.thresholds
    differs = (expected.predicted(thresholds) != found.predicted(thresholds)).any(axis=1)
    exact = found.exact(thresholds), expected.exact(thresholds)
    f1 = _micro_f1(expected, thresholds), _micro_f1(found, thresholds)
    return Int8Answers(count, *exact, int(differs.sum()), largest, before.temperature, after, found.groups, f1)


def _micro_f1(scored: ScoredLabels, thresholds: npt.ArrayLike) -> float:
    """F1 over all known cells (image, label) together."""
    from sklearn.metrics import f1_score

    known = scored.known
    return float(f1_score(scored.labels[known] == PRESENT, scored.predicted(thresholds)[known], zero_division=0.0))


def _remove(written: Path) -> None:
    """Remove what was written under the temporary name."""
    if written.is_dir():
        for file in written.iterdir():
            file.unlink()
        written.rmdir()
    else:
        written.unlink()
