"""A threshold for each label, chosen on validation images: the highest F1, or a precision that was asked for

0.5 is rarely the best threshold of a rare label, whose probabilities seldom reach it (Lipton et al. 2014, "Optimal
Thresholding of Classifiers to Maximize F1 Measure": the best threshold is half the best F1, so at most 0.5, where
probabilities are calibrated).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vit.checkpoints.label_rules import NEVER, range_words
from vit.console import percent
from vit.inference.scored_images import Floats
from vit.tasks.label_text import NOT_KNOWN, PRESENT, LabelRows

DEFAULT = 0.5
_SHOWN = 10  # names in a sentence


@dataclass(frozen=True)
class LabelThresholds:
    """A threshold for each label. An image gets a label from this probability on.

    Attributes:
        values: (K,) thresholds.
        without_positives: numbers of the labels that no image has: their thresholds stay 0.5.
        unreachable: numbers of the labels that do not reach the precision at any threshold, which is `NEVER`.
        min_precision: lowest precision that was asked for; None: the thresholds have the highest F1.
        num_images: number of images in the fit.
    """

    values: tuple[float, ...]
    without_positives: tuple[int, ...]
    unreachable: tuple[int, ...]
    min_precision: float | None
    num_images: int

    def words(self, label_names: Sequence[str]) -> list[str]:
        """What was chosen, and what could not be, in one sentence each."""
        rule = "with the highest F1" if self.min_precision is None else f"of precision {percent(self.min_precision)}"
        lines = [f"thresholds {rule}: {range_words(self.values)}, chosen on {self.num_images:,} images"]
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
