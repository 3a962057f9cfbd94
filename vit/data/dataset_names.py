"""Names of data sets and splits, without heavy imports: a wrong DATA is an error before torch is imported."""

import os
from pathlib import Path

from vit.data.formats import has_image_extension
from vit.errors import DataError, UsageError, nearest

DIGITS = "digits"
TORCHVISION = frozenset(
    (
        "mnist",
        "fashion_mnist",
        "kmnist",
        "cifar10",
        "cifar100",
        "svhn",
        "stl10",
        "gtsrb",
        "food101",
        "dtd",
        "flowers102",
        "fgvc_aircraft",
        "oxford_iiit_pet",
    )
)
KNOWN = TORCHVISION | {DIGITS}
SPLIT_SYNONYMS = {  # split -> names of its folder, or in the column of a table
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val"),
    "test": ("test", "testing"),
}
INDEX_NAME = "index.parquet"  # of shards, in their folder
FAR = ("https://", "http://", "s3://", "gs://")  # where images may lie on other machines
LAYOUT = "expected FOLDER/<class>/<image>, FOLDER/train/<class>/<image>, or a CSV with the columns path,label[,split]"


def is_far(name: str) -> bool:
    """Whether a name is the address of data on other machines."""
    return name.startswith(FAR)


def is_index(data: str) -> bool:
    """Whether DATA is an index, or a folder with one. An address is one, if it is not that of an image."""
    path = Path(data).expanduser()
    if is_far(data):
        return not has_image_extension(path)
    return path.is_file() if path.suffix == ".parquet" else (path / INDEX_NAME).is_file()


def check_data(data: str) -> None:
    """Check that DATA is a file, a folder, an address or a known name.

    Raises:
        UsageError: it looks like an unknown name, or an address of another kind.
        DataError: it looks like a path, and nothing is there.
    """
    if is_far(data):
        return
    if "://" in data:
        raise UsageError(f"DATA {data!r} is not a kind of address that vit reads", f"give one of {', '.join(FAR)}")
    path = Path(data).expanduser()
    if path.is_dir() or path.is_file() or data in KNOWN:
        return
    if os.sep in data or path.suffix:
        raise DataError(f"there is no {data}", LAYOUT)
    raise UsageError(f"DATA {data!r} is not a folder, a file or a known data set", nearest(data, KNOWN))
