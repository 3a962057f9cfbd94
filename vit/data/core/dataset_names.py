"""Names of data sets and splits, without heavy imports: a wrong DATA is an error before torch is imported."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from vit.data.core.image_files import has_image_extension
from vit.errors import DataError, UsageError, nearest, path_beside
from vit.layout import RunLayout
from vit.registry import SOURCES

if TYPE_CHECKING:
    from vit.data.core.samples import Source

DIGITS = "digits"
TORCHVISION = frozenset((
    "mnist", "fashion_mnist", "kmnist", "cifar10", "cifar100", "svhn", "stl10", "gtsrb", "food101", "dtd", "flowers102",
    "fgvc_aircraft", "oxford_iiit_pet",
))  # fmt: skip
KNOWN = TORCHVISION | {DIGITS}
PHOTOGRAPHS = frozenset(  # images of more than 64 pixels
    ("stl10", "food101", "dtd", "flowers102", "fgvc_aircraft", "oxford_iiit_pet")
)
SPLIT_SYNONYMS = {  # split -> names of its folder, or in the column of a table
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val"),
    "test": ("test", "testing"),
}
SPLIT_OF_NAME = {name: split for split, names in SPLIT_SYNONYMS.items() for name in names}
# word in the name of a file or folder -> split; the last three as Hugging Face names splits, too
SPLIT_OF_WORD = {**SPLIT_OF_NAME, "dev": "validation", "eval": "test", "evaluation": "test"}
_THINGS = "(?:sets?|data|images?|imgs?|files?|folder|split)?"  # beside such a word: trainset, images_train
_SPLIT_WORD = re.compile(f"{_THINGS}({'|'.join(sorted(SPLIT_OF_WORD, key=len, reverse=True))}){_THINGS}")
PARQUET = ".parquet"
INDEX_NAME = "index.parquet"  # of shards, in their folder
PREDICTED_NAME = "labels_are_predictions.txt"  # lies beside the class folders of `vit predict --sort_into`
FAR = ("https://", "http://", "s3://", "gs://")  # where images may lie on other machines
HUB = "hf:"  # begins the name of a data set of the Hugging Face hub
_PART = r"[A-Za-z0-9][\w.-]*"  # of a name of the hub
_HUB_NAME = re.compile(
    rf"{HUB}(?P<repository>{_PART}(/{_PART})?)(/(?P<config>[\w.,+/-]+))?(@(?P<revision>[\w./-]+))?", re.ASCII
)
LAYOUT = "expected FOLDER/<class>/<image>, FOLDER/train/<class>/<image>, or a CSV with the columns path,label[,split]"


@dataclass(frozen=True)
class TableColumns:
    """Columns of a parquet table or of a CSV that are given by name."""

    # None: the only such column, or the one with a usual name
    image: str | None = None  # column of encoded images, or of paths in a CSV
    label: str | None = None  # column of labels

    @property
    def by_option(self) -> dict[str, str]:
        """{option: column} of those that are given."""
        both = {"image_column": self.image, "label_column": self.label}
        return {option: name for option, name in both.items() if name is not None}

    def refuse(self, data: str) -> None:
        """Raise UsageError if a column is given, because DATA has none."""
        for option, name in self.by_option.items():
            problem = f"{option} {name!r} is for parquet tables and CSV files, and {data} is neither"
            raise UsageError(problem, "leave it out")


@dataclass(frozen=True)
class HubName:
    """A data set of the Hugging Face hub, as hf:NAME[/CONFIG][@REVISION] names it."""

    repository: str  # ORGANIZATION/NAME; or NAME alone, which the hub still knows for old data sets
    config: str | None = None  # one of the data sets of the repository; None: the only one
    revision: str | None = None  # commit, tag or branch; None: the newest

    def __str__(self) -> str:
        config = f"/{self.config}" if self.config else ""
        return f"{HUB}{self.repository}{config}" + (f"@{self.revision}" if self.revision else "")


def check_hub_name(data: str) -> HubName:
    """The parts of hf:NAME[/CONFIG][@REVISION]. UsageError where it is written in another way."""
    match = _HUB_NAME.fullmatch(data)
    if match is None:
        raise UsageError(
            f"DATA {data!r} is not a data set of the Hugging Face hub",
            "give hf:NAME, hf:ORGANIZATION/NAME or hf:ORGANIZATION/NAME/CONFIG, with @REVISION where one is wanted",
        )
    return HubName(match["repository"], match["config"], match["revision"])


def words_of(text: str) -> list[str]:
    """The words of a name, in lower case: digits, dots and other characters lie between them."""
    return [word for word in re.split(r"[^a-z]+", text.casefold()) if word]


def split_in(name: str) -> str | None:
    """The split that is a word in a folder's name, as in seg_train, test_set or val_1; None for no or two splits."""
    splits = {SPLIT_OF_WORD[match[1]] for word in words_of(name) if (match := _SPLIT_WORD.fullmatch(word))}
    return splits.pop() if len(splits) == 1 else None


