"""Tar files of others, in WebDataset's layout -> an index; no tar file is changed or unpacked

KEY.jpg is an image, and the other files of KEY, its folders and the names of the shards say what it shows:

label  KEY.cls, or else "label", "class", "class_name" or "cls" of KEY.json, or else the folder of KEY: the first of
       these that any image has, and then every image must have it
split  the first folder of the keys, such as train/ of train/cat/0, if that of every key is named like a split;
       or else the last word for a split in the path of the shard; or else all images are training images

Folders that all keys share, such as photos/ of photos/train/cat/0, may lie before those of the splits.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import IO

from vit.data.core.dataset_names import SPLIT_OF_WORD, last_split
from vit.data.core.image_bytes import MAX_BYTES, ImageError, content_hash
from vit.data.core.image_files import has_image_extension, is_hidden
from vit.data.pixels.decode import check_header
from vit.errors import DataError, explained, some_of
from vit.extras.shards.index import IndexRow, write_index
from vit.tasks.label_text import clean_label, sorted_classes
from vit.tasks.task import SINGLE_LABEL

JSON_NAMES = ("label", "class", "class_name", "cls")  # of the label in a .json
MAX_LABEL_BYTES = 1 << 20


@dataclass
class TarImage:
    """An image of a tar file, and what its other files say."""

    key: str
    shard: int
    place: tuple[int, int, bytes, str] | None = None  # the last columns of an index, once the image itself is found
    cls: str = ""
    json_label: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of the folders of the key, the outermost first."""
        return PurePosixPath(self.key).parts[:-1]


@dataclass
class IndexedTars:
    """The index of some tar files, and what it does not hold."""

    names: list[str]  # paths of the shards, relative to the index
    rows: list[IndexRow] = field(default_factory=list)  # the images
    labels_from: str = ""  # where the labels stand: ".cls", ".json" or "folders"
    has_split_folders: bool = False  # whether folders inside the shards name the splits, and not paths of the shards
    left_out: list[str] = field(default_factory=list)  # names of images that cannot be read, with the reason
    num_others: int = 0  # number of files that are neither images nor labels
    num_hidden: int = 0  # number of files of systems and programs, such as those in .thumbnails/

    def write(self, path: Path) -> None:
        """Write the index."""
        class_names = sorted_classes(row.label for row in self.rows if row.split == "train")
        write_index(self.rows, self.names, class_names, path, SINGLE_LABEL)


def find_splits(images: Sequence[TarImage], names: Sequence[str]) -> tuple[list[str], int]:
    """The split of each image, and the number of folders up to those of splits; 0 where shards name the splits.

    DataError where some shards, or some folders, name a split and others do not.

    Args:
        names: paths of the shards, relative to the index.
    """
    folders = [image.folders for image in images]
    pairs = zip(min(folders), max(folders), strict=False)  # of the first key in order and of the last
    num_shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))  # folders at the start of all keys
    # lower-case name of the folder of each image at a depth; "" where its key has fewer folders
    firsts = [["".join(parts[depth : depth + 1]).casefold() for parts in folders] for depth in range(num_shared + 1)]
    for depth, words in enumerate(firsts):
        if all(word in SPLIT_OF_WORD for word in words):
            return [SPLIT_OF_WORD[word] for word in words], depth + 1
    of_shards = {number: last_split(names[number]) for number in sorted({image.shard for image in images})}
    unnamed = [names[number] for number, split in of_shards.items() if split is None]
    if len(unnamed) == len(of_shards):
        for words in firsts:
            _check_folders(words, images, names)
        return ["train"] * len(images), 0
    if unnamed:
        raise DataError(
            f"{len(unnamed):,} of {len(of_shards):,} shards name no split, where others do: {some_of(unnamed)}",
            "put train, val or test into their names, such as train-000.tar, or move them out of SHARDS",
        )
    return [of_shards[image.shard] or "train" for image in images], 0


def _check_folders(words: Sequence[str], images: Sequence[TarImage], names: Sequence[str]) -> None:
    """Raise DataError where there are folders for training and testing, and images beside them.

    One such folder may be a class: a train among cars and ships.
    """
    split_words = sorted({word for word in words if word in SPLIT_OF_WORD})
    if len({SPLIT_OF_WORD[word] for word in split_words}) > 1:
        beside = [image for image, word in zip(images, words, strict=True) if word not in SPLIT_OF_WORD]
        raise DataError(
            f"{_places(beside, names)}: beside the folders {', '.join(f'{word}/' for word in split_words)} "
            f"({len(beside):,} of {len(images):,} images)",
            "put them into one of these folders, or give each split shards of its own, such as train-000.tar",
        )


