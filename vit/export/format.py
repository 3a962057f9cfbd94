"""The interface of an export format: write a network, read it with other libraries"""

import contextlib
import io
import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from PIL import Image
from torch import Tensor

from vit.checkpoints.format import Description
from vit.data.pixels.preprocess import COLORS
from vit.errors import UsageError, install
from vit.export.card import Int8Cost
from vit.inference.deployment import LoadedModel


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While entered: nothing is printed to stdout, and no warning is logged or shown. Errors are raised as usual."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


Progress = Callable[[int, int], None]
Classify = Callable[[Tensor], Tensor]  # images (B, 3, S, S) uint8 -> probabilities (B, C)


@dataclass(frozen=True)
class Peer:
    """A library's own way from a picture to probabilities, without the code of this package."""

    name: str  # name of the library
    transform: Callable[[Image.Image], Tensor]  # upright RGB picture -> normalized input of the network (3, S, S)
    probabilities: Classify  # normalized images (B, 3, S, S) -> probabilities (B, C)
    # whether the middle square of a picture with an odd margin lies at the upper and left pixel of the two that are as
    # close. torchvision, timm and this package take the even one.
    rounds_down: bool = False


class Format(ABC):
    """An export format."""

    ending: str  # end of the file name, or empty for a folder
    imports: str  # Python code before that of `how_to_load`
    library = "pytorch"  # library of the format in the words of the Hugging Face hub
    next_command = ""  # command that uses an export at {path}; empty: none does
    packages: tuple[str, ...] = ()  # packages that the format needs beyond those of this program
    extra: str = ""  # extra of this program that installs these packages

    @abstractmethod
    def write(self, trained: LoadedModel, path: Path) -> None:
        """Write a file or folder that does not exist yet. UsageError where the format cannot hold this network."""

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        """The written network, loaded by the library of the format alone; by default, that of its `peer`."""
        peer, normalize = self.peer(trained, path), trained.description.preprocess.normalize
        assert peer is not None
        return lambda images: peer.probabilities(normalize(images))

    def peer(self, trained: LoadedModel, path: Path) -> Peer | None:
        """The written network with the library's own preprocessing; None where the library does not resize pictures."""
        return None

    @abstractmethod
    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        """Python code that loads the written network, for the user to copy."""

    def check_installed(self, name: str) -> None:
        """Raise UsageError when a package that this format needs is missing."""
        check_packages(f"--format {name}", self.packages, self.extra)


@dataclass(frozen=True)
class Quantized:
    """An export in int8."""

    description: Description  # what the file says about itself
    cost: Int8Cost  # what int8 costs on labeled images
    facts: Sequence[tuple[str, str]]  # the same, for people
    classify: Classify  # the written network


def check_packages(what: str, packages: Sequence[str], extra: str) -> None:
    """Raise UsageError when a package is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise UsageError(f"{what} needs {', '.join(missing)}", install(extra))


def closing_code(trained: LoadedModel, logits: str) -> str:
    """Lines of Python that turn an expression for logits (B, K) into labels, and what pictures are expected."""
    pictures = "\n# pictures upright (PIL.ImageOps.exif_transpose), on white"
    if trained.description.preprocess.color_profiles == "convert":  # other libraries ignore the profiles
        pictures += ", in sRGB: convert the colors of an embedded ICC profile first (PIL.ImageCms)"
    return pictures + label_code(trained, f"{logits}.sigmoid()", "torch.tensor")


def label_code(trained: LoadedModel, probabilities: str, array: str) -> str:
    """A line of Python that compares an expression for probabilities (B, K) with thresholds; "" for classes."""
    if (rules := trained.description.multilabel) is None:
        return ""
    thresholds = rules.thresholds.tolist()  # unrounded, because a rare label may have 2e-7
    return f"\nhas_label = {probabilities} >= {array}({thresholds})  # (batch, {len(rules)})"


def check_pictures(trained: LoadedModel, library: str) -> None:
    """Raise UsageError unless the network sees RGB of 8 bits: other libraries prepare such pictures alone."""
    preprocess = trained.description.preprocess
    fix = "give --format onnx, openvino, pt2 or safetensors"
    if preprocess.channels != COLORS:
        problem = f"the preprocessing of {library} is for 3 channels, and the network sees {preprocess.channels}"
        raise UsageError(problem, fix)
    if preprocess.window is not None:
        raise UsageError(f"the preprocessing of {library} has no window of values, and that of the network has", fix)


def description_text(description: Description) -> str:
    """A description as text for metadata. `Description.from_dict` checks it when the file is read."""
    return json.dumps(description.to_dict())
