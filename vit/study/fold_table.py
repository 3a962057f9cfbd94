"""Out-of-fold predictions: each image with all class probabilities of the network that has not trained on it"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, read_table
from vit.data.core.samples import Labels, Samples
from vit.errors import DataError
from vit.inference.scores.scored_images import Floats, ScoredImages

COLUMNS = ("path", "label", "predicted", "probability", "fold", "group")
OF_CLASS = "p_"  # before the name of a class: the column of its probability


@dataclass(frozen=True)
class FoldPredictions:
    """Images with the probabilities of networks that have not trained on them. Entries at one index belong together."""

    class_names: tuple[str, ...]  # C names in the order of their numbers
    paths: tuple[str, ...]  # (n,) absolute paths of files; names where a data set has no files
    labels: Labels  # (n,) given class numbers
    probabilities: Floats  # (n, C) calibrated probabilities
    folds: Labels  # (n,) number of the fold whose network has not seen the image, from 1
    groups: tuple[str, ...]  # (n,) group of each image; "" where images have none

    @classmethod
    def of_fold(
        cls, scored: ScoredImages, samples: Samples, class_names: tuple[str, ...], fold: int
    ) -> "FoldPredictions":
        """The predictions of one fold.

        Args:
            fold: number of the fold, from 1.
        """
        root = samples.root.resolve() if samples.root is not None else ""
        group_of = {} if samples.groups is None else dict(zip(samples.paths, samples.groups, strict=True))
        return cls(
            class_names,
            tuple(os.path.join(root, path) for path in scored.paths),
            scored.labels,
            scored.probabilities,
            np.full(len(scored.labels), fold),
            tuple(group_of.get(path, "") for path in scored.paths),
        )

    @classmethod
    def joined(cls, parts: Sequence["FoldPredictions"]) -> "FoldPredictions":
        """The predictions of all folds, in the order of the folds.

        Raises:
            DataError: the folds have different classes.
        """
        if any(part.class_names != parts[0].class_names for part in parts):
            raise DataError("the folds have different classes", "move the folder elsewhere, and start again")
        return cls(
            parts[0].class_names,
            tuple(path for part in parts for path in part.paths),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
            np.concatenate([part.folds for part in parts]),
            tuple(group for part in parts for group in part.groups),
        )

    @property
    def predictions(self) -> Labels:
        """(n,) class numbers of the largest probabilities."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def correct(self) -> "np.typing.NDArray[np.bool_]":
        """(n,) whether the prediction is the given label."""
        return np.asarray(self.predictions == self.labels)

    def write(self, path: Path) -> None:
        """Write a row for every image."""
        path.parent.mkdir(parents=True, exist_ok=True)
        own = self.probabilities[np.arange(len(self.labels)), self.labels]
        columns = (self.paths, self.labels, self.predictions, own, self.folds, self.groups, self.probabilities)
        header = (*COLUMNS, *(OF_CLASS + name for name in self.class_names))
        with atomic_write(path) as partial, new_table(partial, header, digits=6) as table:
            for name, label, guess, probability, fold, group, row in zip(*columns, strict=True):
                words = (name, self.class_names[label], self.class_names[guess])
                table.row((*words, float(probability), int(fold), group, *map(float, row)))

    @classmethod
    def read(cls, path: Path) -> "FoldPredictions":
        """The predictions that `write` wrote.

        Raises:
            DataError: the file is missing, or is not as `write` wrote it.
        """
        try:
            header, rows = read_table(path)
            first = len(COLUMNS)
            names = tuple(name.removeprefix(OF_CLASS) for name in header[first:])
            if tuple(header[:first]) != COLUMNS or not names or not rows:
                raise ValueError(f"its first columns are not {','.join(COLUMNS)}")
            if any(len(row) != len(header) for row in rows):
                raise ValueError("its rows are of different lengths")
            number = {name: place for place, name in enumerate(names)}
            labels = np.array([number[row[1]] for row in rows], dtype=np.int64)
            probabilities = np.array([row[first:] for row in rows], dtype=np.float32)
            if not (np.isfinite(probabilities).all() and (probabilities >= 0).all() and (probabilities <= 1).all()):
                raise ValueError("it has numbers that are not probabilities")
            folds = np.array([int(row[4]) for row in rows], dtype=np.int64)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{path} is not a table of folds: {error}", "restore it, or run 'vit crossval' again"
            ) from error
        return cls(names, tuple(row[0] for row in rows), labels, probabilities, folds, tuple(row[5] for row in rows))
