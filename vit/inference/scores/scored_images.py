"""Images of a split with their labels and the probabilities that a network gives them"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.atomic_files import atomic_write
from vit.checkpoints.label_rules import LabelRules
from vit.csv_files import new_table
from vit.data.core.samples import Labels
from vit.inference.scores.scored_rows import ScoredRow

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scored(ABC):
    """Images of a split with the probabilities that a network gives them. Entries at the same index belong together."""

    paths: tuple[str, ...]  # (n,) names of the images
    labels: npt.NDArray[Any]  # (n,) true class numbers; of several labels (n, K), as of `Task`
    probabilities: Floats  # (n, C) probabilities of the classes or labels
    # images that could not be read and have no entry: {name: reason}
    left_out: Mapping[str, str] = field(default_factory=dict)
    # (n,) what fraction of the validation images is more like the training images; None if not computed
    novelty: Floats | None = None
    # (n,) number of each image's group, as of `image_groups.numbered`; None: all images are independent
    groups: Labels | None = None

    @abstractmethod
    def write(self, path: Path, class_names: Sequence[str], rules: LabelRules | None) -> None:
        """Write predictions/SPLIT.csv, a row for every image, with the predictions of a model with these rules."""


@dataclass(frozen=True)
class ScoredImages(Scored):
    """Images with one class each."""

    temperature: float = 1.0  # number that divided the logits before the softmax

    @property
    def predictions(self) -> Labels:
        """(n,) class numbers of the largest probabilities."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confidences(self) -> Floats:
        """(n,) largest probabilities."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """(n,) whether the prediction is the label."""
        return np.asarray(self.predictions == self.labels)

    @property
    def uncalibrated(self) -> Floats:
        """(n,) largest probabilities at temperature 1."""
        return self.at(1.0).confidences

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        """(n,) negative log-probabilities of the true classes, in nats."""
        own = self.probabilities[np.arange(len(self.labels)), self.labels].astype(np.float64)
        return -np.log(np.maximum(own, 1e-12))

    @property
    def losses_if_wrong(self) -> npt.NDArray[np.float64]:
        """(n,) what the losses would be if the second most probable class were the true one."""
        at = -min(2, self.probabilities.shape[1])
        second = np.partition(self.probabilities, at, axis=1)[:, at].astype(np.float64)
        return -np.log(np.maximum(second, 1e-12))

    @property
    def log_probabilities(self) -> npt.NDArray[np.float64]:
        """(n, C) log-probabilities: the logits over the temperature, plus a constant for each image."""
        return np.log(np.maximum(self.probabilities, np.finfo(np.float32).smallest_subnormal).astype(np.float64))

    def at(self, temperature: float) -> "ScoredImages":
        """The same images at another temperature."""
        from scipy.special import softmax  # not at the top: prediction imports this file, and needs no SciPy

        changed = softmax(self.log_probabilities * (self.temperature / temperature), axis=1)
        return replace(self, probabilities=changed.astype(np.float32), temperature=temperature)

    def rows(self, class_names: Sequence[str]) -> list[ScoredRow]:
        """A row for every image, as `write` writes them."""
        columns = (self.labels, self.predictions, self.confidences, self.losses, self.uncalibrated)
        return [
            ScoredRow(path, class_names[label], class_names[guess], *map(float, numbers))
            for path, label, guess, *numbers in zip(self.paths, *columns, strict=True)
        ]

    def write(self, path: Path, class_names: Sequence[str], rules: LabelRules | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial, new_table(partial, ScoredRow._fields, digits=6) as table:
            for row in self.rows(class_names):
                table.row(row)
