"""Embeddings of images: a Parquet file with a vector for each image, and what computed it"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vit.atomic_files import atomic_write
from vit.errors import DataError, UsageError, first_line
from vit.inference.prediction import Status, batched
from vit.inference.rows import parquet_text

_KEY = b"vit_embeddings"
_ROWS = 4096  # that are written at a time
_FIX = "make one with 'vit embed RUN photos/'"

Vectors = npt.NDArray[np.float32]  # (n, D)


@dataclass(frozen=True)
class EmbeddingModel:
    """What computed vectors. Vectors of different models cannot be compared."""

    source: str  # run, checkpoint or weights, as for `init_from`
    model_hash: str  # hash of the network's options and of its weights without the last layer
    network: str  # name of the network
    preprocess: dict[str, float | str | list[float]]  # values of `Preprocess`

    def check_same(self, file: "EmbeddingModel", path: Path) -> None:
        """Raise UsageError where a file has vectors of another model, or of another preprocessing."""
        again, ours = "make the file again with 'vit embed'", f"and {self.source}"
        if self.model_hash != file.model_hash:
            what = f"another model: {file.network} with the hash {file.model_hash}"
            ours += f" is {self.network} with the hash {self.model_hash}"
            raise UsageError(f"{path} has vectors of {what}, {ours}", f"give --model the model of the file, or {again}")
        if self.preprocess != file.preprocess:
            what = f"images that were prepared in another way: {file.preprocess}"
            raise UsageError(f"{path} has vectors of {what}, {ours} has {self.preprocess}", again)


@dataclass(frozen=True)
class Embedding:
    """The embedding of one file. Every file has exactly one."""

    path: str  # path as given or listed
    status: Status  # "ok", or why there is no vector: "unreadable", "not_image" or "too_large"
    vector: Vectors | None  # (D,) what the last layer of the network reads; None without an image
    content_hash: str = ""  # hash of the file's bytes, as in splits.csv; "" where they cannot be read
    error: str = ""  # reason for a missing vector; "" otherwise


def write_embeddings(path: Path, model: EmbeddingModel, width: int, rows: Iterable[Embedding]) -> None:
    """Write a new file whole or not at all, some rows with vectors (width,) at a time."""
    kinds = [("path", pa.string()), ("status", pa.string()), ("error", pa.string()), ("content_hash", pa.string())]
    about = {_KEY: json.dumps(asdict(model)).encode()}
    schema = pa.schema([*kinds, ("vector", pa.list_(pa.float32(), width))], metadata=about)
    with atomic_write(path, is_new=True) as partial, pq.ParquetWriter(partial, schema) as writer:
        for part in batched(rows, _ROWS):
            plain = [{**vars(row), "path": parquet_text(row.path), "error": parquet_text(row.error)} for row in part]
            writer.write_table(pa.Table.from_pylist(plain, schema=schema))


@dataclass(frozen=True)
class Embeddings:
    """The images of a file that have a vector."""

    model: EmbeddingModel  # what computed the vectors
    paths: list[str]  # (n,) paths
    content_hashes: list[str]  # (n,) hashes of the files' bytes
    vectors: Vectors  # (n, D)
    num_files: int  # number of rows of the file, also those without a vector

    @classmethod
    def read(cls, path: Path) -> "Embeddings":
        """The embeddings that `write_embeddings` wrote. DataError: the file is not such a file, or has no vector."""
        try:
            table = pq.read_table(path)
            model = EmbeddingModel(**json.loads((table.schema.metadata or {})[_KEY]))
            texts = (model.source, model.model_hash, model.network)
            if not all(isinstance(one, str) for one in texts) or not isinstance(model.preprocess, dict):
                raise ValueError("what it says of its model is damaged")
            rows = table.filter(pc.is_valid(table["vector"]))
            width = table.schema.field("vector").type.list_size
            values = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            paths, hashes = rows["path"].to_pylist(), rows["content_hash"].to_pylist()
        except KeyError as error:
            raise DataError(f"{path} is not a file of embeddings: it lacks {error}", _FIX) from error
        except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is not a file of embeddings: {first_line(error)}", _FIX) from error
        vectors = np.ascontiguousarray(values, dtype=np.float32).reshape(len(paths), width)
        if not len(vectors):
            raise DataError(f"{path} has no vector: none of its {len(table):,} images could be read", _FIX)
        if not np.isfinite(vectors).all() or not all(type(one) is str for one in (*paths, *hashes)):
            raise DataError(f"{path} is damaged: a value is missing or not finite", _FIX)
        return cls(model, paths, hashes, vectors, len(table))
