"""Bootstrap samples of images with several labels: counts and average precisions in each sample

Whole images are drawn, because the labels of one image are not independent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from vit.errors import DataError
from vit.inference.average_precision import RankedImages
from vit.inference.image_groups import bootstrap
from vit.inference.scored_labels import ScoredLabels
from vit.tasks.label_text import PRESENT

RESAMPLES = 1000
_CELLS = 4_000_000  # of a block of samples: 16 MiB of counts, and as much for each cumulative sum

_Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resampled:
    """Sums over all images in row 0, and over each sample of the bootstrap in the rows below.

    Attributes:
        ap: (1 + R, K) average precision; NaN where no image has the label.
        tp: (1 + R, K) numbers of known cells that are rightly predicted.
        predicted: (1 + R, K) numbers of known cells that are predicted.
        positive: (1 + R, K) numbers of images that have the label.
    """

    ap: _Floats64
    tp: _Floats64
    predicted: _Floats64
    positive: _Floats64


def resample(scored: ScoredLabels, thresholds: Sequence[float], seed: int) -> Resampled:
    """The sums of all samples.

    Raises:
        DataError: no label of any image is known.
    """
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
