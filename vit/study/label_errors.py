"""Confident learning: which labels are probably wrong, from given labels and out-of-fold probabilities

Northcutt, Jiang and Chuang 2021, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 70, arXiv
1911.00068. The probabilities must come from networks that have not trained on the image, because a network learns wrong
labels by heart.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vit.data.core.samples import Labels
from vit.data.splits.split import SplitRow

Floats = npt.NDArray[np.float64]


class CheckedImage(NamedTuple):
    """An image whose label is checked."""

    split: str
    place: int
    row: SplitRow


@dataclass(frozen=True)
class LabelErrors:
    """Labels that are probably wrong."""

    ranking: Labels  # (n,) indices of all images, the most suspicious first
    num_suspects: int  # number of images whose label is probably wrong
    suggested: Labels  # (n,) suggested class of each image: the most probable class but the given one
    confidence: Floats  # (n,) probability of the given class
    # (C, C) confident joint: images with their given class in rows that are confidently of the class in the column
    joint: Labels
    noise: float  # estimated fraction of wrong labels, from the joint

    @property
    def suspects(self) -> Labels:
        """Indices of the images whose label is probably wrong, the most suspicious first."""
        return self.ranking[: self.num_suspects]


def find_label_errors(labels: Labels, probabilities: npt.ArrayLike) -> LabelErrors:
    """Find labels that are probably wrong.

    The threshold of a class is the mean probability of the class among the images with its label. An image is
    confidently of the most probable of those classes whose thresholds it reaches (equation 1). Given and confident
    classes are counted in the confident joint, which estimates the fraction of wrong labels (equation 3). The images
    are ranked by self-confidence, the probability of the given class (section 3.3). Those whose label is the most
    probable class come last. As many as are estimated to be wrong are the suspects. docs/measurements.md compares this
    choice with the paper's other rankings and lists.

    Args:
        probabilities: (n, C) probabilities from networks that have not trained on the image.
    """
    found = np.asarray(probabilities, dtype=np.float64)
    rows, num_classes = np.arange(len(labels)), found.shape[1]
    own = found[rows, labels]
    counts = np.bincount(labels, minlength=num_classes)
    thresholds = np.bincount(labels, own, num_classes) / np.maximum(counts, 1)
    others = found.copy()
    others[rows, labels] = -np.inf
    suggested = others.argmax(axis=1)
    is_doubted = own < found[rows, suggested]
    above = (found >= thresholds) & (counts > 0)
    is_confident = above.any(axis=1)
    confident = np.where(above, found, -np.inf).argmax(axis=1)
    joint = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(joint, (labels[is_confident], confident[is_confident]), 1)
    noise = _noise(joint, counts)
    num_suspects = min(round(noise * len(labels)), int(is_doubted.sum()))
    return LabelErrors(np.lexsort((own, ~is_doubted)), num_suspects, suggested, own, joint, noise)


def _noise(joint: Labels, counts: Labels) -> float:
    """The fraction of wrong labels that a confident joint estimates, with each row scaled to its number of labels."""
    in_rows = joint.sum(axis=1)
    right = np.divide(np.diag(joint), in_rows, out=np.ones(len(counts)), where=in_rows > 0)
    return 1 - float((right * counts).sum() / counts.sum())
