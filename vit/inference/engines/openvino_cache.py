"""Converted checkpoints: a conversion costs seconds, so its result is kept beside the checkpoint

A folder is named by a key: the checkpoint's content, and the versions of everything that converts. Its weights are in
float32 for every precision, because the precision is chosen when the model is compiled. A folder is written under
another name and renamed, and holds the hashes of its files. Whatever is damaged in it is made again.
"""

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import torch

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.errors import CheckpointError
from vit.inference.deployed import Trained
from vit.inference.engines.openvino_model import OpenVinoModel, convert, read, save
from vit.layout import ConvertedLayout
from vit.plain_files import read_json

CONVERSION = 1  # raise it when `convert` makes other graphs
Folders = tuple[ConvertedLayout, ...]


def converted(folders: Folders, trained: Trained, what: str) -> tuple[OpenVinoModel, ConvertedLayout | None]:
    """The converted network of a checkpoint, and the folder that keeps it; None where none can be written.

    Args:
        folders: where it may be kept, see `cache_folders`.
        trained: content of the checkpoint.
        what: option that asks for it, for errors.

    Raises:
        UsageError: openvino is not installed, or cannot compute the network.
    """
    for folder in folders:
        kept = _read_whole(folder, trained)
        if kept is not None:
            return kept, folder
    made = convert(trained, what)
    return made, next((folder for folder in folders if _keep(made, folder)), None)


def cache_folders(checkpoint: Path) -> Folders:
    """Where a converted checkpoint may be: beside it, or in the cache of the user."""
    parts = (file_hash(checkpoint), version("openvino"), torch.__version__, str(CONVERSION))
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return ConvertedLayout.beside(checkpoint, key), ConvertedLayout(Path(home) / "vit-lightning" / "openvino" / key)


def _read_whole(folder: ConvertedLayout, trained: Trained) -> OpenVinoModel | None:
    """The model of a folder, or None where it is not there or not as it was written."""
    try:
        sums = read_json(folder.sums_path)
        if sums != _sums(folder):
            return None
        model = read(folder.graph_path)
    except (OSError, ValueError, CheckpointError):
        return None
    return model if model.description == trained.description else None


def _sums(folder: ConvertedLayout) -> dict[str, str]:
    files = (folder.graph_path, folder.weights_path)
    return {path.name: file_hash(path) for path in files}


def _keep(model: OpenVinoModel, folder: ConvertedLayout) -> bool:
    """Write a folder whole or not at all, and remove the conversions of earlier contents of the checkpoint."""
    parent = folder.path.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.path.name}.", dir=parent) as partial:
            written = ConvertedLayout(Path(partial) / folder.path.name)
            written.path.mkdir()
            save(model, written.graph_path)
            write_json(written.sums_path, _sums(written))
            shutil.rmtree(folder.path, ignore_errors=True)
            written.path.rename(folder.path)
    except (OSError, RuntimeError):  # openvino reports a full disk as RuntimeError
        return False
    for other in folder.earlier():
        with suppress(OSError):
            shutil.rmtree(other)
    return True
