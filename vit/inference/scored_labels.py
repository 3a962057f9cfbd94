"""ScoredLabels: images of a split, where an image has several labels, with the probability of every label"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from vit.data.label_text import NOT_KNOWN, PRESENT, LabelRows
from vit.inference.scored_images import Floats, ScoredImages

PerLabel = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoredLabels:
    """Images of a split with the probability of each label. Entries at the same index belong together.

    Attributes:
        paths: (n,) names of the images.
        labels: (n, K) 1 where an image has a label, 0 where it has not, -1 where that is unknown.
        probabilities: (n, K) probability of each label. They are independent, and do not add up to 1.
        temperatures: (K,) numbers that divided the logits before the sigmoid; () for 1 everywhere.
        left_out: images that could not be read and have no entry: {name: reason}.
        groups: (n,) number of each image's group, as of `image_groups.numbered`; None: all images are independent.
    """

    paths: tuple[str, ...]
    labels: LabelRows
    probabilities: Floats
    temperatures: tuple[float, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    groups: npt.NDArray[np.int64] | None = None

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """(n, K) whether it is known if an image has a label."""
        return np.asarray(self.labels != NOT_KNOWN)

    @property
    def logits(self) -> PerLabel:
        """(n, K) logits over the temperatures."""
        return log_odds(self.probabilities)

    def at(self, temperatures: npt.ArrayLike) -> "ScoredLabels":
        """The same images at other temperatures (K,)."""
        from scipy.special import expit  # not at the top: prediction imports this file, and needs no SciPy

        wanted = np.asarray(temperatures, dtype=np.float64)
        before = np.asarray(self.temperatures or np.ones(len(wanted)), dtype=np.float64)
        if np.array_equal(before, wanted):
            return self
        changed = expit(self.logits * (before / wanted)).astype(np.float32)
        return replace(self, probabilities=changed, temperatures=tuple(map(float, wanted)))

    def predicted(self, thresholds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(n, K) whether an image is given a label: its probability is at least the label's threshold."""
        return above(self.probabilities, thresholds)

    def exact(self, thresholds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(n,) whether all known labels of an image are predicted right. True where none is known."""
        return np.asarray(((self.predicted(thresholds) == (self.labels == PRESENT)) | ~self.known).all(axis=1))

    @property
    def losses(self) -> PerLabel:
        """(n,) mean negative log-probability of an image's known labels, in nats; NaN where none is known."""
        cells, known = cell_losses(self.labels, self.probabilities), self.known
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, cells, 0.0).sum(axis=1) / known.sum(axis=1))

    @property
    def losses_if_wrong(self) -> PerLabel:
        """(n,) what the losses would be if all known labels of an image were wrong; NaN where none is known."""
        less_likely = np.minimum(self.probabilities, 1.0 - self.probabilities.astype(np.float64))
        cells, known = -np.log(np.maximum(less_likely, 1e-12)), self.known
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, cells, 0.0).sum(axis=1) / known.sum(axis=1))


Scored = ScoredImages | ScoredLabels


def above(probabilities: Floats, thresholds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """(n, K) whether a probability is at least the threshold of its label: the one rule that turns them into labels."""
    return np.asarray(probabilities >= np.asarray(thresholds, dtype=np.float64))


def log_odds(probabilities: npt.NDArray[np.floating]) -> PerLabel:
    """log(p / (1 - p)) of float32 probabilities. A float32 ends at 1 - 6e-8, so 1 counts as half a step below 1."""
    exact = np.clip(probabilities.astype(np.float64), float(np.finfo(np.float32).smallest_subnormal), 1 - 2.0**-25)
    return np.asarray(np.log(exact) - np.log1p(-exact))


def cell_losses(labels: LabelRows, probabilities: Floats) -> PerLabel:
    """(n, K) negative log-probabilities of labels, in nats. A cell of an unknown label has no meaning."""
    own = np.where(labels == PRESENT, probabilities, 1.0 - probabilities.astype(np.float64))
    return np.asarray(-np.log(np.maximum(own, 1e-12)))
