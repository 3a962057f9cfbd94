"""The label and the split of each image of tar files: from its other files, its folders, and the names of the shards

label  KEY.cls, or else "label", "class", "class_name" or "cls" of KEY.json, or else the folder of KEY: the first of
       these that any image has, and then every image must have it
split  the first folder of the keys, such as train/ of train/cat/0, if that of every key is named like a split;
       or else the last word for a split in the path of the shard; or else all images are training images

Folders that all keys share, such as photos/ of photos/train/cat/0, may lie before those of the splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath

from vit.data.core.dataset_names import SPLIT_OF_WORD, last_split
from vit.errors import DataError, some_of
from vit.tasks.label_text import clean_label

JSON_NAMES = ("label", "class", "class_name", "cls")  # of the label in a .json


@dataclass
class TarImage:
    """An image of a tar file, and what its other files say; the offset is -1 until the image itself is found."""

    key: str
    shard: int
    offset: int = -1
    length: int = 0
    sha256: bytes = b""
    content_hash: str = ""
    cls: str = ""
    json_label: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of the folders of the key, the outermost first."""
        return PurePosixPath(self.key).parts[:-1]


@dataclass(frozen=True)
class Splits:
    """Where each image belongs."""

    of_images: list[str]  # split of each image
    # number of folders at the start of each key up to those of the splits; 0 where shards name the splits
    depth: int = 0


def find_splits(images: Sequence[TarImage], names: Sequence[str]) -> Splits:
    """The split of each image.

    Args:
        names: paths of the shards, relative to the index.

    Raises:
        DataError: some shards name a split and others do not, or some images lie in folders of splits and others not.
    """
    folders = [image.folders for image in images]
    firsts = [_names_at(folders, depth) for depth in range(_num_shared(folders) + 1)]
    for depth, words in enumerate(firsts):
        if all(word in SPLIT_OF_WORD for word in words):
            return Splits([SPLIT_OF_WORD[word] for word in words], depth + 1)
    of_shards = {number: last_split(names[number]) for number in sorted({image.shard for image in images})}
    unnamed = [names[number] for number, split in of_shards.items() if split is None]
    if len(unnamed) == len(of_shards):
        for words in firsts:
            _check_folders(words, images, names)
        return Splits(["train"] * len(images))
    if unnamed:
        raise DataError(
            f"{len(unnamed):,} of {len(of_shards):,} shards name no split, where others do: {some_of(unnamed)}",
            "put train, val or test into their names, such as train-000.tar, or move them out of SHARDS",
        )
    return Splits([of_shards[image.shard] or "train" for image in images])


def _num_shared(folders: Sequence[tuple[str, ...]]) -> int:
    """Number of folders at the start of all keys: those of the first key in order and of the last."""
    pairs = zip(min(folders), max(folders), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _names_at(folders: Sequence[tuple[str, ...]], depth: int) -> list[str]:
    """Lower-case name of the folder of each image at a depth; "" where its key has fewer folders."""
    return [parts[depth].casefold() if len(parts) > depth else "" for parts in folders]


def _check_folders(words: Sequence[str], images: Sequence[TarImage], names: Sequence[str]) -> None:
    """Raise DataError where there are folders for training and testing, and images beside them.

    One such folder may be a class: a train among cars and ships.
    """
    found = sorted({word for word in words if word in SPLIT_OF_WORD})
    if len({SPLIT_OF_WORD[word] for word in found}) > 1:
        beside = [image for image, word in zip(images, words, strict=True) if word not in SPLIT_OF_WORD]
        raise DataError(
            f"{_places(beside, names)}: beside the folders {', '.join(f'{word}/' for word in found)} "
            f"({len(beside):,} of {len(images):,} images)",
            "put them into one of these folders, or give each split shards of its own, such as train-000.tar",
        )


def find_labels(images: Sequence[TarImage], names: Sequence[str], depth: int) -> tuple[str, list[str]]:
    """Where the labels stand, and the label of each image.

    Args:
        names: paths of the shards, relative to the index.
        depth: number of folders at the start of each key that are not classes.

    Raises:
        DataError: an image has no label.
    """
    ways = {
        ".cls": [image.cls for image in images],
        ".json": [image.json_label for image in images],
        "folders": ["".join(image.folders[depth:][-1:]) for image in images],
    }
    way = next((way for way, labels in ways.items() if any(labels)), "folders")
    labels = [clean_label(label) for label in ways[way]]
    unlabeled = [image for image, label in zip(images, labels, strict=True) if not label.strip()]
    if not unlabeled:
        return way, labels
    verb = "has" if len(unlabeled) == 1 else "have"
    fix = f"give every image KEY.cls, KEY.json with {' or '.join(map(repr, JSON_NAMES[:2]))}, or a folder"
    if way != "folders":
        fix = f"give every image a label in KEY{way}, or remove all {way} files where other labels are meant"
    raise DataError(
        f"{_places(unlabeled, names)} {verb} no label "
        f"({len(images) - len(unlabeled):,} of {len(images):,} images have one in {way})",
        fix,
    )


def _places(images: Sequence[TarImage], names: Sequence[str]) -> str:
    """Shard and key of the first images."""
    first = images[0]
    if len(images) == 1:
        return f"{names[first.shard]}: {first.key!r}"
    return some_of(f"{names[image.shard]}: {image.key!r}" for image in images)
