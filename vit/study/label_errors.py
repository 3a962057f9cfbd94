"""Confident learning: which labels are probably wrong, from given labels and out-of-fold probabilities

Northcutt, Jiang and Chuang 2021, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 70, arXiv
1911.00068. The probabilities must come from networks that have not trained on the image, because a network learns wrong
labels by heart.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit.data.samples import Labels

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LabelErrors:
    """Labels that are probably wrong.

    Attributes:
        suspects: indices of the images, from the most to the least suspicious.
        suggested: (n,) suggested class of each image: the class other than the given one with the largest probability.
        confidence: (n,) probability of the given class.
        margins: (n,) probability of the given class minus that of the suggested class. The suspects are sorted by it.
        joint: (C, C) confident joint: images with given class in rows that are confidently of the class in columns.
        thresholds: (C,) mean probability of each class among the images with this label; NaN for classes without images.
    """

    suspects: Labels
    suggested: Labels
    confidence: Floats
    margins: Floats
    joint: Labels
    thresholds: Floats

    @property
    def noise(self) -> float:
        """Estimated fraction of wrong labels."""
        return 1 - float(np.trace(_calibrated(self.joint))) if self.joint.sum() else 0.0


def find_label_errors(labels: Labels, probabilities: npt.ArrayLike) -> LabelErrors:
    """Find labels that are probably wrong.

    An image counts as confidently of class j where its probability of j is at least the mean probability of j among the
    images labeled j; of several such classes, where it is largest (equation 1 of the paper). The images that are
    confidently of another class than their label are the suspects (the paper's "confident learning", C_confusion beside
    it being the plain mistakes). They are sorted by the normalized margin (section 3.3).

    Args:
        labels: (n,) given class numbers.
        probabilities: (n, C) probabilities out of folds.
    """
    found = np.asarray(probabilities, dtype=np.float64)
    rows, (num_images, num_classes) = np.arange(len(labels)), found.shape
    own = found[rows, labels]
    counts = np.bincount(labels, minlength=num_classes)
    with np.errstate(invalid="ignore"):
        thresholds = np.bincount(labels, own, num_classes) / counts
    others = found.copy()
    others[rows, labels] = -np.inf
    suggested = others.argmax(axis=1)
    margins = own - found[rows, suggested]
    above = found >= np.where(counts > 0, thresholds, np.inf)
    confident = np.where(above, found, -np.inf).argmax(axis=1)
    counted = above.any(axis=1)
    joint = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(joint, (labels[counted], confident[counted]), 1)
    suspects = np.flatnonzero(counted & (confident != labels))
    suspects = suspects[np.argsort(margins[suspects], kind="stable")]
    return LabelErrors(suspects, suggested, own, margins, joint, thresholds)
