"""A trained model, ready for files: the Python face of `vit predict`."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import Tensor

from vit.data.decode import ImageError, read_image
from vit.data.preprocess import Preprocess
from vit.data.threads import decode_threads
from vit.errors import UsageError
from vit.prediction.files import list_files
from vit.prediction.onnx_engine import SUFFIX, OnnxEngine
from vit.training import checkpoint
from vit.training.inference import Engine, choose_device
from vit.training.run import checkpoint_of

T = TypeVar("T")
Status = Literal["ok", "unreadable", "not_image", "too_large"]

BATCH = 64
AHEAD = 4  # batches that are decoded while an accelerator computes


@dataclass(frozen=True)
class Prediction:
    """What a model says of one file; exactly one per file, always.

    Attributes:
        path: as it was given or listed.
        status: "ok", or why there is no label.
        label: the most probable class; "" without an image.
        probability: of that class; None without an image.
        top: the most probable classes with their probabilities, in falling order.
        error: why the file could not be read; "" if it could.
    """

    path: str
    status: Status
    label: str = ""
    probability: float | None = None
    top: tuple[tuple[str, float], ...] = ()
    error: str = ""


class Predictor:
    """A network with its class names and preprocessing, from a checkpoint or an exported file alone."""

    def __init__(self, engine: Engine | OnnxEngine, classes: tuple[str, ...]) -> None:
        self.engine = engine
        self.classes = classes

    @property
    def preprocess(self) -> Preprocess:
        """How images become the network's input."""
        return self.engine.preprocess

    def predict(
        self,
        images: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        top_k: int = 5,
        recursive: bool = False,
        batch_size: int = BATCH,
    ) -> Iterator[Prediction]:
        """One Prediction per file, in order, as they come.

        Args:
            images: files, folders or patterns.
            top_k: how many classes `top` holds.
            recursive: whether folders in folders are read.
            batch_size: files that are computed at once.
        """
        inputs = [images] if isinstance(images, str | os.PathLike) else images
        return self.predict_files(list_files(inputs, recursive), top_k, batch_size)

    def predict_files(self, paths: Sequence[str], top_k: int = 5, batch_size: int = BATCH) -> Iterator[Prediction]:
        """As `predict`, for a list of files.

        On a CPU decoding and computing take turns, each on all cores; side by side they would slow each other down. An
        accelerator computes while the CPU decodes the next files.
        """
        ahead = 1 if self.engine.device.type == "cpu" else AHEAD
        with decode_threads() as parallel:
            for window in _batched(paths, batch_size * ahead):
                inputs = parallel(lambda path: read_input(path, self.preprocess), window)
                for part in _batched(zip(window, inputs, strict=True), batch_size):
                    yield from self._predict_batch(part, top_k)

    def _predict_batch(self, part: Sequence[tuple[str, Tensor | ImageError]], top_k: int) -> Iterator[Prediction]:
        images = [image for _, image in part if isinstance(image, Tensor)]
        count = min(top_k, len(self.classes))
        tops: Iterator[tuple[tuple[str, float], ...]] = iter(())
        if images:
            values, places = self.engine.probabilities(torch.stack(images)).topk(count, dim=1)
            tops = (
                tuple((self.classes[c], p) for c, p in zip(classes, probabilities, strict=True))
                for classes, probabilities in zip(places.tolist(), values.tolist(), strict=True)
            )
        for path, image in part:
            if isinstance(image, ImageError):
                yield Prediction(path, _status(image), error=image.reason)
            else:
                top = next(tops)
                yield Prediction(path, "ok", top[0][0], top[0][1], top)


def read_input(path: str, preprocess: Preprocess) -> Tensor | ImageError:
    """A file as a network's input (3, S, S) uint8, or why it cannot be one."""
    try:
        return preprocess(read_image(path))
    except ImageError as error:
        return error


def _batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items (itertools.batched, which Python 3.11 lacks)."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def _status(error: ImageError) -> Status:
    return "not_image" if error.kind == "not_image" else "too_large" if error.kind == "too_large" else "unreadable"


def load(path: str | os.PathLike[str], device: str = "auto", precision: str = "auto") -> Predictor:
    """The model of a run folder, a checkpoint or an exported ONNX file.

    Args:
        path: a run folder (its best checkpoint), a checkpoint, or an .onnx file that `vit export` wrote.
        device: "cpu", "cuda", "mps", or "auto" for the first accelerator; ONNX: the CPU.
        precision: "32-true", "bf16-mixed", or "auto" for what it was trained with, where the hardware computes in it;
            ONNX: "32-true".

    Raises:
        CheckpointError: there is none, or it cannot be used.
        UsageError: no such device; or an ONNX file on another device or at another precision than its own.
    """
    if Path(path).suffix == SUFFIX:
        return _load_onnx(Path(path), device, precision)
    network, description = checkpoint.load(checkpoint_of(Path(path)))
    if precision == "auto" and description.precision == "32-true":
        precision = "32-true"
    engine = Engine(network, description.preprocess, choose_device(device), precision, description.temperature)
    return Predictor(engine, description.classes)


def _load_onnx(path: Path, device: str, precision: str) -> Predictor:
    for option, value, own in (("device", device, "cpu"), ("precision", precision, "32-true")):
        if value not in ("auto", own):
            raise UsageError(f"--{option} {value}, but an ONNX file is computed with {own}", f"leave --{option} out")
    engine = OnnxEngine(path)
    return Predictor(engine, engine.description.classes)
