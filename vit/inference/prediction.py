"""The input of a prediction and its answer, and which core reads and which computes, from many images to their rows"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar, cast

import numpy as np
import torch
from PIL.Image import Image as PillowImage
from torch import Tensor

from vit.checkpoints.novelty import is_unlike
from vit.data.core.image_bytes import Failure, ImageError, ImageReader, content_hash, read_bytes
from vit.data.core.image_header import MAX_PIXELS, holds_frames, num_pixels
from vit.data.loading.threads import PixelBudget, available_cores, decode_threads
from vit.data.pixels.decode import decode_image
from vit.data.pixels.images import TAKEN, InMemory, has_frames, name_of, pixels_of
from vit.data.pixels.preprocess import Preprocess
from vit.errors import UsageError
from vit.inference.engine import Classifies, Engine

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

AHEAD = 4  # batches that are decoded while an accelerator computes
CORE_PIXELS = 16 * 224 * 224  # of the images that one core computes at once: activations of more pixels leave its cache
decoding = PixelBudget(4 * MAX_PIXELS)  # of all threads that predict: at most 4.4 GB, on any number of cores

Image = str | os.PathLike[str] | InMemory
Status = Literal["ok", "unsure", "novel"] | Failure


# A frame of a PIL image of several, read when it was given: the image may show another one when its turn comes. It is
# the input of each model (C, S, S) uint8, or the reason for a failure.
ReadFrame = dict[Preprocess, Tensor | ImageError]
Named = tuple[str, str | InMemory | ReadFrame]  # name of the row, and the image


@dataclass(frozen=True)
class Prediction:
    """The prediction for one file. Every file has exactly one."""

    path: str  # path as given or listed
    # "ok", or the reason for a missing label. "unsure": the probability is too low for a label. "novel": the image is
    # unlike the training images
    status: Status
    label: str = ""  # most probable class; "" without a label, and from a model that gives an image several labels
    probability: float | None = None  # that of the most probable class; None without an image, and with several labels
    # most probable classes with their probabilities, in falling order. Of several labels, these need not be above their
    # thresholds, and all `labels` are among them
    top: tuple[tuple[str, float], ...] = ()
    error: str = ""  # reason for a missing label; "" otherwise
    engine: str = ""  # what computed the probabilities: "torch", "openvino" or "onnxruntime"; "" without an image
    # of a model that gives several labels: the labels of the image, most probable first. Of others: the prediction set,
    # or () where none was asked for
    labels: tuple[str, ...] = ()
    novelty: float | None = None  # fraction of the validation images that are more like the training images; or unknown
    # the label, or the group of classes that is sure where no class is; "" where none is, and where class names have no
    # levels or no rule decides
    answer: str = ""

    @property
    def is_unlike(self) -> bool:
        """Whether the image is unlike the training images: its novelty is 0.95 or more."""
        return self.novelty is not None and bool(is_unlike(self.novelty))


def is_one(images: object) -> bool:
    """Whether this is a single path or image."""
    if isinstance(images, np.ndarray | Tensor):
        return images.ndim < 4
    return isinstance(images, str | bytes | os.PathLike | PillowImage) or not isinstance(images, Iterable)


def named(image: InMemory, index: int, every: Iterable[Preprocess]) -> Named:
    """An image in memory, for models with these inputs, with the name of its row. UsageError: it is of another type."""
    if not isinstance(image, PillowImage | np.ndarray | Tensor):
        raise UsageError(f"image {index} is of type {type(image).__name__}", TAKEN)
    name = name_of(image, index)
    return name, {one: read_input(image, one, name) for one in every} if has_frames(image) else image


def read_input(
    image: str | InMemory | ReadFrame,
    preprocess: Preprocess,
    name: str = "",
    reader: ImageReader | None = None,
    frames: set[str] | None = None,
) -> Tensor | ImageError:
    """A file, or an image with that name, as the input of a network (C, S, S) uint8, or the reason for a failure.

    The first of several frames or pages is the input. `frames` receives the path of such a file.
    """
    if isinstance(image, dict):
        return image[preprocess]
    try:
        if not isinstance(image, str):
            return preprocess(pixels_of(image, name, preprocess.decoding))
        return _decoded(_bytes(image, reader, frames), image, preprocess)
    except ImageError as error:
        return error


def _bytes(path: str, reader: ImageReader | None, frames: set[str] | None) -> bytes:
    data = read_bytes(path) if reader is None else reader.read(path)
    if frames is not None and holds_frames(data):
        frames.add(path)
    return data


def _decoded(data: bytes, path: str, preprocess: Preprocess) -> Tensor:
    with decoding.hold(num_pixels(data)):
        return preprocess(decode_image(data, path, preprocess.decoding))


def read_hashed(
    path: str, preprocess: Preprocess, reader: ImageReader | None, frames: set[str]
) -> tuple[str, str, Tensor | ImageError]:
    """A path, the content hash of its file ("" where it cannot be read), and its input as of `read_input`."""
    digest = ""
    try:
        data = _bytes(path, reader, frames)
        digest = content_hash(data)
        return path, digest, _decoded(data, path, preprocess)
    except ImageError as error:
        return path, digest, error


def rows_of(
    engine: Classifies,
    items: Sequence[T],
    batch_size: int,
    read: Callable[[T], M] | None,
    compute: Callable[[list[M]], Iterable[R]],
) -> Iterator[R]:
    """`compute` of batches of what `read` makes of each item, in threads, flattened, in the order of the items.

    - **A network on a CPU**: each core reads and computes batches of its own. No core waits for another within a layer.
    - **Few images, or an exported file**, whose library has threads of its own: reading and computing take turns, each
      on all cores, because at the same time they slow each other down.
    - **An accelerator** computes while the CPU reads the next batches, and writes the rows of the batch before.

    Without `read`, items are pictures. On a CPU `compute` runs in threads. On an accelerator it starts the computation,
    and waits for it where the first row is taken.
    """
    per_core = _images_per_core(engine, len(items), batch_size)
    if read is None and per_core == 0:  # no thread has anything to do
        for ready in batched(items, batch_size):
            yield from compute(cast(list[M], ready))
        return
    picture: Callable[[T], M] = read or (lambda item: cast(M, item))
    with decode_threads() as parallel:
        if per_core > 0:

            def read_and_compute(part: list[T]) -> list[R]:
                return list(compute([picture(item) for item in part]))

            for rows in parallel(read_and_compute, batched(items, per_core), torch.get_num_threads()):
                yield from rows
        elif engine.device.type == "cpu":
            for part in batched(items, batch_size):
                yield from compute(list(parallel(picture, part)))
        else:
            before: Iterable[R] = ()
            for pictures in batched(parallel(picture, items, batch_size * AHEAD), batch_size):
                asked = compute(pictures)
                yield from before
                before = asked
            yield from before


def _images_per_core(engine: Classifies, num_images: int, batch_size: int) -> int:
    """Size of the batches that single cores read and compute, so that all cores end together; 0: they take turns."""
    cores = min(available_cores(), torch.get_num_threads())
    if cores < 2 or num_images < 2 * cores or not isinstance(engine, Engine) or engine.device.type != "cpu":
        return 0
    largest = min(batch_size, max(1, CORE_PIXELS // engine.preprocess.image_size**2))
    rounds = -(-num_images // (cores * largest))
    return -(-num_images // (cores * rounds))


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items (itertools.batched, which Python 3.11 lacks)."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
