"""A list of images with their labels, before any pixel is touched."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Images in a fixed order: names, labels, and pixels where the source holds them itself.

    Attributes:
        paths: a name for each image, relative to `root` for files.
        labels: (n,) class numbers.
        root: the folder that the paths are relative to; None when `arrays` has the pixels.
        arrays: n arrays (H, W) or (H, W, 3) uint8.
    """

    paths: Sequence[str]
    labels: Labels
    root: Path | None = None
    arrays: Sequence[npt.NDArray[np.uint8]] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def file(self, index: int) -> Path:
        """The file of one image of a folder."""
        if self.root is None:
            raise ValueError("these images are not files")
        return self.root / self.paths[index]

    def select(self, indices: npt.ArrayLike) -> "Samples":
        """The images at `indices`, in that order."""
        chosen = np.asarray(indices, dtype=np.int64)
        arrays = None
        if self.arrays is not None:
            arrays = self.arrays[chosen] if isinstance(self.arrays, np.ndarray) else [self.arrays[i] for i in chosen]
        return Samples([self.paths[i] for i in chosen], self.labels[chosen], self.root, arrays)

    def fingerprint(self) -> str:
        """A hash of names and labels in order: two lists with one fingerprint hold the same images."""
        digest = hashlib.sha256()
        for path, label in zip(self.paths, self.labels.tolist(), strict=True):
            digest.update(path.encode("utf-8", "surrogateescape") + b"\0" + str(label).encode() + b"\n")
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Source:
    """What DATA turned out to be: class names, and the images of each split that it has.

    Attributes:
        name: short, for run folders and tables.
        class_names: names in the order of their numbers, made from the training images alone.
        splits: "train", and "validation" and "test" where the source has them.
        notes: what the user should be told: hidden files passed over, classes missing somewhere, ...
    """

    name: str
    class_names: tuple[str, ...]
    splits: dict[str, Samples]
    notes: list[str] = field(default_factory=list)
