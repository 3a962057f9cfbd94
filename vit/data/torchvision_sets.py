"""torchvision's data sets by name, read from their folder; fetched only when the user says so."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torchvision import datasets

from vit.data.samples import Samples, Source
from vit.errors import DataError

Splits = dict[str, dict[str, Any]]  # our split -> the arguments by which torchvision opens it

_BY_TRAIN: Splits = {"train": {"train": True}, "test": {"train": False}}
_BY_SPLIT: Splits = {"train": {"split": "train"}, "test": {"split": "test"}}
_WITH_VAL: Splits = {**_BY_SPLIT, "validation": {"split": "val"}}

SETS: dict[str, tuple[Callable[..., Any], Splits]] = {
    "mnist": (datasets.MNIST, _BY_TRAIN),
    "fashion_mnist": (datasets.FashionMNIST, _BY_TRAIN),
    "kmnist": (datasets.KMNIST, _BY_TRAIN),
    "cifar10": (datasets.CIFAR10, _BY_TRAIN),
    "cifar100": (datasets.CIFAR100, _BY_TRAIN),
    "svhn": (datasets.SVHN, _BY_SPLIT),
    "stl10": (datasets.STL10, _BY_SPLIT),
    "gtsrb": (datasets.GTSRB, _BY_SPLIT),
    "food101": (datasets.Food101, _BY_SPLIT),
    "dtd": (datasets.DTD, _WITH_VAL),
    "flowers102": (datasets.Flowers102, _WITH_VAL),
    "fgvc_aircraft": (datasets.FGVCAircraft, _WITH_VAL),
    "oxford_iiit_pet": (datasets.OxfordIIITPet, {"train": {"split": "trainval"}, "test": {"split": "test"}}),
}


def read(name: str, root: str | None, download: bool) -> Source:
    """A torchvision data set with its own splits; DataError when its files are not below `root`."""
    make, arguments = SETS[name]
    if root is None:
        raise DataError(
            f"{name} needs the folder that holds it", "give --data.root FOLDER, and --data.download true to fetch it"
        )
    splits: dict[str, Samples] = {}
    classes: tuple[str, ...] = ()
    for split, values in arguments.items():
        try:
            data = make(root=root, download=download, **values)
            splits[split] = _samples(data, f"{name}/{split}")
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise DataError(
                f"{name} could not be read from {root}: {reason}", "check --data.root, or add --data.download true"
            ) from error
        if split == "train":
            classes = _class_names(data, splits[split])
    return Source(name, classes, splits)


def _samples(data: Any, name: str) -> Samples:
    """All images of a data set, as arrays where it holds them so, else decoded one after another."""
    if isinstance(data, datasets.SVHN | datasets.STL10):
        arrays, labels = data.data.transpose(0, 2, 3, 1), data.labels
    elif hasattr(data, "data") and hasattr(data, "targets"):
        arrays, labels = np.asarray(data.data), data.targets
    else:
        pairs = [(np.asarray(image.convert("RGB")), label) for image, label in data]
        arrays, labels = [pixels for pixels, _ in pairs], [label for _, label in pairs]
    paths = [f"{name}/{index:05d}" for index in range(len(arrays))]
    return Samples(paths, np.asarray(labels, dtype=np.int64), arrays=arrays)


def _class_names(data: Any, samples: Samples) -> tuple[str, ...]:
    names = getattr(data, "classes", None)
    if names is None:
        return tuple(str(number) for number in range(int(samples.labels.max()) + 1))
    return tuple(str(name) for name in names)
