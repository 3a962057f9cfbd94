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
        share = percent(self.probability)
        if self.is_present == self.is_predicted:
            return f"{self.label}: {share}"
        return f"{'missed' if self.is_present else 'wrongly given'}: {self.label} ({share})"


def label_mistakes(scored: ScoredLabels, thresholds: npt.ArrayLike, label_names: Sequence[str]) -> list[NotedLabel]:
    """Every image with a wrong label, largest loss of a wrong label first."""
    wrong = (scored.predicted(thresholds) != (scored.labels == PRESENT)) & scored.known
    return _noted(scored, thresholds, label_names, wrong, cell_losses(scored.labels, scored.probabilities))


def sure_labels(scored: ScoredLabels, thresholds: npt.ArrayLike, label_names: Sequence[str]) -> list[NotedLabel]:
    """Every image with a label that it rightly got, largest probability first."""
    right = scored.predicted(thresholds) & (scored.labels == PRESENT)
    return _noted(scored, thresholds, label_names, right, scored.probabilities)


def _noted(
    scored: ScoredLabels,
    thresholds: npt.ArrayLike,
    label_names: Sequence[str],
    wanted: npt.NDArray[np.bool_],
    ranks: npt.NDArray[np.floating],
) -> list[NotedLabel]:
    """The wanted label (n, K) of the highest rank (n, K) of each image that has one, highest rank first."""
    predicted, scores = scored.predicted(thresholds), np.where(wanted, ranks, -1.0)
    order, numbers = np.argsort(-scores.max(axis=1), kind="stable").tolist(), scores.argmax(axis=1).tolist()
    return [
        NotedLabel(
            index,
            scored.paths[index],
            label_names[numbers[index]],
            bool(scored.labels[index, numbers[index]] == PRESENT),
            bool(predicted[index, numbers[index]]),
            float(scored.probabilities[index, numbers[index]]),
            label_text(scored.labels[index], label_names),
        )
        for index in order
        if wanted[index].any()
    ]
