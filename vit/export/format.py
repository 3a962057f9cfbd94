"""The contract of an export format: how a trained network is written, and how others read it back."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from PIL import Image
from torch import Tensor

from vit.checkpoints.format import Description
from vit.errors import UsageError, install
from vit.export.deployed import Trained

Classify = Callable[[Tensor], Tensor]  # images (B, 3, S, S) uint8 -> probabilities (B, C)


@dataclass(frozen=True)
class Peer:
    """A library's own way from a picture to probabilities, with nothing of ours in it.

    Attributes:
        name: of the library.
        transform: an upright RGB picture -> the network's input (3, S, S), normalized.
        probabilities: normalized images (B, 3, S, S) -> probabilities (B, C).
    """

    name: str
    transform: Callable[[Image.Image], Tensor]
    probabilities: Classify


class Format(ABC):
    """One way out."""

    ending: str  # of a file's name; "" for a folder
    packages: tuple[str, ...] = ()  # beyond what the program needs anyway
    extra: str = ""  # of this program, that installs them

    @abstractmethod
    def write(self, trained: Trained, path: Path) -> None:
        """Write a file or folder that does not exist yet.

        Raises:
            UsageError: this format cannot hold such a network.
        """

    @abstractmethod
    def read(self, trained: Trained, path: Path) -> Classify:
        """What was written, loaded by the library that it is for and by nothing of ours."""

    def peer(self, trained: Trained, path: Path) -> Peer | None:
        """What was written, with the library's own preprocessing; None: the user resizes pictures."""
        return None

    @abstractmethod
    def how_to_load(self, trained: Trained, path: Path) -> str:
        """Python that loads it, for the user to copy."""

    def check_installed(self, name: str) -> None:
        """Raise UsageError when a package that this format needs is not there."""
        missing = [package for package in self.packages if find_spec(package) is None]
        if missing:
            raise UsageError(f"--format {name} needs {', '.join(missing)}", install(self.extra))


def words(description: Description) -> str:
    """All of a description as text, for metadata; `Description.from_dict` checks it on the way back."""
    return json.dumps(description.to_dict())
