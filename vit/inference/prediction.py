"""One image in, and what is said of it: the input of a prediction and its answer"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL.Image import Image as PillowImage
from torch import Tensor

from vit.checkpoints.novelty import is_unlike
from vit.data.core.image_bytes import ImageError, ImageReader, content_hash, read_bytes
from vit.data.core.image_header import MAX_PIXELS, holds_frames, num_pixels
from vit.data.loading.in_memory import TAKEN, InMemory, has_frames, name_of, pixels_of
from vit.data.loading.threads import PixelBudget
from vit.data.pixels.decode import decode_image
from vit.data.pixels.preprocess import Preprocess
from vit.errors import UsageError

decoding = PixelBudget(4 * MAX_PIXELS)  # of all threads that predict: at most 4.4 GB, on any number of cores

Image = str | os.PathLike[str] | InMemory
Status = Literal["ok", "unsure", "novel", "unreadable", "not_image", "too_large"]


@dataclass(frozen=True)
class ReadFrame:
    """A frame of a PIL image of several, read when it was given: the image may show another one when its turn comes.

    Attributes:
        input: the input of the network (C, S, S) uint8, or the reason for a failure.
    """

    input: Tensor | ImageError


Named = tuple[str, str | InMemory | ReadFrame]  # name of the row, and the image


@dataclass(frozen=True)
class Prediction:
    """The prediction for one file. Every file has exactly one.

    Attributes:
        path: path as given or listed.
        status: "ok", or the reason for a missing label. "unsure": the probability is too low for a label. "novel": the
            image is unlike the training images.
        label: most probable class; "" without a label, and from a model that gives an image several labels.
        probability: probability of the most probable class; None without an image, and with several labels.
        top: most probable classes with their probabilities, in falling order. Of several labels, these need not be
            above their thresholds, and all `labels` are among them.
        error: reason for a missing label; "" otherwise.
        engine: what computed the probabilities: "torch", "openvino" or "onnxruntime"; "" without an image.
        labels: of a model that gives several labels: the labels of the image, most probable first. Of others: the
            prediction set, or () where none was asked for.
        novelty: fraction of the validation images that are more like the training images; None where it is not known.
        answer: the label, or the group of classes that is sure where no class is; "" where none is, and where class
            names have no levels or no rule decides.
    """

    path: str
    status: Status
    label: str = ""
    probability: float | None = None
    top: tuple[tuple[str, float], ...] = ()
    error: str = ""
    engine: str = ""
    labels: tuple[str, ...] = ()
    novelty: float | None = None
    answer: str = ""

    @property
    def is_unlike(self) -> bool:
        """Whether the image is unlike the training images: its novelty is 0.95 or more."""
        return self.novelty is not None and bool(is_unlike(self.novelty))


def is_one(images: object) -> bool:
    """Whether this is a single path or image."""
    if isinstance(images, np.ndarray | Tensor):
        return images.ndim < 4
    return isinstance(images, str | os.PathLike | PillowImage) or not isinstance(images, Iterable)


def named(image: InMemory, index: int, preprocess: Preprocess) -> Named:
    """An image in memory with the name of its row. Raises UsageError for objects of other types."""
    if not isinstance(image, PillowImage | np.ndarray | Tensor):
        raise UsageError(f"image {index} is of type {type(image).__name__}", TAKEN)
    name = name_of(image, index)
    return name, ReadFrame(read_input(image, preprocess, name)) if has_frames(image) else image


def read_input(
    image: str | InMemory | ReadFrame,
    preprocess: Preprocess,
    name: str = "",
    reader: ImageReader | None = None,
    frames: set[str] | None = None,
) -> Tensor | ImageError:
    """A file, or an image with that name, as the input of a network (C, S, S) uint8, or the reason for a failure.

    Args:
        frames: receives the path of a file of several frames or pages, of which the first is the input.
    """
    if isinstance(image, ReadFrame):
        return image.input
    try:
        if not isinstance(image, str):
            return preprocess(pixels_of(image, name, preprocess.decoding))
        data = read_bytes(image) if reader is None else reader.read(image)
        if frames is not None and holds_frames(data):
            frames.add(image)
        with decoding.hold(num_pixels(data)):
            return preprocess(decode_image(data, image, preprocess.decoding))
    except ImageError as error:
        return error


def read_hashed(
    path: str, preprocess: Preprocess, reader: ImageReader | None = None
) -> tuple[str, str, Tensor | ImageError]:
    """A path, the content hash of its file ("" where it cannot be read), and its input or the reason for a failure."""
    found = ""
    try:
        data = read_bytes(path) if reader is None else reader.read(path)
        found = content_hash(data)
        with decoding.hold(num_pixels(data)):
            return path, found, preprocess(decode_image(data, path, preprocess.decoding))
    except ImageError as error:
        return path, found, error


def status_of(error: ImageError) -> Status:
    """The status of an image that could not be read."""
    return "not_image" if error.kind == "not_image" else "too_large" if error.kind == "too_large" else "unreadable"
