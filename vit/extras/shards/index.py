"""`index.parquet`: where each image of a set of shards lies, and its label, split and group.

column        content
key           path of the image in its shard, without ending; unique
label         class name; several labels as `label_text` writes them
split         train, validation or test
group         the group of the image, such as its patient; "" where images have none
shard         path of the shard, relative to the index
offset        first byte of the encoded image in the shard
length        number of bytes
sha256        hash of these bytes, 64 hexadecimal digits
content_hash  hash by which runs recognize an image (16 bytes of BLAKE2b); an index of others need not have it

The metadata of the file hold the class names in their order. Without them, classes are sorted by name.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.data.core.dataset_names import SPLIT_OF_NAME
from vit.data.core.image_bytes import MAX_BYTES
from vit.errors import DataError, nearest
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task

COLUMNS = ("key", "label", "split", "group", "shard", "offset", "length", "sha256")
CONTENT = "content_hash"
_METADATA = b"vit"
_SHA256_BYTES = 32

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardIndex:
    """The rows of an index. Entries at one place belong together.

    Attributes:
        keys: path of each image without its ending.
        labels: class name of each image, or its labels in one text.
        splits: split of each image.
        groups: group of each image; "" where it has none.
        shard_names: paths of the shards, relative to the index.
        shards: (n,) number of the shard of each image.
        offsets, lengths: (n,) first byte and number of bytes of each image.
        sha256: hash of each image, 32 bytes.
        content_hashes: content hash of each image; "" where it is not known.
        class_names: classes in the order of their numbers; () sorts the names of the training images.
        task: whether an image has one class, or any number of labels.
    """

    keys: Sequence[str]
    labels: Sequence[str]
    splits: Sequence[str]
    groups: Sequence[str]
    shard_names: tuple[str, ...]
    shards: Numbers
    offsets: Numbers
    lengths: Numbers
    sha256: Sequence[bytes]
    content_hashes: Sequence[str]
    class_names: tuple[str, ...] = ()
    task: Task = SINGLE_LABEL

    def __len__(self) -> int:
        return len(self.keys)

    def shard_ends(self) -> Numbers:
        """(S,) number of bytes that each shard has at least."""
        ends = np.zeros(len(self.shard_names), dtype=np.int64)
        np.maximum.at(ends, self.shards, self.offsets + self.lengths)
        return ends


def write_index(index: ShardIndex, path: Path) -> None:
    """Write an index. Equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def words(values: Sequence[str]) -> Any:
        return pa.array(values, pa.string())

    columns = {
        "key": words(index.keys),
        "label": words(index.labels),
        "split": words(index.splits),
        "group": words(index.groups),
        "shard": words([index.shard_names[number] for number in index.shards.tolist()]),
        "offset": pa.array(index.offsets, pa.int64()),
        "length": pa.array(index.lengths, pa.int64()),
        "sha256": words([digest.hex() for digest in index.sha256]),
        CONTENT: words(index.content_hashes),
    }
    ours = {"class_names": list(index.class_names), "several_labels": index.task is MULTI_LABEL}
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(ours)})
    pq.write_table(table, path, compression="zstd")


def read_index(content: bytes, where: str) -> ShardIndex:
    """Read an index. It is an untrusted file: every value that decides where bytes are read is checked.

    Args:
        content: the bytes of the file.
        where: path of the index, for errors.

    Raises:
        DataError: it is not an index, or a row is wrong.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"{where} is not a parquet file: {str(error).splitlines()[0][:200]}", "make it with 'vit data index'"
        ) from error
    missing = [name for name in COLUMNS if name not in table.column_names and name != "group"]
    if missing:
        raise DataError(
            f"{where} lacks the column {' and '.join(missing)}; its columns are {', '.join(table.column_names[:10])}",
            "an index has the columns " + ",".join(COLUMNS) + "; 'vit data index' makes one from shards",
        )

    def column(name: str, kind: Any, default: Any) -> Any:
        if name not in table.column_names:
            return [default] * table.num_rows
        try:
            return table.column(name).cast(kind).fill_null(default).combine_chunks()
        except pa.ArrowException as error:
            raise DataError(
                f"{where}: the column {name} is not of type {kind}", "make the index with 'vit data index'"
            ) from error

    def texts(name: str) -> list[str]:
        values = column(name, pa.string(), "")
        return values if isinstance(values, list) else values.to_pylist()

    shard_names, shards = _shards(texts("shard"), where)
    class_names, task = _described(table.schema.metadata or {}, where)
    index = ShardIndex(
        keys=texts("key"),
        labels=texts("label"),
        splits=_splits(texts("split"), where),
        groups=texts("group"),
        shard_names=shard_names,
        shards=shards,
        offsets=np.asarray(column("offset", pa.int64(), -1), dtype=np.int64),
        lengths=np.asarray(column("length", pa.int64(), -1), dtype=np.int64),
        sha256=_digests(texts("sha256"), where),
        content_hashes=texts(CONTENT),
        class_names=class_names,
        task=task,
    )
    _check(index, where)
    return index


def _shards(names: list[str], where: str) -> tuple[tuple[str, ...], Numbers]:
    """The names of all shards in their order, and the number of the shard of each row."""
    found = sorted(set(names))
    for name in found:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts or ":" in name or "\\" in name or "\0" in name:
            raise DataError(
                f"{where}: the shard {name!r} is not a path below the index", "give paths relative to the index"
            )
    numbers = {name: number for number, name in enumerate(found)}
    return tuple(found), np.fromiter((numbers[name] for name in names), dtype=np.int64, count=len(names))


def _described(metadata: dict[bytes, bytes], where: str) -> tuple[tuple[str, ...], Task]:
    """Class names, and the task."""
    if _METADATA not in metadata:
        return (), SINGLE_LABEL
    try:
        ours = json.loads(metadata[_METADATA])
        names, several = tuple(ours["class_names"]), ours["several_labels"]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("class names must be different texts")
        return names, MULTI_LABEL if several else SINGLE_LABEL
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{where}: its class names are damaged: {error}", "make it again with 'vit data index'"
        ) from error


def _splits(names: list[str], where: str) -> list[str]:
    known = SPLIT_OF_NAME | {"": "train"}
    unknown = sorted({name for name in set(names) if name.casefold() not in known})
    if unknown:
        raise DataError(f"{where}: a split is {unknown[0]!r}", nearest(unknown[0].casefold(), known.keys() - {""}))
    return [known[name.casefold()] for name in names]


def _digests(texts: list[str], where: str) -> list[bytes]:
    try:
        digests = [bytes.fromhex(text) for text in texts]
        if any(len(digest) != _SHA256_BYTES for digest in digests):
            raise ValueError("a hash has 64 hexadecimal digits")
    except ValueError as error:
        raise DataError(f"{where}: the column sha256: {error}", "make the index with 'vit data index'") from error
    return digests


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
            f"lengths are 1 to {MAX_BYTES:,} bytes; make the index with 'vit data index'",
        )
