"""Files that are whole or not there: what is written beside its target takes its name at the end."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to, beside `path`; synced and renamed over it when the block ends, removed when it fails."""
    partial = path.with_name(f".{path.name}.partial")
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
    with whole(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
