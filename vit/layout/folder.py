"""A folder whose files have fixed names: `File` in its class gives the path"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """Paths in a folder."""

    path: Path  # the folder


class File:
    """The path of a file or folder in a `Folder`.

    Args:
        name: its name, with those of the folders above it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: Folder, kind: type[Folder]) -> Path:
        return folder.path / self.name
