"""Paths of models, checked before torch is imported"""

import re
from pathlib import Path

from vit.errors import CheckpointError, path_beside

LIBRARIES = ("timm", "torchvision", "hf")  # LIBRARY:NAME
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # Path makes one slash of two
_EXPORTS, _FOR_OTHERS = (".onnx", ".xml"), (".pt2", ".safetensors")  # those that this program computes; all others
MODEL_ENDINGS = (".ckpt", *_EXPORTS, *_FOR_OTHERS)
FIX = "give a run folder or a checkpoint that 'vit train' wrote"


def check_local(path: Path) -> None:
    """Raise CheckpointError if a path is a URL: users download and check files themselves."""
    if _ADDRESS.match(str(path)):
        raise CheckpointError(f"{path} is an address, not a file", "download it first, then give the file")


def check_model(name: str, unfinished: bool = True) -> None:
    """Raise CheckpointError if RUN|CKPT|EXPORT is missing; UsageError if its training must be finished and is not."""
    path = _existing(name)
    if path.is_file() and path.suffix in _FOR_OTHERS:
        fix = "give the run or checkpoint that it was made from, or an export of --format onnx"
        raise CheckpointError(f"{path} ends in {path.suffix}: such weights or exports are for other programs", fix)
    if path.is_file() and path.suffix not in _EXPORTS:
        kind = kind_of(path)
        if kind:
            raise CheckpointError(f"{path} ({path.stat().st_size:,} bytes) is not a checkpoint: {kind}", FIX)

    from vit.checkpoints.run import check_finished, checkpoint_of  # need numpy, which --help does not wait for

    if path.is_dir():
        checkpoint_of(path)
    check_finished(path, unfinished)


def kind_of(path: Path) -> str:
    """What a file that PyTorch did not write seems to be, by its first bytes; "" for any other file."""
    return stand_in(path) or ("" if _start(path).startswith(b"PK") else "it is not a PyTorch file")


def stand_in(path: Path) -> str:
    """What stands in the place of a file that was not downloaded, by its first bytes; "" for any other file."""
    start = _start(path)
    if start.startswith(b"version https://git-lfs"):
        return "it looks like a git-lfs pointer"
    return "it is an HTML page" if start.lstrip().lower().startswith((b"<!doctype", b"<html")) else ""


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(64)


def check_weights(source: str) -> None:
    """Raise CheckpointError if a source of weights is a path that does not exist."""
    if source.partition(":")[0] not in LIBRARIES:
        _existing(source)


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    check_local(path)
    if not path.exists():
        what = "file" if path.suffix not in ("", ".ckpt") else "checkpoint"
        raise CheckpointError(f"there is no {what} {path}{path_beside(path)}", FIX)
    return path


def weights_name(source: str) -> str:
    """A source of weights on a page, which is for other people: without the folders of this machine."""
    if source.partition(":")[0] in LIBRARIES:
        return source
    parts = Path(source).parts
    return "/".join(parts[-2:] if source.endswith(".ckpt") else parts[-1:])
