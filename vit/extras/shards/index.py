"""`index.parquet`: where each image of a set of shards lies, and its label, split and group.

The metadata of the file hold the class names in their order. Without them, `sorted_classes` orders them.
"""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vit.data.core.dataset_names import SPLIT_OF_NAME
from vit.data.core.image_bytes import MAX_BYTES
from vit.errors import DAMAGE, DataError, explained, nearest, some_of
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task

COLUMNS = ("key", "label", "split", "group", "shard", "offset", "length", "sha256")
_METADATA = b"vit"
_MADE_BY = "make the index with 'vit data index'"

Numbers = npt.NDArray[np.int64]


class IndexRow(NamedTuple):
    """A row of an index that is written. The file has the path of the shard, and the sha256 as text."""

    key: str  # path of the image in its shard, without ending; unique
    label: str  # class name; several labels as `label_text` writes them
    split: str  # train, validation or test
    group: str  # the group of the image, such as its patient; "" where images have none
    shard: int  # number of the shard, whose path is relative to the index
    offset: int  # first byte of the encoded image in the shard
    length: int  # number of bytes
    sha256: bytes  # hash of these bytes
    content_hash: str  # hash by which runs recognize an image; "" where an index of others does not have it


@dataclass(frozen=True)
class ShardIndex:
    """The columns of an index that is read, as of `IndexRow`. Entries at one place belong together."""

    keys: Sequence[str]
    labels: Sequence[str]
    splits: Sequence[str]
    groups: Sequence[str]
    shards: Numbers
    offsets: Numbers
    lengths: Numbers
    sha256: Sequence[bytes]
    content_hashes: Sequence[str]
    shard_names: tuple[str, ...]  # paths of the shards
    class_names: tuple[str, ...]  # classes in the order of their numbers; (): not stated
    task: Task  # whether an image has one class, or any number of labels

    def __len__(self) -> int:
        return len(self.keys)

    def shard_ends(self) -> Numbers:
        """(S,) number of bytes that each shard has at least."""
        ends = np.zeros(len(self.shard_names), dtype=np.int64)
        np.maximum.at(ends, self.shards, self.offsets + self.lengths)
        return ends


def write_index(
    rows: Sequence[IndexRow], shard_names: Sequence[str], class_names: Sequence[str], path: Path, task: Task
) -> None:
    """Write an index. Equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [[*row[:4], shard_names[row.shard], *row[5:7], row.sha256.hex(), row.content_hash] for row in rows]
    kinds = [pa.int64() if name in ("offset", "length") else pa.string() for name in IndexRow._fields]
    columns = [pa.array([row[place] for row in texts], kind) for place, kind in enumerate(kinds)]
    ours = {"class_names": list(class_names), "several_labels": task is MULTI_LABEL}
    table = pa.table(columns, IndexRow._fields).replace_schema_metadata({_METADATA: json.dumps(ours)})
    pq.write_table(table, path, compression="zstd")


def read_index(content: bytes, where: str) -> ShardIndex:
    """Read an index. It is an untrusted file: every value that decides where bytes are read is checked.

    DataError, which names the path of the index, where it is not an index or a row is wrong.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with explained(DataError, f"{where} is not a parquet file", _MADE_BY, (pa.ArrowException, OSError, ValueError)):
        table = pq.read_table(io.BytesIO(content))
    missing = [name for name in COLUMNS if name not in table.column_names and name != "group"]
    if missing:
        problem = f"{where} lacks the column {' and '.join(missing)}; it has {some_of(table.column_names, 10)}"
        raise DataError(problem, f"an index has the columns {','.join(COLUMNS)}; {_MADE_BY}")

    def column(name: str, missing: str | int = "") -> list[Any]:
        if name not in table.column_names:
            return [missing] * table.num_rows
        kind = pa.string() if missing == "" else pa.int64()
        with explained(DataError, f"{where}: the column {name} is not of type {kind}", _MADE_BY, pa.ArrowException):
            return list(table.column(name).cast(kind).fill_null(missing).to_pylist())

    of_rows, hashes, splits = column("shard"), column("sha256"), column("split")
    shard_names = _shard_names(of_rows, where)
    numbers = {name: number for number, name in enumerate(shard_names)}
    known = SPLIT_OF_NAME | {"": "train"}
    unknown = min((name for name in set(splits) if name.casefold() not in known), default=None)
    if unknown is not None:
        raise DataError(f"{where}: a split is {unknown!r}", nearest(unknown.casefold(), known.keys() - {""}))
    wrong = next((text for text in hashes if not re.fullmatch("[0-9a-fA-F]{64}", text)), None)
    if wrong is not None:
        raise DataError(f"{where}: the column sha256 has {wrong[:70]!r}; a hash has 64 hexadecimal digits", _MADE_BY)
    class_names, task = _described(table.schema.metadata or {}, where)
    index = ShardIndex(
        keys=column("key"),
        labels=column("label"),
        splits=[known[name.casefold()] for name in splits],
        groups=column("group"),
        shards=np.array([numbers[name] for name in of_rows], dtype=np.int64),
        offsets=np.array(column("offset", -1), dtype=np.int64),
        lengths=np.array(column("length", -1), dtype=np.int64),
        sha256=[bytes.fromhex(text) for text in hashes],
        content_hashes=column("content_hash"),
        shard_names=shard_names,
        class_names=class_names,
        task=task,
    )
    _check(index, where)
    return index


def _shard_names(names: list[str], where: str) -> tuple[str, ...]:
    """The different names in their order."""
    shard_names = sorted(set(names))
    for name in shard_names:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts or ":" in name or "\\" in name or "\0" in name:
            problem = f"{where}: the shard {name!r} is not a path below the index"
            raise DataError(problem, "give paths relative to the index")
    return tuple(shard_names)


def _described(metadata: dict[bytes, bytes], where: str) -> tuple[tuple[str, ...], Task]:
    if _METADATA not in metadata:
        return (), SINGLE_LABEL
    with explained(DataError, f"{where}: its class names are damaged", _MADE_BY, DAMAGE):
        ours = json.loads(metadata[_METADATA])
        names, several = tuple(ours["class_names"]), ours["several_labels"]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("class names must be different texts")
        return names, MULTI_LABEL if several else SINGLE_LABEL


def _check(index: ShardIndex, where: str) -> None:
    """Raise DataError where a row cannot be read."""
    seen: set[str] = set()
    for row, key in enumerate(index.keys):
        if not key or key in seen:
            problem = f"row {row}: the key {key!r} stands twice" if key else f"row {row} has no key"
            raise DataError(f"{where}, {problem}", "each image needs a key of its own")
        seen.add(key)
        if not index.labels[row] and index.task.is_exclusive:
            raise DataError(f"{where}, row {row}: {key!r} has no label", "fill it in or remove the row")
    wrong = np.flatnonzero((index.offsets < 0) | (index.lengths < 1) | (index.lengths > MAX_BYTES))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{where}, row {row}: {index.keys[row]!r} has offset {index.offsets[row]} and length {index.lengths[row]}",
            f"lengths are 1 to {MAX_BYTES:,} bytes; {_MADE_BY}",
        )
