"""What a checkpoint keeps to recognize images unlike its training images

The distance of an image is 1 - the cosine between its features and those of its k-th nearest training image (Sun et
al. 2022, "Out-of-Distribution Detection with Deep Nearest Neighbors", arXiv 2204.06507, section 3). Cosines order
images as the paper's Euclidean distances of unit vectors do. docs/measurements.md compares other scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from vit.data.core.samples import Labels
from vit.errors import CheckpointError

MOST_FEATURES = 5_000  # training images of which features are kept: 2 MB of a ViT-Ti
MOST_IMAGES = 20_000  # validation images of which distances are kept, as for `ValidationScores`
NEIGHBOR = 1  # the k-th nearest training image gives the distance
UNLIKE = 0.95  # novelty from which an image counts as unlike the training images
FEWEST_IMAGES = 19  # validation images, or groups: with fewer no image can reach 0.95

Floats = npt.NDArray[np.float32]


def is_unlike(novelty: float | Floats, least: float = UNLIKE) -> npt.NDArray[np.bool_]:
    """Whether novelties are at least `least`, compared in float32 as they are made: float32(0.95) is below 0.95."""
    return np.asarray(np.asarray(novelty, dtype=np.float32) >= np.float32(least))


class TrainingFeatures:
    """Features (n, D) of the last layer of up to 5,000 training images, as unit vectors in float16."""

    def __init__(self, features: Tensor) -> None:
        self.features = F.normalize(features.float(), dim=1).to(torch.float16)

    @classmethod
    def chosen(cls, features: Tensor, seed: int) -> "TrainingFeatures":
        """Up to 5,000 of the features (n, D) of all training images, chosen by a seed."""
        return cls(features[np.random.default_rng(seed).permutation(len(features))[:MOST_FEATURES]].cpu())

    @cached_property
    def _columns(self) -> Tensor:
        return self.features.float().T.contiguous()  # (D, n)

    def distances(self, features: Tensor) -> Floats:
        """Features (B, D) of images on the CPU -> distances (B,), from 0 to 2. CheckpointError for another D."""
        if features.shape[1] != self.features.shape[1]:
            widths = f"({self.features.shape[1]} values) do not fit its network ({features.shape[1]} values)"
            raise CheckpointError(f"the checkpoint's training features {widths}", "train again")
        distances: Floats = (1 - (F.normalize(features.float(), dim=1) @ self._columns).amax(dim=1)).numpy()
        return distances


@dataclass(frozen=True)
class Novelty:
    """Training features, and how far validation images are from them."""

    training: TrainingFeatures  # features of training images
    validation: Floats  # (m,) distances of validation images, one of each group, in rising order

    @classmethod
    def of(cls, training: TrainingFeatures, distances: Floats, groups: Labels | None = None) -> "Novelty":
        """From distances (m,) of validation images, the first one of each group; of more than 20,000, quantiles."""
        rising = np.sort(distances if groups is None else distances[np.unique(groups, return_index=True)[1]])
        if len(rising) > MOST_IMAGES:
            rising = rising[np.linspace(0, len(rising) - 1, MOST_IMAGES).round().astype(np.int64)]
        return cls(training, rising.astype(np.float32))

    def of_distances(self, distances: Floats) -> Floats:
        """Distances (B,) -> novelties (B,): fractions of nearer validation images, 1 - conformal p (Laxhammar and
        Falkman 2010).
        """
        num_nearer = np.searchsorted(self.validation, distances, side="left")
        return (num_nearer / (len(self.validation) + 1)).astype(np.float32)

    def of_features(self, features: Tensor) -> Floats:
        """Features (B, D) of images -> novelties (B,)."""
        return self.of_distances(self.training.distances(features))

    def to_plain(self) -> dict[str, Tensor | int]:
        validation = torch.from_numpy(self.validation)
        return {"features": self.training.features, "neighbor": NEIGHBOR, "validation": validation}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Novelty":
        """The novelty that `to_plain` wrote, checked. KeyError, TypeError, ValueError: it is not such a mapping."""
        features, validation = plain["features"], plain["validation"]
        _check(features, torch.float16, 2, MOST_FEATURES)
        _check(validation, torch.float32, 1, MOST_IMAGES)
        if type(plain["neighbor"]) is not int or plain["neighbor"] != NEIGHBOR:
            raise ValueError(f"the neighbor is {plain['neighbor']!r}, not {NEIGHBOR}")
        if not (features.float().norm(dim=1) < 1.01).all():  # 0 where a network gave zeros alone; NaN is not
            raise ValueError("the training features are not unit vectors")
        if not ((validation >= -0.01) & (validation <= 2.01)).all() or not (validation.diff() >= 0).all():
            raise ValueError("the distances of validation images are out of range or order")
        return cls(TrainingFeatures(features), validation.numpy())


def _check(tensor: object, dtype: torch.dtype, ndim: int, most: int) -> None:
    """Raise ValueError unless it is an ordinary tensor of 1 to `most` rows whose numbers are all in the file."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.dtype != dtype or tensor.ndim != ndim:
        raise ValueError("the novelty has no such tensor")
    if not tensor.is_contiguous() or not 0 < len(tensor) <= most or tensor.numel() == 0:
        raise ValueError(f"the novelty has a tensor of shape {tuple(tensor.shape)}")
