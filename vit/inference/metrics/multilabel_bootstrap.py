"""Bootstrap samples of images with several labels: counts and average precisions in each sample

Whole images are drawn, because the labels of one image are not independent. The images of a label are sorted once:
average precision is the mean precision over the images that have the label, each at the threshold of its own
probability (sklearn.metrics.average_precision_score). Under any weights, precision is a quotient of cumulative sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from vit.errors import DataError
from vit.inference.scores.image_groups import bootstrap
from vit.inference.scores.scored_images import Floats
from vit.inference.scores.scored_labels import ScoredLabels
from vit.tasks.label_text import PRESENT

RESAMPLES = 1000
_CELLS = 4_000_000  # of a block of samples: 16 MiB of counts, and as much for each cumulative sum

_Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resampled:
    """Sums over all images in row 0, and over each sample of the bootstrap in the rows below."""

    ap: _Floats64  # (1 + R, K) average precision; NaN where no image has the label
    tp: _Floats64  # (1 + R, K) numbers of known cells that are rightly predicted
    predicted: _Floats64  # (1 + R, K) numbers of known cells that are predicted
    positive: _Floats64  # (1 + R, K) numbers of images that have the label


def resample(scored: ScoredLabels, thresholds: Sequence[float], seed: int) -> Resampled:
    """The sums of all samples. DataError where no label of any image is known."""
    known, present = scored.known, scored.labels == PRESENT
    if not known.any():
        raise DataError("no label of any image is known", "give images with labels")
    predicted = scored.predicted(thresholds) & known
    columns = np.concatenate([predicted & present, predicted, present], axis=1).astype(np.float64)
    labels = range(present.shape[1])
    ranked = [RankedImages(known[:, k], present[:, k], scored.probabilities[:, k]) for k in labels]
    precisions, summed = [], []
    for counts in _samples(scored, seed):
        precisions.append(np.stack([images.average_precision(counts) for images in ranked], axis=1))
        summed.append(counts.astype(np.float64) @ columns)
    sums = np.concatenate(summed)
    tp, guessed, positive = np.split(sums, 3, axis=1)
    return Resampled(np.concatenate(precisions), tp, guessed, positive)


def _samples(scored: ScoredLabels, seed: int) -> Iterator[npt.NDArray[np.int32]]:
    """How often each image is in a sample, as blocks (R, n): first every image once, then the samples.

    Images of a group are drawn together.
    """
    num_images = len(scored.paths)
    yield np.ones((1, num_images), dtype=np.int32)
    samples, rows = bootstrap(num_images, scored.groups, seed), max(1, _CELLS // num_images)
    for start in range(0, RESAMPLES, rows):
        yield np.stack(list(islice(samples, min(rows, RESAMPLES - start)))).astype(np.int32)


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