def last_split(path: str) -> str | None:
    """The split that the last of the words for splits in a path names; None where it has no such word."""
    return next((SPLIT_OF_WORD[word] for word in reversed(words_of(path)) if word in SPLIT_OF_WORD), None)


def is_far(name: str) -> bool:
    """Whether a name is the address of data on other machines."""
    return name.startswith(FAR)


def is_gone(data: str) -> bool:
    """Whether DATA as a run keeps it is a path that is not there any more."""
    return (path := Path(data).expanduser()).is_absolute() and not path.exists()


def is_parquet(data: str) -> bool:
    """Whether DATA is read through parquet: an index of shards, tables with images, a folder with either, or hf:NAME.

    An address is one, if it is not that of an image.
    """
    path = Path(data).expanduser()
    if data.startswith(HUB) or is_far(data):
        return not (is_far(data) and has_image_extension(path))
    if path.is_dir():
        return (path / INDEX_NAME).is_file() or bool(parquet_names(path))
    return path.suffix == PARQUET and path.is_file()


class TableSource(Protocol):
    """Opens DATA that `is_parquet`. A column or a library that is not there is a UsageError; see also `open_source`."""

    def open_source(self, data: str, columns: TableColumns, needs_train: bool) -> "Source":
        """List the images with their labels; with `needs_train` the training images define the classes."""

    def list_images(self, data: str, columns: TableColumns) -> "Source":
        """List the images without their labels, in whatever splits."""

    def has_columns(self, data: str) -> bool:
        """Whether DATA has columns that are given by name; an index of shards has none."""


def table_source(data: str) -> TableSource:
    """What opens DATA that `is_parquet`."""
    return cast(TableSource, SOURCES["hub" if data.startswith(HUB) else "tables"].import_module())


def parquet_names(folder: Path) -> list[str]:
    """Names of the parquet files in a folder, or in its folder `data`; none if it has other folders beside files."""
    try:
        visible = [name for name in os.listdir(folder) if not name.startswith(".")]
        files = [name for name in visible if name.endswith(PARQUET) and os.path.isfile(folder / name)]
        if not files and "data" in visible:
            inner = [f"data/{name}" for name in os.listdir(folder / "data") if name.endswith(PARQUET)]
            files = [name for name in inner if os.path.isfile(folder / name)]
    except OSError:
        return []  # whoever lists the folder says why
    if not files:
        return []
    folders = {name for name in visible if os.path.isdir(folder / name)}
    return sorted(files) if folders <= {Path(files[0]).parts[0]} else []


def check_data(data: str) -> None:
    """Raise an error if DATA is not a file, a folder, an address or a known name: DataError if it looks like a path."""
    if data.startswith(HUB):
        check_hub_name(data)
    if data.startswith(HUB) or is_far(data):
        return
    if "://" in data:
        raise UsageError(f"DATA {data!r} is not a kind of address that vit reads", f"give one of {', '.join(FAR)}")
    path = Path(data).expanduser()
    if RunLayout(path).is_run:
        fix = f"train it further: vit train {shlex.quote(data)} --epochs N"
        raise UsageError(f"DATA {data} is a run folder, not images", fix)
    if path.is_dir() or path.is_file() or data in KNOWN:
        return
    if os.sep in data or path.suffix:
        raise DataError(f"there is no {data}{path_beside(path)}", LAYOUT)
    problem = f"DATA {data!r} is not a folder, a file or a known data set{path_beside(path)}"
    raise UsageError(problem, nearest(data, KNOWN))