def find_labels(images: Sequence[TarImage], names: Sequence[str], depth: int) -> tuple[str, list[str]]:
    """Where the labels stand, and the label of each image. DataError where an image has none.

    Args:
        names: paths of the shards, relative to the index.
        depth: number of folders at the start of each key that are not classes.
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
    return some_of(f"{names[image.shard]}: {image.key!r}" for image in images)


def index_tars(folder: Path, names: list[str], progress: Callable[[int, int], None]) -> IndexedTars:
    """Read every tar file once. Where two shards have the same key, the path of the shard comes before all keys.

    DataError where a file is not a whole tar file, or an image has no label or shares its key.

    Args:
        names: paths of the tar files, relative to the folder.
        progress: called with the number of finished and of all tar files.
    """
    images: list[TarImage] = []
    indexed = IndexedTars(names)
    for number, name in enumerate(names):
        entries: dict[str, TarImage] = {}
        _read_tar(folder / name, number, entries, indexed)
        images += [entry for entry in entries.values() if entry.place is not None]
        progress(number + 1, len(names))
    if not images:
        hidden = f" ({indexed.num_hidden:,} hidden or system files)" if indexed.num_hidden else ""
        problem = f"the {len(names):,} tar files of {folder} hold no images{hidden}"
        raise DataError(problem, "give the folder of image shards")
    splits, depth = find_splits(images, names)
    indexed.has_split_folders = depth > 0
    indexed.labels_from, labels = find_labels(images, names, depth)
    is_unique = len({one.key for one in images}) == len(images)
    for one, label, split in zip(images, labels, splits, strict=True):
        key = one.key if is_unique else f"{names[one.shard].removesuffix('.tar')}/{one.key}"
        assert one.place is not None
        indexed.rows.append(IndexRow(key, label, split, "", one.shard, *one.place))
    return indexed


def _read_tar(path: Path, number: int, entries: dict[str, TarImage], indexed: IndexedTars) -> None:
    """Add the images of a tar file to `entries`, and what they do not hold to `indexed`."""

    def add(name: PurePosixPath, member: tarfile.TarInfo) -> None:
        """Add an image, or what another file says of it."""
        stem, _, ending = name.name.partition(".")
        key = str(name.parent / stem) if name.parent.name else stem
        entry = entries.setdefault(key, TarImage(key, number))
        if (ending := ending.lower()) in ("cls", "json"):  # as of WebDataset, and of images
            _add_label(entry, ending, _member_bytes(file, member, MAX_LABEL_BYTES), f"{path}: {name}")
        elif stem and has_image_extension(name):
            _add_image(entry, file, member, f"{path}: {name}", indexed.left_out)
        else:
            indexed.num_others += 1

    fix = "restore it, or unpack and pack it again without gzip"
    whole = explained(DataError, f"{path} is not a whole tar file", fix, (tarfile.TarError, OSError, EOFError))
    with whole, open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every entry otherwise
            name = PurePosixPath(re.sub(r"^(\./|/)+", "", member.name))
            if member.isdir():
                continue
            if any(is_hidden(part) for part in name.parts if part != ".."):
                indexed.num_hidden += 1
            elif member.isreg() and not member.issparse():
                add(name, member)
            elif (member.islnk() or member.issym()) and has_image_extension(name):
                indexed.left_out.append(f"{path}: {name}: a link inside the tar file, to {member.linkname}")
            else:
                indexed.num_others += 1


def _member_bytes(file: IO[bytes], member: tarfile.TarInfo, limit: int) -> bytes:
    """The bytes of an entry. DataError where the entry is larger than the limit, OSError where the file ends before."""
    if member.size > limit:
        problem = f"{file.name}: {member.name} has {member.size:,} bytes; the limit is {limit:,}"
        raise DataError(problem, "make the file smaller, or leave it out of the tar file")
    file.seek(member.offset_data)
    data = file.read(member.size)
    if len(data) < member.size:
        raise OSError(f"it ends inside {member.name}")
    return data


def _add_image(entry: TarImage, file: IO[bytes], member: tarfile.TarInfo, where: str, left_out: list[str]) -> None:
    if entry.place is not None:
        raise DataError(f"{where}: the key {entry.key!r} has two images", "give each image a key of its own")
    data = _member_bytes(file, member, MAX_BYTES)
    try:
        if not data:
            raise ImageError(where, "not_image", "the file is empty")
        check_header(data, where)
    except ImageError as error:
        left_out.append(f"{where}: {error.reason}")
        return
    entry.place = member.offset_data, member.size, hashlib.sha256(data).digest(), content_hash(data)


def _add_label(entry: TarImage, ending: str, data: bytes, where: str) -> None:
    with explained(DataError, f"{where} is not UTF-8 text or JSON", "correct it, or move it elsewhere", ValueError):
        if ending == "cls":
            entry.cls = data.decode("utf-8").strip()
            return
        content = json.loads(data)
    if isinstance(content, dict):
        values = (content[name] for name in JSON_NAMES if name in content)
        entry.json_label = next((str(value).strip() for value in values if isinstance(value, str | int)), "")
