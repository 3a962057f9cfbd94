"""Checkpoint files on the disk: written whole or not at all, read without running anything in them

Files from anywhere are read here, also files of weights: no file is given more memory than its size justifies.
"""

import hashlib
import os
import shlex
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vit.atomic_files import atomic_write, partial_name, why_unwritable
from vit.checkpoints.format import KEY, NOVELTY_KEY, STATE, Content
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.model_path import FIX, check_local, kind_of
from vit.checkpoints.novelty import Novelty
from vit.checkpoints.validation_scores import ValidationScores
from vit.errors import CheckpointError, ResourceError


def write_checkpoint(content: Content, path: Path, previous: Path | None = None) -> None:
    """Write beside the target, sync, rename; the file that is replaced stays under a `previous` name. ResourceError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial:
            with open(partial, "wb") as file:
                torch.save(content, file)
            if previous is not None and path.is_file():
                with open(partial, "rb") as file:  # a full disk shows here, while the old file has its name
                    os.fsync(file.fileno())
                beside = partial_name(previous)
                try:  # a second name, so that a whole file always exists
                    os.link(path, beside)
                    os.replace(beside, previous)
                    beside.unlink(missing_ok=True)  # a rename between two names of one file does nothing
                except OSError:  # a file system without links
                    os.replace(path, previous)
        if hasattr(os, "O_DIRECTORY"):  # not on Windows: a rename survives a power cut
            descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        reason = why_unwritable(path.parent) or str(error)
        raise ResourceError(
            f"could not write {path}: {reason}", "free space or choose another --out; the previous file is intact"
        ) from error


def read_checkpoint(path: Path) -> Content:
    """The content of a checkpoint, tensors on the CPU; CheckpointError where it is missing, damaged or not ours."""
    check_local(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}", FIX)
    try:
        content = load_plain(path)
    except ValueError as error:
        raise CheckpointError(f"{path} ({path.stat().st_size:,} bytes) is not a checkpoint: {error}", FIX) from error
    state = content.get(STATE) if isinstance(content, dict) and KEY in content else None
    if not are_weights(state, path.stat().st_size):
        raise CheckpointError(
            f"{path} holds weights that vit did not write",
            f"make a checkpoint of them: vit convert {shlex.quote(str(path))} --output NAME.ckpt",
        )
    return dict(content)


def store_calibration(
    path: Path,
    temperature: float = 1.0,
    scores: ValidationScores | None = None,
    novelty: Novelty | None = None,
    rules: LabelRules | None = None,
    keep_state: bool = False,
) -> None:
    """Write what was fitted into a finished checkpoint; `keep_state`: also what only a resumed training needs."""
    content = read_checkpoint(path)
    content[KEY].pop("unfinished", None)
    content[KEY]["temperature"] = temperature
    if scores is not None:
        content[KEY]["validation_scores"] = scores.to_plain()
    if rules is not None:
        content[KEY]["multilabel"] = rules.to_plain()
    if novelty is not None:
        content[NOVELTY_KEY] = novelty.to_plain()
    keys = content if keep_state else (KEY, STATE, NOVELTY_KEY)
    write_checkpoint({key: content[key] for key in keys if key in content}, path)


def load_plain(path: Path) -> Any:
    """Plain values and tensors that torch.save wrote. Nothing in the file is run. ValueError: it is not such a file.

    Every byte is as it was written, which torch does not check. Compressed or overlapping entries are refused too,
    because a small file could ask for much memory with them.
    """
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)  # it would override weights_only=True
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise zipfile.BadZipFile("it is compressed")
            if sum(entry.file_size for entry in entries) > path.stat().st_size:
                raise zipfile.BadZipFile("its entries overlap")
            if archive.testzip() is not None:
                raise zipfile.BadZipFile("a checksum is wrong")
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        damage = "it holds objects that would run code" if runs_code(error) else "it is damaged or cut short"
        raise ValueError(kind_of(path) or damage) from error


def runs_code(error: Exception) -> bool:
    """Whether torch.load with weights_only refused a file for objects in it, and not for damage."""
    return "weights_only" in str(error) or "Unsupported" in str(error)


def are_weights(state: object, limit: int) -> bool:
    """Whether this is a dictionary of names and ordinary tensors, of at most `limit` bytes together."""
    return (
        isinstance(state, dict)
        and all(
            isinstance(key, str) and isinstance(value, Tensor) and value.layout == torch.strided
            for key, value in state.items()
        )
        and sum(value.numel() * value.element_size() for value in state.values()) <= limit
    )


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
