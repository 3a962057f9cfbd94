"""`vit embed RUN|CKPT|SOURCE IMAGES...`: a vector for each file, in a Parquet file"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vit.atomic_files import free_name
from vit.checkpoints.model_path import check_weights
from vit.commands.cli.arguments import Paths, PositiveInt, StrPath, new_file, path_list, shell_command
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, count_of, tracked
from vit.data.core.dataset_names import TableColumns
from vit.errors import BadInputsError, UsageError
from vit.inference.files import list_images

if TYPE_CHECKING:
    from vit.inference.embeddings import Embedding


@dataclass(frozen=True)
class EmbeddingSummary:
    """Files and counts of `vit.embed`."""

    output: Path  # file with one row for each image
    num_files: int  # number of rows
    width: int  # length of a vector, D
    unreadable: dict[str, str]  # reason for each file without a vector


def embed(
    model: Annotated[StrPath, Metavar("RUN|CKPT|SOURCE")],
    images: Paths,
    *,
    output: StrPath | None = None,
    recursive: bool = False,
    image_column: str | None = None,
    on_bad: Literal["report", "fail"] = "report",
    batch_size: PositiveInt = 64,
    device: str = "auto",
) -> EmbeddingSummary:
    """Write an embedding of each image: the vector that the last layer of a network reads, computed in float32.

    The file has one row per image, in a stable order: path, status, error, content_hash, vector. It states the hash of
    the model and the preprocessing.

    Args:
        model: a run, a checkpoint, or weights as for --init_from of 'vit train'
        images: files, folders, patterns, a list, an index of shards, a parquet table, or hf:NAME
        output: new .parquet file; null: embeddings.parquet, or embeddings-2.parquet, ...
        recursive: also read the folders inside folders
        image_column: column of images (parquet) or of paths (CSV); null: the only one, or one with a usual name
        on_bad: exit code where some files cannot be read: report is 0, fail is 5; where all files are bad: always 5
        batch_size: number of files computed at once
        device: cpu, cuda or mps; auto: an accelerator if there is one

    Returns:
        The file, and what could not be read.

    Raises:
        BadInputsError: no file can be read; or some files cannot, and `on_bad` is "fail".

    Example:
        vit embed timm:deit_tiny_patch16_224.fb_in1k photos/ --recursive
    """
    source = os.fspath(model)
    path = free_name(Path("embeddings.parquet")) if output is None else new_file(output)
    if path.suffix.lower() != ".parquet":
        raise UsageError(f"--output {path} does not end in .parquet", "give a name such as embeddings.parquet")
    check_weights(source)
    listed = list_images(path_list(images), recursive, TableColumns(image_column))

    from vit.inference.embeddings import write_embeddings
    from vit.study.frozen.embedder import Embedder

    reporter = Reporter()
    reporter.notice(listed.remarks)
    embedder = Embedder(source, device)
    used, identity, files = embedder.engine, embedder.model, count_of(len(listed.paths), "file")
    reporter.warn(embedder.warning)
    reporter.notice(f"{files}, {identity.network}, {used.device.type}, {used.precision}")
    bad: dict[str, str] = {}

    def rows() -> "Iterator[Embedding]":
        embedded = embedder.embed(listed.paths, listed.reader, batch_size)
        for row in tracked(embedded, len(listed.paths), reporter, "file"):
            if row.vector is None:
                bad[row.path] = row.error
            yield row

    path.parent.mkdir(parents=True, exist_ok=True)
    write_embeddings(path, identity, embedder.width, rows())
    if bad:
        reporter.notice(f"\nWARNING: {len(bad):,} of {files} have no vector")
        reporter.some([f"{name}: {reason}" for name, reason in bad.items()])
    reporter.notice(embedder.first_frames.warning)
    reporter.line(f"\n{count_of(len(listed.paths), 'row')} with vectors of {embedder.width:,} values in {path}")
    side, what = identity.preprocess["image_size"], "what its last layer reads, not normalized"
    reporter.line(f"model {identity.model_hash}: {identity.network}, {side} pixels; {what}")
    if len(bad) == len(listed.paths) or (bad and on_bad == "fail"):
        raise BadInputsError(f"{count_of(len(bad), 'file')} cannot be read", f"see the column error of {path}")
    reporter.next_command(shell_command("vit", "similar", path, "IMAGE", options={}))
    return EmbeddingSummary(path, len(listed.paths), embedder.width, bad)
