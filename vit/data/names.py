"""Names of data sets, without the libraries that read them: a DATA that is not there is refused before torch is."""

import os
from pathlib import Path

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
LAYOUT = "expected FOLDER/<class>/<image>, FOLDER/train/<class>/<image>, or a CSV with the columns path,label[,split]"


def check_data(data: str) -> None:
    """Raise an error if DATA is neither a file, a folder nor a known name.

    Raises:
        UsageError: it looks like a name.
        DataError: it looks like a path.
    """
    path = Path(data).expanduser()
    if path.is_dir() or path.is_file() or data in KNOWN:
        return
    if os.sep in data or path.suffix:
        raise DataError(f"there is no {data}", LAYOUT)
    raise UsageError(f"DATA is {data!r}, no folder and no known data set", nearest(data, KNOWN))
