"""The most surely wrong labels of images that may have several: one label of each image, the least probable truth"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit.console import percent
from vit.inference.scores.scored_images import ScoredLabels, cell_losses
from vit.tasks.label_text import PRESENT, label_text


@dataclass(frozen=True)
class NotedLabel:
    """An image, and the label about which the network is most surely wrong, or right."""

    index: int  # place of the image in its split
    path: str  # path of the image
    label: str  # the label
    is_present: bool  # whether the image has the label
    is_predicted: bool  # whether the image was given the label
    probability: float  # probability of the label
    true_labels: str  # all labels of the image as text

    @property
    def text(self) -> str:
        """The label, what went wrong with it, and its probability."""
        share = percent(self.probability)
        if self.is_present == self.is_predicted:
            return f"{self.label}: {share}"
        return f"{'missed' if self.is_present else 'wrongly given'}: {self.label} ({share})"


def label_mistakes(scored: ScoredLabels, thresholds: npt.ArrayLike, label_names: Sequence[str]) -> list[NotedLabel]:
    """Every image with a wrong label, largest loss of a wrong label first."""
    predicted = scored.predicted(thresholds)
    wrong = (predicted != (scored.labels == PRESENT)) & scored.known
    losses = np.where(wrong, cell_losses(scored.labels, scored.probabilities), -1.0)
    order = np.argsort(-losses.max(axis=1), kind="stable")
    chosen = [(int(index), int(losses[index].argmax())) for index in order if wrong[index].any()]
    return [_noted(scored, predicted, label_names, *cell) for cell in chosen]


def sure_labels(scored: ScoredLabels, thresholds: npt.ArrayLike, label_names: Sequence[str]) -> list[NotedLabel]:
    """Every image with a label that it rightly got, largest probability first."""
    predicted = scored.predicted(thresholds)
    right = predicted & (scored.labels == PRESENT)
    found = np.where(right, scored.probabilities, -1.0)
    order = np.argsort(-found.max(axis=1), kind="stable")
    chosen = [(int(index), int(found[index].argmax())) for index in order if right[index].any()]
    return [_noted(scored, predicted, label_names, *cell) for cell in chosen]


def _noted(
    scored: ScoredLabels, predicted: npt.NDArray[np.bool_], label_names: Sequence[str], index: int, number: int
) -> NotedLabel:
    return NotedLabel(
        index,
        scored.paths[index],
        label_names[number],
        bool(scored.labels[index, number] == PRESENT),
        bool(predicted[index, number]),
        float(scored.probabilities[index, number]),
        label_text(scored.labels[index], label_names),
    )
