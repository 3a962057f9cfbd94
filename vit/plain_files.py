"""Text files that vit reads back, as texts, JSON and YAML: regular, of a bounded size, depth and number of values.

A run folder or a recipe may come from anywhere. A link to a device would never end, and nine short lines of YAML that
name each other would make a thousand million values.
"""

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.errors import DataError, first_line

if TYPE_CHECKING:
    from yaml import Node

MAX_BYTES = 64 * 2**20
_MAX_VALUES = 1_000_000  # of a YAML file, where each alias is written out
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"  # tags of YAML: of a text, and of the key <<


class DamagedFileError(DataError, ValueError):
    """A file that vit wrote has other content. Its text is the problem alone: whoever reads the file names the fix."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "restore it")

    def __str__(self) -> str:
        return self.problem

    __repr__ = __str__  # an error around it shows others by their type


def check_regular(path: Path, max_bytes: int | None = None) -> None:
    """Raise DamagedFileError for a device, a FIFO, or a file that is too large; OSError where there is none."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DamagedFileError(f"{path} is not a regular file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise DamagedFileError(f"{path} has {status.st_size:,} bytes; the limit is {max_bytes:,}")


def read_text(path: Path) -> str:
    """The text of a file; errors are OSError, DamagedFileError."""
    check_regular(path, MAX_BYTES)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path} is not a text in UTF-8") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; errors are OSError, DamagedFileError."""
    check_regular(path, MAX_BYTES)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also bytes that are not UTF-8, and numbers of 5,000 digits
        raise DamagedFileError(f"{path} is not JSON: {first_line(error)}") from error


def parse_yaml(text: str, name: str = "it") -> Any:
    """The plain content of a YAML text; DamagedFileError for any other text, also where a key stands twice.

    Keys are texts: classes may be called yes, no and 010, which YAML 1.1 takes for True, False and 8.
    """
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)  # libyaml's takes a tenth of the time
        node = loader.get_single_node()
        if node is None:
            return None
        if _count_and_name(node, {}) > _MAX_VALUES:
            raise ValueError(f"its aliases stand for more than {_MAX_VALUES:,} values")
        return loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        words = " ".join(str(error).split())[:300]
        raise DamagedFileError(f"{name} is not plain YAML: {words}") from error


def _count_and_name(node: "Node", known: dict[int, int]) -> int:
    """Number of values below a node, each alias written out. Keys become texts. ValueError: a key stands twice."""
    if id(node) not in known:
        known[id(node)] = _MAX_VALUES + 1
        parts, lines = node.value if isinstance(node.value, list) else [], dict[str, int]()
        for key in (one[0] for one in parts if isinstance(one, tuple)):
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:  # YAML parsers silently take the last
                raise ValueError(f"{name!r} in line {lines[name]} and again in line {line}")
            lines[name] = line
            if isinstance(key.value, str) and key.tag != _MERGE:
                key.tag = _TEXT
        inner = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
        known[id(node)] = 1 + sum(_count_and_name(item, known) for item in inner)
    return known[id(node)]
