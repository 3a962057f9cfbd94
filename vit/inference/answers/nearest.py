"""Features of a network: nearest neighbors by cosine distance, and the images of a pool to label next"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import kmeans_plusplus
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


def neighbor_classifier(features: Floats, labels: npt.NDArray[Any], count: int) -> KNeighborsClassifier:
    """Labels images by up to `count` nearest neighbors (n, D), weighted by the inverse of their distance."""
    fewer = min(count, len(features))
    return KNeighborsClassifier(fewer, weights="distance", metric="cosine").fit(features, labels)


def nearest(features: Floats, queries: Floats, count: int) -> tuple[Places, Floats]:
    """Rows (m, count) of features (n, D) nearest to queries (m, D), and their cosine similarities (m, count)."""
    distances, rows = NearestNeighbors(n_neighbors=count, metric="cosine").fit(features).kneighbors(queries)
    return rows.astype(np.int64), (1 - distances).astype(np.float32)


def doubts(probabilities: Floats) -> Floats:
    """(n,) 1 - the margin between the two most probable classes, from probabilities (n, C): 1 is a tie."""
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities), dtype=np.float32)
    second, first = np.partition(probabilities, -2, axis=1)[:, -2:].T
    return np.asarray(1 - (first - second))


def choose_doubtful(probabilities: Floats, vectors: Floats, count: int, seed: int) -> Places:
    """Places (count,) of doubtful images that are unlike one another, in the order of their choice.

    k-means++ draws each image with a chance of its doubt times the squared distance to the nearest image before it. As
    BADGE (Ash et al. 2020, "Deep Batch Active Learning by Diverse, Uncertain Gradient Lower Bounds", arXiv 1906.03671),
    whose gradients have a value for each class and feature: here the margin stands for their length.
    """
    weights = doubts(probabilities).astype(np.float64)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    drawn: list[int] = []
    if np.count_nonzero(weights > 0) > count:  # k-means++ draws no image without a weight
        drawn = kmeans_plusplus(unit, count, sample_weight=weights, random_state=seed)[1].tolist()
    by_doubt = np.argsort(-weights, kind="stable").tolist()  # where all are like the chosen ones, it draws one again
    return np.array(list(dict.fromkeys(drawn + by_doubt))[:count], dtype=np.int64)
