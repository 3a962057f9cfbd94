"""Rules of the labels: a temperature and a threshold for each, fitted on images that the network was not trained on

Each label is a classifier of its own, so each gets a temperature as a whole network does (`calibration.py`). Rare
labels and common ones are sure to different degrees, so that one number for all would be wrong for most.

A threshold has the highest F1, or a precision that was asked for. 0.5 is rarely the best threshold of a rare label,
whose probabilities seldom reach it (Lipton et al. 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure":
the best threshold is half the best F1, so at most 0.5, where probabilities are calibrated).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vit.checkpoints.label_rules import NEVER, range_text
from vit.console import percent
from vit.data.core.samples import Labels
from vit.inference.answers.calibration import Temperature, most_probable
from vit.inference.scores.scored_images import Floats
from vit.inference.scores.scored_labels import PerLabel, log_odds
from vit.tasks.label_text import NOT_KNOWN, PRESENT, LabelRows

FEWEST = 5  # known images with a label, and without it, for a temperature: fewer say too little
DEFAULT = 0.5  # threshold of a label that no image has
_SHOWN = 10  # names in a sentence


@dataclass(frozen=True)
class LabelTemperatures:
    """A fitted temperature for each label."""

    # (K,) temperature of each label; None where too few images have it, or lack it
    fitted: tuple[Temperature | None, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """(K,) numbers that divide the logits: the fitted ones where they are clear, else 1."""
        return tuple(1.0 if one is None else one.value for one in self.fitted)

    def describe(self, label_names: Sequence[str]) -> str:
        """The values and their origin, for people."""
        changed = [name for name, one in zip(label_names, self.fitted, strict=True) if one is not None and one.is_clear]
        if not changed:
            return f"of all {len(label_names):,} labels stay 1: the images do not tell them from 1"
        values = [value for name, value in zip(label_names, self.values, strict=True) if name in changed]
        between = f"{min(values):.3f} to {max(values):.3f}"
        words = f"of {len(changed):,} of {len(label_names):,} labels are fitted ({between})"
        return words if len(changed) == len(label_names) else f"{words}, the others stay 1"


def fit_label_temperatures(
    labels: LabelRows, probabilities: Floats, split: str = "validation", groups: Labels | None = None
) -> LabelTemperatures:
    """The temperatures that should divide the logits behind some probabilities.

    Args:
        labels: (n, K) 1 present, 0 absent, -1 unknown, of images that the network was not trained on.
        probabilities: (n, K) sigmoids at temperature 1.
        split: split of these images.
        groups: (n,) as of `image_groups.numbered`.
    """
    logits = log_odds(probabilities)
    return LabelTemperatures(tuple(_fit(labels[:, k], logits[:, k], split, groups) for k in range(labels.shape[1])))


def _fit(labels: LabelRows, logits: PerLabel, split: str, groups: Labels | None) -> Temperature | None:
    known = labels != NOT_KNOWN
    present = labels[known] == PRESENT
    if min(present.sum(), (~present).sum()) < FEWEST:
        return None
    signed = np.where(present, -logits[known], logits[known])  # the loss of a label is log(1 + exp(signed))

    def losses(log_temperature: float) -> PerLabel:
        return np.asarray(np.logaddexp(0.0, signed / np.exp(log_temperature)))

    return most_probable(losses, split, None if groups is None else groups[known])


@dataclass(frozen=True)
class LabelThresholds:
    """A threshold for each label. An image gets a label from this probability on."""

    values: tuple[float, ...]  # (K,) thresholds
    without_positives: tuple[int, ...]  # numbers of the labels that no image has: their thresholds stay 0.5
    # numbers of the labels that do not reach the precision at any threshold, which is `NEVER`
    unreachable: tuple[int, ...]
    min_precision: float | None  # lowest precision that was asked for; None: the thresholds have the highest F1
    num_images: int  # number of images in the fit

    def describe(self, label_names: Sequence[str]) -> list[str]:
        """What was chosen, and what could not be, in one sentence each."""
        rule = "with the highest F1" if self.min_precision is None else f"of precision {percent(self.min_precision)}"
        lines = [f"thresholds {rule}: {range_text(self.values)}, chosen on {self.num_images:,} images"]
        if self.without_positives:
            names = _names(label_names, self.without_positives)
            lines.append(f"WARNING: none of these images has {names}: the threshold stays {DEFAULT}")
        if self.unreachable:
            names = _names(label_names, self.unreachable)
            lines.append(f"WARNING: no threshold reaches this precision for {names}: no image gets them")
        return lines


def _names(label_names: Sequence[str], numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _SHOWN:,} more" if len(numbers) > _SHOWN else ""
    return ", ".join(label_names[number] for number in numbers[:_SHOWN]) + more


def fit_label_thresholds(
    labels: LabelRows, probabilities: Floats, min_precision: float | None = None
) -> LabelThresholds:
    """The thresholds for new images like these.

    Args:
        labels: (n, K) 1 present, 0 absent, -1 unknown, of images that the network was not trained on.
        probabilities: (n, K) probability of each label, at its temperature.
        min_precision: lowest precision of every label, reached with as many of its images as possible; None: the
            highest F1.
    """
    values, without, unreachable = [], [], []
    for number in range(labels.shape[1]):
        known = labels[:, number] != NOT_KNOWN
        present = labels[known, number] == PRESENT
        if not present.any():
            values.append(DEFAULT)
            without.append(number)
            continue
        found = _threshold(present, probabilities[known, number], min_precision)
        if found is None:
            unreachable.append(number)
        values.append(NEVER if found is None else found)
    return LabelThresholds(tuple(values), tuple(without), tuple(unreachable), min_precision, len(labels))


def _threshold(present: np.ndarray, probabilities: Floats, min_precision: float | None) -> float | None:
    """The threshold of one label, halfway between two probabilities: engines differ in the last digits."""
    from sklearn.metrics import precision_recall_curve  # 0.3 seconds, where nothing is fitted

    precision, recall, thresholds = precision_recall_curve(present, probabilities)
    precision, recall = precision[:-1], recall[:-1]  # the last point has no threshold
    if min_precision is None:
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        best = int(f1.argmax())
    else:
        enough = np.flatnonzero((precision >= min_precision) & (recall > 0))
        if not len(enough):
            return None
        best = int(enough[0])  # thresholds rise, so that this one has the highest recall
    below = float(thresholds[best - 1]) if best else 0.0
    return (float(thresholds[best]) + below) / 2
