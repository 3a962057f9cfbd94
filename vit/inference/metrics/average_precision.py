"""The average precision of one label: of images in an order, also of resampled ones, and what guesses have"""

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from vit.inference.scores.scored_images import Bools, Floats, PerLabel


class RankedImages:
    """The (n,) images of one label, by falling probability, sorted once for all samples; those not known count nowhere.

    Average precision is the mean precision over the images that have the label, each at the threshold of its own
    probability (sklearn.metrics.average_precision_score). Under any weights, precision is a quotient of cumulative
    sums.
    """

    def __init__(self, known: Bools, present: Bools, probabilities: Floats) -> None:
        rows = np.flatnonzero(known)
        self._order = rows[np.argsort(-probabilities[rows], kind="stable")]
        falling = -probabilities[self._order]
        self._positives = np.flatnonzero(present[self._order])
        # Images of equal probability are above the same thresholds, so precision is taken at the last of them.
        self._ends = np.searchsorted(falling, falling[self._positives], side="right") - 1
        self._last_hits = np.searchsorted(self._positives, self._ends, side="right") - 1

    def average_precision(self, counts: npt.NDArray[np.integer]) -> PerLabel:
        """(R,) average precision where images count so often (R, n); NaN where no image with the label counts."""
        if not len(self._ends):
            return np.full(len(counts), np.nan)
        part = counts[:, self._order].astype(np.int32)
        ours = part[:, self._positives]
        seen = part.cumsum(axis=1, dtype=np.int32)[:, self._ends]
        hits = ours.cumsum(axis=1, dtype=np.int32)[:, self._last_hits]
        with np.errstate(invalid="ignore"):
            return np.asarray((ours * (hits / np.maximum(seen, 1))).sum(axis=1) / ours.sum(axis=1))


def guessed_precision(num_positives: npt.NDArray[np.int64], num_images: npt.NDArray[np.int64]) -> PerLabel:
    """(K,) mean average precision of all orders of the images, where so many of them (K,), at least 1, have the label.

    Bestgen 2015, "Exact expected average precision of the random baseline for system evaluation".
    """
    first = (digamma(num_images + 1) + np.euler_gamma) / num_images  # the harmonic number over the number of images
    return np.asarray(first + (1 - first) * (num_positives - 1) / np.maximum(num_images - 1, 1))
