"""Out-of-fold predictions, by networks that have not trained on the images, and the labels that they doubt"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, read_table
from vit.data.core.samples import Labels, Samples
from vit.data.splits.split import SplitRow
from vit.errors import DAMAGE, DataError, explained
from vit.inference.scores.image_groups import numbered
from vit.inference.scores.intervals import Metric, balanced_accuracy, like_guessing
from vit.inference.scores.scored_images import Floats, ScoredImages

COLUMNS = ("path", "label", "predicted", "label_probability", "fold", "group")
OF_CLASS = "p_"  # before the name of a class: the column of its probability


@dataclass(frozen=True)
class FoldPredictions:
    """Images with the probabilities of networks that have not trained on them. Entries at one index belong together."""

    class_names: tuple[str, ...]  # C names in the order of their numbers
    paths: tuple[str, ...]  # (n,) absolute paths of files; names where a data set has no files
    labels: Labels  # (n,) given class numbers
    probabilities: Floats  # (n, C) calibrated probabilities; a table has all digits of a float32, so that none is tied
    folds: Labels  # (n,) number of the fold whose network has not seen the image, from 1
    groups: tuple[str, ...]  # (n,) group of each image; "" where images have none

    @classmethod
    def of_fold(
        cls, scored: ScoredImages, samples: Samples, class_names: tuple[str, ...], fold: int
    ) -> "FoldPredictions":
        """The predictions of one fold; folds are numbered from 1."""
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
        """The predictions of all folds, in the order of the folds. DataError where the folds have different classes."""
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
    def correct(self) -> npt.NDArray[np.bool_]:
        """(n,) whether the prediction is the given label."""
        return np.asarray(self.predictions == self.labels)

    @property
    def balanced(self) -> Metric:
        """The mean recall of the classes, with an interval that does not know of the folds."""
        return balanced_accuracy(self.labels, self.correct, len(self.class_names), numbered(self.groups))

    @property
    def guessing(self) -> list[str]:
        """A warning where the networks are not shown to be better than guesses."""
        return like_guessing(self.balanced, 1 / len(np.unique(self.labels)))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = self.probabilities[np.arange(len(self.labels)), self.labels]
        columns = (self.paths, self.labels, self.predictions, own, self.folds, self.groups, self.probabilities)
        header = (*COLUMNS, *(OF_CLASS + name for name in self.class_names))
        with atomic_write(path) as partial, new_table(partial, header) as table:
            for name, label, guess, probability, fold, group, row in zip(*columns, strict=True):
                texts = (name, self.class_names[label], self.class_names[guess])
                table.row((*texts, float(str(probability)), int(fold), group, *(float(str(p)) for p in row)))

    @classmethod
    def read(cls, path: Path) -> "FoldPredictions":
        """The predictions that `write` wrote. DataError where the file is missing, or is not as `write` wrote it."""
        with explained(DataError, f"{path} is not a table of folds", "restore it, or run 'vit crossval' again", DAMAGE):
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
        return cls(names, tuple(row[0] for row in rows), labels, probabilities, folds, tuple(row[5] for row in rows))


class CheckedImage(NamedTuple):
    """An image whose label is checked."""

    split: str
    place: int
    row: SplitRow


@dataclass(frozen=True)
class LabelErrors:
    """Labels that are probably wrong."""

    ranking: Labels  # (n,) indices of all images, the most suspicious first
    num_suspects: int  # number of images whose label is probably wrong
    suggested: Labels  # (n,) suggested class of each image: the most probable class but the given one
    label_probability: npt.NDArray[np.float64]  # (n,) probability of the given class
    # (C, C) confident joint: images with their given class in rows that are confidently of the class in the column
    joint: Labels
    noise: float  # estimated fraction of wrong labels, from the joint

    @property
    def suspects(self) -> Labels:
        """Indices of the images whose label is probably wrong, the most suspicious first."""
        return self.ranking[: self.num_suspects]


def find_label_errors(labels: Labels, probabilities: npt.ArrayLike) -> LabelErrors:
    """Confident learning: find labels that are probably wrong, from given labels and out-of-fold probabilities.

    Northcutt, Jiang and Chuang 2021, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 70, arXiv
    1911.00068. The threshold of a class is the mean probability of the class among the images with its label. An image
    is confidently of the most probable of those classes whose thresholds it reaches (equation 1). Given and confident
    classes are counted in the confident joint, which estimates the fraction of wrong labels (equation 3). The images
    are ranked by self-confidence, the probability of the given class (section 3.3). Those whose label is the most
    probable class come last. As many as are estimated to be wrong are the suspects (docs/measurements.md, "Choices").

    Args:
        probabilities: (n, C) probabilities from networks that have not trained on the image: a network learns wrong
            labels by heart.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    rows, num_classes = np.arange(len(labels)), scores.shape[1]
    confidence = scores[rows, labels]
    counts = np.bincount(labels, minlength=num_classes)
    thresholds = np.bincount(labels, confidence, num_classes) / np.maximum(counts, 1)
    others = scores.copy()
    others[rows, labels] = -np.inf
    suggested = others.argmax(axis=1)
    is_doubted = confidence < scores[rows, suggested]
    above = (scores >= thresholds) & (counts > 0)
    is_confident = above.any(axis=1)
    confident = np.where(above, scores, -np.inf).argmax(axis=1)
    joint = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(joint, (labels[is_confident], confident[is_confident]), 1)
    in_rows = joint.sum(axis=1)
    right = np.divide(np.diag(joint), in_rows, out=np.ones(num_classes), where=in_rows > 0)
    noise = 1 - float((right * counts).sum() / counts.sum())  # each row is scaled to its number of labels
    num_suspects = min(round(noise * len(labels)), int(is_doubted.sum()))
    return LabelErrors(np.lexsort((confidence, ~is_doubted)), num_suspects, suggested, confidence, joint, noise)
