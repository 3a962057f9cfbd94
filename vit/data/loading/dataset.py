"""Lists of keys -> whole batches, from files or from memory; an unreadable image never ends a batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vit.data.core.batch import Batch
from vit.data.core.draws import hashed
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Labels, Samples
from vit.data.loading.sampler import Key
from vit.data.loading.threads import available_cores, decode_threads
from vit.data.loading.workers import MOST_WORKERS, START, worker_loader
from vit.data.pixels.augment import ImageAugment
from vit.data.pixels.decode import decode_image
from vit.data.pixels.planes import ChannelsError, with_channels
from vit.data.pixels.preprocess import COLORS, Decoding, Preprocess, resize_shorter
from vit.errors import DataError

# Decoding of many small images on all cores, in processes of their own
#
# Most of the time of a small image is Python's, and Python runs one thread at a time: sixteen threads decode fewer
# images of 32 pixels in a second than one. Larger images take decoders that release the interpreter's lock, see
# threads.py.

MOST_SIDE = 64  # pixels of a small image
FEWEST = 5_000  # images that are worth the start of processes
FEWEST_CORES = 4
PART_BYTES = 2**18  # that a process sends at once: at most 8 MiB of shared memory wait for the training


@dataclass(frozen=True)
class Part:
    """Some decoded images."""

    images: Tensor  # (n, C, S, S) uint8
    origin: list[int]  # index of the image that each row shows
    unreadable: dict[int, str]  # {index: reason}

    def share_memory(self) -> None:
        """Move the images, in place, to memory that processes share; RuntimeError where there is too little."""
        self.images.share_memory_()


def uses_processes(count: int, side: int) -> bool:
    """Whether processes decode this many images of this side sooner than threads."""
    return START is not None and count >= FEWEST and side <= MOST_SIDE and available_cores() >= FEWEST_CORES


def parts(count: int, image_bytes: int, decode: Callable[[range], Part]) -> Iterator[tuple[range, Part]]:
    """Every part of `count` images, decoded, in order.

    Args:
        image_bytes: size of a decoded image.
        decode: decodes the images of some indices, in another process.

    Raises:
        DataError: the error of `decode`.
    """
    size = max(1, PART_BYTES // image_bytes)
    ranges = [range(start, min(start + size, count)) for start in range(0, count, size)]
    workers = min(MOST_WORKERS, available_cores())
    yield from zip(ranges, worker_loader(_Parts(decode), ranges, workers), strict=True)


@dataclass
class _Parts:
    """Parts as a dataset of batches."""

    decode: Callable[[range], Part]

    def __getitems__(self, indices: range) -> Part:
        return self.decode(indices)


_FETCHED_AT_ONCE = 1024  # images that memory keeps, if they are on other machines
_USUAL = Decoding()
_MAX_TRIES = 10  # images that may stand in for an unreadable one, the unreadable one included


def image_of(samples: Samples, index: int, decoding: Decoding = _USUAL) -> Tensor:
    """One image of any source, upright: (C, H, W) uint8.

    Raises:
        ImageError: the image cannot be read.
        DataError: images of shards or other machines cannot be read at all.
    """
    if samples.arrays is None:
        return decode_image(samples.encoded(index), samples.name(index), decoding)
    channels = decoding.channels
    pixels = torch.from_numpy(np.ascontiguousarray(samples.arrays[index]))
    if pixels.ndim == 2 and channels == COLORS:
        return pixels.expand(COLORS, -1, -1)
    planes = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
    return with_channels(planes, channels, samples.name(index))


class ImageDataset(Dataset[Batch]):
    """Samples as a dataset of whole batches.

    Args:
        preprocess: preprocessing of evaluation.
        augment: augmentation of training images; None for evaluation.
        seed: seed of the augmentation's draws.
        in_memory: keep all images as uint8, decoded once. The batches are the same.

    Attributes:
        unreadable: {index: reason}. In training another image stands in for such an image; evaluation leaves it out.
        memory: all images, as one tensor (n, C, S, S) where all have the final size; None if files are read.
        origin: (n,) index of the image that `memory` holds at each index.
    """

    def __init__(
        self, samples: Samples, preprocess: Preprocess, augment: ImageAugment | None, seed: int, in_memory: bool
    ) -> None:
        self.samples = samples
        self.preprocess = preprocess
        self.augment = augment
        self.seed = seed
        self.unreadable: dict[int, str] = {}
        self.memory: list[Tensor] | Tensor | None = None
        self.origin: Labels = np.arange(len(samples))
        if in_memory or samples.arrays is not None:
            self._fill_memory()

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def is_stacked(self) -> bool:
        """Whether memory holds all images in their final size, without random crops: a batch is then one gather."""
        return isinstance(self.memory, Tensor) and not self._is_cropped

    @property
    def is_recolored(self) -> bool:
        """Whether RandAugment or the user's augmentation varies the images."""
        augment = None if self.augment is None else self.augment.augment
        return augment is not None and (augment.randaugment > 0 or augment.own is not None)

    def __getitems__(self, keys: list[Key]) -> Batch:
        """The batch of some keys. DataLoader calls this method instead of `__getitem__` for each image."""
        indices = [key.index for key in keys]
        asked, draw_seeds = indices, self._draw_seeds(keys)
        if self.is_stacked:
            assert isinstance(self.memory, Tensor)
            images = self.memory[indices]
            indices = self.origin[indices].tolist()
        else:
            if self.memory is None:
                self.samples.prepare(indices)
            pictures = [self._picture(index) for index in indices]
            images = torch.stack(
                [self._cropped(image, seed) for (image, _), seed in zip(pictures, draw_seeds, strict=True)]
            )
            indices = [index for _, index in pictures]
        is_training = self.augment is not None
        if self.augment is not None:
            images = self.augment.recolored(images, draw_seeds)
        return Batch(
            image=images,
            label=self.samples.task.targets(self.samples.labels[indices]),
            path=tuple(self.samples.paths[index] for index in indices),
            error=tuple(self.unreadable.get(index, "") for index in asked),
            draw_seed=torch.tensor(draw_seeds),
            # whether the image was read, or another one stands in for it
            valid=torch.tensor([key.valid and (is_training or key.index not in self.unreadable) for key in keys]),
        )

    def _draw_seeds(self, keys: list[Key]) -> list[int]:
        """The draw seed of each key (see `Batch.draw_seed`)."""
        if self.augment is None:
            return [0] * len(keys)
        epochs, indices, _, repeats = zip(*keys, strict=True)
        words = hashed(self.seed, epochs, indices)
        if any(repeats):
            words = np.where(np.equal(repeats, 0), words, hashed(self.seed, epochs, indices, repeats))
        return (words >> np.uint64(1)).tolist()

    @property
    def _is_cropped(self) -> bool:
        """Whether every epoch crops an image differently."""
        return self.augment is not None and self.augment.augment.crops

    def _cropped(self, image: Tensor, draw_seed: int) -> Tensor:
        """The result of `_kept` with the size of the input: (C, H, W) -> (C, S, S) uint8."""
        return self.augment.crop(image, draw_seed) if self.augment is not None and self._is_cropped else image

    def _kept(self, image: Tensor) -> Tensor:
        """The part of the preparation that all epochs share. Memory holds this result."""
        if self.augment is None or not self._is_cropped:
            return self.preprocess(image)
        limit = self.augment.working_side
        return resize_shorter(image, limit, self.preprocess.interpolation) if min(image.shape[1:]) > limit else image

    def _picture(self, index: int) -> tuple[Tensor, int]:
        """The result of `_kept` for an index, and the index of the image that it shows."""
        if self.memory is not None:
            return self.memory[index], int(self.origin[index])
        image, origin = self._decoded(index)
        return self._kept(image), origin

    def _decoded(self, index: int) -> tuple[Tensor, int]:
        """One image and its index. The next readable image replaces an unreadable training image.

        In evaluation an unreadable image is black, and its row is not valid.
        """
        if self.samples.arrays is not None:
            return self._image(index), index
        if self.augment is None:
            try:
                return self._image(index), index
            except ImageError as error:
                self.unreadable[index] = error.reason
                shape = (self.preprocess.channels, self.preprocess.image_size, self.preprocess.image_size)
                return torch.zeros(shape, dtype=torch.uint8), index
        for candidate in range(index, index + min(_MAX_TRIES, len(self))):
            try:
                return self._image(candidate % len(self)), candidate % len(self)
            except ImageError as error:
                failure = error
                if candidate == index:
                    self.unreadable[index] = str(error)
        if isinstance(failure, ChannelsError):
            fix = f"--model.preprocess.channels {failure.found}, if all images are like this one"
        else:
            fix = "fix the file, or move it elsewhere"
        raise DataError(f"{failure}", f"{fix}; 'vit data check' lists all files that cannot be read") from failure

    def _part(self, indices: range) -> Part:
        """Images as memory holds them, decoded in another process: `unreadable` of this one is that process's own."""
        self.unreadable = {}
        decoded = [self._decoded(index) for index in indices]
        images = torch.stack([self._kept(image) for image, _ in decoded])
        return Part(images, [origin for _, origin in decoded], self.unreadable)

    def _image(self, index: int) -> Tensor:
        return image_of(self.samples, index, self.preprocess.decoding)

    def _fill_memory(self) -> None:
        side = self.preprocess.image_size
        is_input = self._is_cropped or self.preprocess.resize_side == side
        plain = self.preprocess.channels == COLORS
        if self.samples.arrays is not None and is_input and plain and _all_shaped(self.samples, side):
            stacked = torch.from_numpy(np.asarray(self.samples.arrays))
            gray = stacked.ndim == 3
            self.memory = stacked[:, None].expand(-1, 3, -1, -1) if gray else stacked.permute(0, 3, 1, 2).contiguous()
            return

        if self.samples.reader is None and not self._is_cropped and uses_processes(len(self), side):
            self.memory = torch.empty((len(self), self.preprocess.channels, side, side), dtype=torch.uint8)
            for indices, decoded in parts(len(self), self.memory[0].numel(), self._part):
                self.memory[indices.start : indices.stop] = decoded.images
                self.origin[indices.start : indices.stop] = decoded.origin
                self.unreadable |= decoded.unreadable
            return

        def kept(index: int) -> Tensor:
            image, self.origin[index] = self._decoded(index)
            return self._kept(image)

        images: list[Tensor] | Tensor = []
        if not self._is_cropped:  # `_kept` gives all the final size; a list that is stacked later would need it twice
            images = torch.empty((len(self), self.preprocess.channels, side, side), dtype=torch.uint8)
        with decode_threads() as parallel:
            for start in range(0, len(self), _FETCHED_AT_ONCE):
                part = range(start, min(start + _FETCHED_AT_ONCE, len(self)))
                self.samples.prepare(part)
                for index, image in zip(part, parallel(kept, part), strict=True):
                    if isinstance(images, Tensor):
                        images[index] = image
                    else:
                        images.append(image)
        exact = isinstance(images, list) and all(image.shape[1:] == (side, side) for image in images)
        self.memory = torch.stack(images) if exact else images  # type: ignore[arg-type]


def _all_shaped(samples: Samples, side: int) -> bool:
    assert samples.arrays is not None
    return isinstance(samples.arrays, np.ndarray) and samples.arrays.shape[1:3] == (side, side)
