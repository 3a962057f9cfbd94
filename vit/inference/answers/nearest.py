"""Nearest neighbors in the features of a network, by cosine distance: a classifier without training"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

Features = npt.NDArray[np.float32]


class NeighborClassifier:
    """Labels images by their nearest neighbors, weighted by the inverse of their distance.

    Args:
        features: features (n, D) of images with labels.
        count: number of neighbors; at most n count.
    """

    def __init__(self, features: Features, labels: npt.NDArray[Any], count: int) -> None:
        fewer = min(count, len(features))
        self._fitted = KNeighborsClassifier(fewer, weights="distance", metric="cosine").fit(features, labels)

    def accuracy(self, features: Features, labels: npt.NDArray[Any]) -> float:
        """The fraction of images with features (m, D) whose label is right."""
        return float((self._fitted.predict(features) == labels).mean())


def nearest(features: Features, queries: Features, count: int) -> tuple[npt.NDArray[np.int64], Features]:
    """Rows (m, count) of the nearest features, the nearest first, and their cosine similarities (m, count).

    Args:
        features: (n, D), n at least `count`.
        queries: (m, D).
    """
    distances, rows = NearestNeighbors(n_neighbors=count, metric="cosine").fit(features).kneighbors(queries)
    return rows.astype(np.int64), (1 - distances).astype(np.float32)
