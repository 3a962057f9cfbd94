"""torchvision's data sets by name, read from their folder; fetched only when the user says so."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets

from vit.data.samples import Samples, Source
from vit.errors import DataError

Splits = dict[str, dict[str, Any]]  # our split -> the arguments by which torchvision opens it
Files = Sequence[tuple[str | os.PathLike[str], int]]


@dataclass(frozen=True)
class _Set:
    """One of torchvision's data sets.

    Attributes:
        make: opens it.
        splits: its splits as ours.
        files: lists its image files with their labels, without opening any; None where it holds small arrays.
    """

    make: Callable[..., Any]
    splits: Splits
    files: Callable[[Any], Files] | None = None


def _of_loader(make: Callable[..., Any], splits: Splits) -> _Set:
    """A set that opens files by a function of ours: it is given one that leaves them closed."""
    return _Set(partial(make, loader=os.fspath), splits, lambda data: [data[place] for place in range(len(data))])


_BY_TRAIN: Splits = {"train": {"train": True}, "test": {"train": False}}
_BY_SPLIT: Splits = {"train": {"split": "train"}, "test": {"split": "test"}}
_WITH_VAL: Splits = {**_BY_SPLIT, "validation": {"split": "val"}}

SETS = {
    "mnist": _Set(datasets.MNIST, _BY_TRAIN),
    "fashion_mnist": _Set(datasets.FashionMNIST, _BY_TRAIN),
    "kmnist": _Set(datasets.KMNIST, _BY_TRAIN),
    "cifar10": _Set(datasets.CIFAR10, _BY_TRAIN),
    "cifar100": _Set(datasets.CIFAR100, _BY_TRAIN),
    "svhn": _Set(datasets.SVHN, _BY_SPLIT),
    "stl10": _Set(datasets.STL10, _BY_SPLIT),
    "food101": _of_loader(datasets.Food101, _BY_SPLIT),
    "dtd": _of_loader(datasets.DTD, _WITH_VAL),
    "flowers102": _of_loader(datasets.Flowers102, _WITH_VAL),
    "fgvc_aircraft": _of_loader(datasets.FGVCAircraft, _WITH_VAL),
    # these two have no public list of their files
    "gtsrb": _Set(datasets.GTSRB, _BY_SPLIT, lambda data: data._samples),
    "oxford_iiit_pet": _Set(
        datasets.OxfordIIITPet,
        {"train": {"split": "trainval"}, "test": {"split": "test"}},
        lambda data: list(zip(data._images, data._labels, strict=True)),
    ),
}


def read(name: str, root: str | None, download: bool) -> Source:
    """A torchvision data set with its own splits; DataError when its files are not below `root`."""
    known = SETS[name]
    if root is None:
        raise DataError(
            f"{name} needs the folder that holds it", "give --data.root FOLDER, and --data.download true to fetch it"
        )
    splits: dict[str, Samples] = {}
    class_names: tuple[str, ...] = ()
    root = str(Path(root).expanduser())
    for split, values in known.splits.items():
        try:
            data = known.make(root=root, download=download, **values)
            if known.files is None:
                splits[split] = _of_arrays(data, f"{name}/{split}")
            else:
                splits[split] = _of_files(known.files(data), root)
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise DataError(
                f"{name} could not be read from {root}: {reason}", "check --data.root, or add --data.download true"
            ) from error
        if split == "train":
            class_names = _class_names(data, splits[split])
    return Source(name, class_names, splits)


def _of_arrays(data: Any, name: str) -> Samples:
    """All images of a data set that holds them as small arrays."""
    if isinstance(data, datasets.SVHN | datasets.STL10):
        arrays, labels = data.data.transpose(0, 2, 3, 1), data.labels
    else:
        arrays, labels = np.asarray(data.data), data.targets
    paths = [f"{name}/{index:05d}" for index in range(len(arrays))]
    return Samples(paths, np.asarray(labels, dtype=np.int64), arrays=arrays)


def _of_files(files: Files, root: str) -> Samples:
    """The files of a data set, which our decoder opens one by one, with its limits."""
    labels = np.fromiter((label for _, label in files), dtype=np.int64, count=len(files))
    return Samples([os.path.relpath(path, root) for path, _ in files], labels, Path(root))


def _class_names(data: Any, samples: Samples) -> tuple[str, ...]:
    names = getattr(data, "classes", None)
    if names is None:
        return tuple(str(number) for number in range(int(samples.labels.max()) + 1))
    return tuple(str(name) for name in names)
