"""The cells of a study: as study.json lists them, as they failed, and as they finished"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Group = tuple[str, int, int]  # a series at one number of images, with one seed
_KEYS = ("series", "images", "seed", "choice", "folder")  # of an entry of study.json


@dataclass(frozen=True)
class ListedCell:
    """A cell as study.json lists it."""

    series: str
    num_images: int
    seed: int
    choice: str  # values that tuning tries, as text, or empty where nothing is tuned
    folder: str  # run folder, relative to the study's folder

    @classmethod
    def from_json(cls, entry: Mapping[str, str | int]) -> Self:
        series, images, seed, choice, folder = (entry[key] for key in _KEYS)
        return cls(str(series), int(images), int(seed), str(choice), str(folder))

    def to_json(self) -> dict[str, str | int]:
        return dict(zip(_KEYS, (self.series, self.num_images, self.seed, self.choice, self.folder), strict=True))

    @property
    def group(self) -> Group:
        """Key of the cells among which tuning chooses: each seed chooses for itself.

        A choice by one seed for all would be an error that all seeds share, and that no scatter of theirs shows.
        """
        return self.series, self.num_images, self.seed

    def describe(self) -> str:
        """The cell in a message: "CNN, 1,000 images, seed 0, lr=0.001"."""
        return ", ".join(filter(None, (self.series, f"{self.num_images:,} images", f"seed {self.seed}", self.choice)))


@dataclass(frozen=True)
class FailedCell(ListedCell):
    """A cell without a result, and the reason."""

    error: str


@dataclass(frozen=True)
class CellResult:
    """One finished run of a study: a row of results.csv."""

    series: str  # name of the network with the values that --vary gave it
    network: str
    num_images: int
    seed: int  # seed of the subset and of the training
    accuracy: float  # fraction of right test images; with several labels for an image the exact match
    validation_loss: float  # cross-entropy of the same checkpoint, in nats
    steps: int
    batch_size: int
    epochs: float  # passes over the training images, as a fraction
    best_round: int  # round of the checkpoint that `optim.best_metric` chose, counted from 0
    parameters: int
    flops: int
    seconds: float  # time of training and evaluation
    images_per_second: float  # training images per second
    last_is_better: bool  # whether the last weights are clearly more accurate on validation images than the checkpoint
    run: str
    correct: npt.NDArray[np.bool_]  # (T,) whether the prediction for each test image is right
    groups: npt.NDArray[np.int64] | None = None  # (T,) number of each test image's group; None where images have none
    late_gain: float | None = None  # fall of the validation loss over the last fifth of the steps; None: not known
