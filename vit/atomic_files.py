"""Files that are whole or not there: what is written beside its target takes its name at the end."""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ABANDONED_SECONDS = 3600.0  # a partial file that has not changed for so long has lost its writer


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`; synced and renamed over it when the block ends, removed when it fails.

    Any number of processes may write one file at a time: each has a partial file of its own, and the last one stays.
    """
    remove_partial(path.parent, path.name, ABANDONED_SECONDS)
    partial = partial_name(path)
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def partial_name(path: Path) -> Path:
    """A hidden name beside a file, which no other process and no earlier call has."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def remove_partial(folder: Path, name: str = "", unchanged_for: float | None = None) -> None:
    """Remove partial files that killed processes have left in a folder.

    Args:
        name: of the file that they were to become; empty: any file.
        unchanged_for: seconds since they last changed, at least; None: whatever their age, where no other process
            writes to the folder.
    """
    with suppress(OSError):
        for entry in list(folder.iterdir()):
            if entry.name.startswith(f".{name}." if name else ".") and entry.name.endswith(".partial"):
                with suppress(OSError):  # another process has removed it
                    if unchanged_for is None or time.time() - entry.stat().st_mtime >= unchanged_for:
                        entry.unlink()
