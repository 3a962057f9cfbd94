"""torchvision's data sets by name -> a source; downloaded only on request."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets
from torchvision.datasets import VisionDataset

from vit.data.core.samples import Samples, Source
from vit.errors import DataError

Splits = dict[str, dict[str, str | bool]]  # our split -> the arguments with which torchvision opens it
Files = Sequence[tuple[str | os.PathLike[str], int]]  # path and class number


@dataclass(frozen=True)
class _DataSet:
    """One of torchvision's data sets."""

    open: Callable[..., VisionDataset]  # class or function that opens the data set
    splits: Splits  # splits of the data set under our names
    # function that lists files and labels without opening the files; None for sets that hold small arrays
    files: Callable[[VisionDataset], Files] | None = None


def _with_loader(dataset: Callable[..., VisionDataset], splits: Splits) -> _DataSet:
    """A data set that takes a function to open files. It gets one that returns the path and opens nothing."""
    return _DataSet(partial(dataset, loader=os.fspath), splits, lambda data: [data[i] for i in range(len(data))])


_BY_TRAIN: Splits = {"train": {"train": True}, "test": {"train": False}}
_BY_SPLIT: Splits = {"train": {"split": "train"}, "test": {"split": "test"}}
_WITH_VAL: Splits = {**_BY_SPLIT, "validation": {"split": "val"}}

SETS = {
    "mnist": _DataSet(datasets.MNIST, _BY_TRAIN),
    "fashion_mnist": _DataSet(datasets.FashionMNIST, _BY_TRAIN),
    "kmnist": _DataSet(datasets.KMNIST, _BY_TRAIN),
    "cifar10": _DataSet(datasets.CIFAR10, _BY_TRAIN),
    "cifar100": _DataSet(datasets.CIFAR100, _BY_TRAIN),
    "svhn": _DataSet(datasets.SVHN, _BY_SPLIT),
    "stl10": _DataSet(datasets.STL10, _BY_SPLIT),
    "food101": _with_loader(datasets.Food101, _BY_SPLIT),
    "dtd": _with_loader(datasets.DTD, _WITH_VAL),
    "flowers102": _with_loader(datasets.Flowers102, _WITH_VAL),
    "fgvc_aircraft": _with_loader(datasets.FGVCAircraft, _WITH_VAL),
    # these two have no public list of their files
    "gtsrb": _DataSet(datasets.GTSRB, _BY_SPLIT, lambda data: data._samples),
    "oxford_iiit_pet": _DataSet(
        datasets.OxfordIIITPet,
        {"train": {"split": "trainval"}, "test": {"split": "test"}},
        lambda data: list(zip(data._images, data._labels, strict=True)),
    ),
}


def read_torchvision_source(name: str, root: str | None, download: bool) -> Source:
    """List the images of one of SETS with its splits. DataError where files are not below `root`, or are damaged."""
    dataset = SETS[name]
    if root is None:
        fix = "give --data.root FOLDER, and --data.download true to download it"
        raise DataError(f"{name} needs the folder that holds it", fix)
    splits: dict[str, Samples] = {}
    class_names: tuple[str, ...] = ()
    root = str(Path(root).expanduser())
    for split, arguments in dataset.splits.items():
        try:
            data = dataset.open(root=root, download=download, **arguments)
            if dataset.files is None:
                is_first = isinstance(data, datasets.SVHN | datasets.STL10)  # channels come first
                arrays: Any = data.data.transpose(0, 2, 3, 1) if is_first else np.asarray(data.data)
                numbers = np.asarray(data.labels if is_first else data.targets, dtype=np.int64)
                paths = [f"{name}/{split}/{index:05d}" for index in range(len(arrays))]
                splits[split] = Samples(paths, numbers, arrays=arrays)
            else:  # our decoder opens them later, with its limits
                files = dataset.files(data)
                labels = np.fromiter((label for _, label in files), dtype=np.int64, count=len(files))
                splits[split] = Samples([os.path.relpath(path, root) for path, _ in files], labels, Path(root))
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            fix = "check --data.root, or add --data.download true"
            raise DataError(f"{name} could not be read from {root}: {reason}", fix) from error
        if split == "train":
            all_numbers = range(int(splits[split].labels.max()) + 1)
            class_names = tuple(map(str, getattr(data, "classes", None) or all_numbers))
    return Source(name, class_names, splits)
