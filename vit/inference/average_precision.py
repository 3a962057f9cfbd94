"""Average precision of a label under many weights of the images: a bootstrap that sorts the images once

Average precision is the mean precision over the images that have the label, each at the threshold of its own
probability (sklearn.metrics.average_precision_score). Under any weights, precision is a quotient of cumulative sums.
"""

import numpy as np
import numpy.typing as npt

from vit.inference.scored_images import Floats


class RankedImages:
    """The images of one label, by falling probability.

    Args:
        known: (n,) whether it is known if an image has the label; the others count nowhere.
        present: (n,) whether an image has the label.
        probabilities: (n,) probability of the label.
    """

    def __init__(self, known: npt.NDArray[np.bool_], present: npt.NDArray[np.bool_], probabilities: Floats) -> None:
        rows = np.flatnonzero(known)
        self._order = rows[np.argsort(-probabilities[rows], kind="stable")]
        falling = -probabilities[self._order]
        self._positives = np.flatnonzero(present[self._order])
        # Images of equal probability are above the same thresholds, so precision is taken at the last of them.
        self._ends = np.searchsorted(falling, falling[self._positives], side="right") - 1
        self._last_hits = np.searchsorted(self._positives, self._ends, side="right") - 1

    def average_precision(self, counts: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(R,) average precision under R weights; NaN where no image with the label has a weight.

        Args:
            counts: (R, n) how often each image counts, for example in each sample of a bootstrap.
        """
        if not len(self._ends):
            return np.full(len(counts), np.nan)
        part = counts[:, self._order].astype(np.int32)
        ours = part[:, self._positives]
        seen = part.cumsum(axis=1, dtype=np.int32)[:, self._ends]
        hits = ours.cumsum(axis=1, dtype=np.int32)[:, self._last_hits]
        with np.errstate(invalid="ignore"):
            return np.asarray((ours * (hits / np.maximum(seen, 1))).sum(axis=1) / ours.sum(axis=1))
