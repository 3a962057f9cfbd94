"""Parquet tables as Hugging Face's libraries write them, for tests"""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def features(names: Sequence[str], column: str = "label", image: str = "image") -> dict[str, str]:
    """The metadata of a table with one column of images and one ClassLabel."""
    kinds = {image: {"_type": "Image"}, column: {"names": list(names), "_type": "ClassLabel"}}
    return {"huggingface": json.dumps({"info": {"features": kinds}})}


def rows_of(folder: Path, names: Sequence[str]) -> tuple[list[dict[str, object]], list[int]]:
    """The images of class folders and the numbers of their classes, class by class."""
    files = [(file, number) for number, name in enumerate(names) for file in sorted((folder / name).iterdir())]
    return [{"bytes": file.read_bytes(), "path": file.name} for file, _ in files], [number for _, number in files]


def write(path: Path, images: Sequence[object], labels: Sequence[object], names: Sequence[str] | None, **more) -> Path:
    """A table of images and labels; ClassLabel where names are given.

    Args:
        more: group_size, image_type, columns (further ones), and options of pyarrow.
    """
    kind = more.pop("image_type", IMAGE)
    size = more.pop("group_size", 7)
    columns = {"image": pa.array(images, kind), "label": pa.array(labels), **more.pop("columns", {})}
    table = pa.table(columns).replace_schema_metadata(None if names is None else features(names))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=size, **more)
    return path
