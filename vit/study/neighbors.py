"""Nearest neighbors in the features of a frozen backbone: a classifier without training, beside the linear probe"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit.checkpoints.run import RunDirectory
from vit.data.split import SplitRow, read_splits
from vit.inference.nearest import NeighborClassifier
from vit.training.features import StoredFeatures

COUNTS = (1, 5, 20)  # numbers of neighbors, of which validation images choose one


def neighbor_accuracy(run: Path, stored: Sequence[StoredFeatures]) -> float:
    """Accuracy of nearest neighbors by cosine distance on the test images of a run.

    The neighbors are training images, weighted by the inverse of their distance. Of several numbers of neighbors the
    one with the highest validation accuracy counts.

    Args:
        run: a run folder whose splits.csv has content hashes.
        stored: features by the kinds of machines that computed them. The run has read all its features from one item.
    """
    splits = read_splits(RunDirectory(run).splits_path)
    names = {row.content_hash for rows in splits.values() for row in rows}
    own = max(stored, key=lambda one: len(names & one.place.keys()))
    (train, labels), (validation, val_labels), (test, test_labels) = (
        _features(splits[split], own) for split in ("train", "validation", "test")
    )
    found = []
    for count in sorted({min(count, len(train)) for count in COUNTS}):
        fitted = NeighborClassifier(train, labels, count)
        found.append((fitted.accuracy(validation, val_labels), -count, fitted))
    best = max(found, key=lambda one: one[:2])[2]  # of equally good ones the fewest neighbors
    return best.accuracy(test, test_labels)


def _features(rows: list[SplitRow], stored: StoredFeatures) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]:
    """Features (n, D) and labels (n,) of the images that have features."""
    kept = [row for row in rows if row.content_hash in stored.place]
    places = [stored.place[row.content_hash] for row in kept]
    return stored.values[places].numpy(), np.array([row.label for row in kept])
