"""Atomic writes: a file is complete or not there. It is written under another name and renamed at the end."""

import errno
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from vit.errors import ResourceError

ABANDONED_SECONDS = 3600.0  # after this time without a change, the writer of a partial file is gone


@contextmanager
def atomic_write(path: Path, is_new: bool = False) -> Iterator[Path]:
    """A temporary path beside `path`. At the end of the block the file is synced and renamed to `path`.

    If the block fails, the temporary file is removed. Several processes may write one file at a time: each has its own
    temporary file, and the last rename wins. With `is_new`, a file that has appeared meanwhile stays, and this one
    gets another name: ResourceError.
    """
    remove_partial(path.parent, path.name, ABANDONED_SECONDS)
    partial = partial_name(path)
    try:
        with naming_file(path, partial):
            yield partial
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
        publish: Callable[[Path, Path], None] = name_new_file if is_new else os.replace
        try:
            publish(partial, path)
        except FileExistsError as error:
            kept = path.with_stem(f"{path.stem}-{secrets.token_hex(4)}")
            partial.rename(kept)
            problem = f"another program has made {path} meanwhile: it is kept, and the new file is {kept}"
            raise ResourceError(problem, "rename the new file") from error
    except BaseException:
        with suppress(OSError):  # such as of a read-only disk, whose first error names the file
            partial.unlink()
        raise


@contextmanager
def naming_file(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Name the file in errors of its partial file, of a full disk and of rights: not every write knows its file."""
    try:
        yield
    except OSError as error:
        of_disk = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS)
        if (of_disk and error.filename is None) or error.filename == str(partial):
            error.filename = os.fspath(path)
        raise


def name_new_file(partial: Path, path: Path) -> None:
    """Give a finished file its name. FileExistsError: the name is not free, and the file keeps its partial name."""
    try:
        os.link(partial, path)  # fails where anything has this name, in one step
    except OSError:  # the name is taken, or a file system without links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path)) from None
        partial.rename(path)
    else:
        partial.unlink()


def made_folder(path: Path) -> Path:
    """A new folder of `free_name`, also where several processes ask for it at a time. OSError: it cannot be made."""
    while True:
        candidate = free_name(path)
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:  # another process has just made it
            if not candidate.exists():
                raise  # a parent is a file


def free_name(path: Path, beside: Sequence[str] = ()) -> Path:
    """The path, or the first of NAME-2, NAME-3, ... that does not exist, also not with a suffix of `beside`."""
    number, candidate = 1, path
    while any(taken.exists() for taken in (candidate, *map(candidate.with_suffix, beside))):
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def why_unwritable(folder: Path, size: int = 2**20) -> str:
    """The reason why a folder takes no further bytes; "" where it does. Libraries' own words do not tell."""
    probe = partial_name(folder / "probe")
    try:
        with open(probe, "wb") as file:
            file.write(bytes(size))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return ""


def partial_name(path: Path) -> Path:
    """A hidden name beside a file, different in each process and each call."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def remove_partial(folder: Path, name: str = "", unchanged_for: float | None = None) -> None:
    """Remove partial files of killed processes, of one name or of all; `unchanged_for` seconds, None: of any age."""
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if entry.name.startswith(f".{name}." if name else ".") and entry.name.endswith(".partial"):
                with suppress(OSError):  # another process may have removed the file
                    if unchanged_for is None or time.time() - entry.stat().st_mtime >= unchanged_for:
                        entry.unlink()
