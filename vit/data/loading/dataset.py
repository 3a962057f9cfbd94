"""Lists of keys -> whole batches, from files or from memory; an unreadable image never ends a batch."""

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vit.data.core.batch import Batch
from vit.data.core.draws import hashed
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Labels, Samples
from vit.data.loading.sampler import Key
from vit.data.loading.threads import decode_threads
from vit.data.pixels.augment import ImageAugment
from vit.data.pixels.images import image_of
from vit.data.pixels.planes import ChannelsError
from vit.data.pixels.preprocess import COLORS, Preprocess, resize_shorter
from vit.errors import DataError

_FETCHED_AT_ONCE = 1024  # images that memory keeps, if they are on other machines
_MAX_TRIES = 10  # images that may stand in for an unreadable one, the unreadable one included


class ImageDataset(Dataset[Batch]):
    """Samples as a dataset of whole batches.

    `augment` is None for evaluation, and `seed` is that of its draws. With `in_memory` all images are kept as uint8,
    decoded once. The batches are the same.

    Attributes:
        unreadable: {index: reason}. In training another image stands in for such an image; evaluation leaves it out.
        memory: all images, as one tensor (n, C, S, S) where all have the final size; None if files are read.
        origin: (n,) index of the image that `memory` holds at each index.
    """

    def __init__(
        self, samples: Samples, preprocess: Preprocess, augment: ImageAugment | None, seed: int, in_memory: bool
    ) -> None:
        self.samples, self.preprocess, self.augment, self.seed = samples, preprocess, augment, seed
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

    def __getitems__(self, keys: list[Key]) -> Batch:
        """The batch of some keys. DataLoader calls this method instead of `__getitem__` for each image."""
        asked = indices = [key.index for key in keys]
        draw_seeds = [0] * len(keys) if self.augment is None else self._draw_seeds(keys)
        if self.is_stacked:
            assert isinstance(self.memory, Tensor)
            images = self.memory[indices]
            indices = self.origin[indices].tolist()
        else:
            if self.memory is None:
                self.samples.prepare(indices)
            pictures, indices = map(list, zip(*map(self.read, indices), strict=True))
            if self.augment is not None and self._is_cropped:
                pictures = list(map(self.augment.crop, pictures, draw_seeds))
            images = torch.stack(pictures)
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
        epochs, indices, _, repeats = zip(*keys, strict=True)
        hashes = hashed(self.seed, epochs, indices)
        if any(repeats):
            hashes = np.where(np.equal(repeats, 0), hashes, hashed(self.seed, epochs, indices, repeats))
        return (hashes >> np.uint64(1)).tolist()

    @property
    def _is_cropped(self) -> bool:
        """Whether every epoch crops an image differently."""
        return self.augment is not None and self.augment.augment.crops

    def read(self, index: int) -> tuple[Tensor, int]:
        """The part of the preparation that all epochs share, which memory holds: an image, and the index that it has.

        (C, S, S) uint8; with random crops (C, H, W) of a larger size.
        """
        if self.memory is not None:
            return self.memory[index], int(self.origin[index])
        image, origin = self._decoded(index)
        if self.augment is None or not self._is_cropped:
            return self.preprocess(image), origin
        limit = self.augment.working_side
        is_large = min(image.shape[1:]) > limit
        return resize_shorter(image, limit, self.preprocess.interpolation) if is_large else image, origin

    def _decoded(self, index: int) -> tuple[Tensor, int]:
        """One image and its index. The next readable image replaces an unreadable training image.

        In evaluation an unreadable image is black, and its row is not valid.
        """
        preprocess, is_training = self.preprocess, self.augment is not None
        for place in range(index, index + (min(_MAX_TRIES, len(self)) if is_training else 1)):
            try:
                return image_of(self.samples, place % len(self), preprocess.decoding), place % len(self)
            except ImageError as error:
                failure = error
                if place == index:
                    self.unreadable[index] = str(error) if is_training else error.reason
        if not is_training:
            shape = (preprocess.channels, preprocess.image_size, preprocess.image_size)
            return torch.zeros(shape, dtype=torch.uint8), index
        fix = "fix the file, or move it elsewhere"
        if isinstance(failure, ChannelsError):
            fix = f"--model.preprocess.channels {failure.found}, if all images are like this one"
        raise DataError(f"{failure}", f"{fix}; 'vit data check' lists all files that cannot be read") from failure

    def _fill_memory(self) -> None:
        side, arrays = self.preprocess.image_size, self.samples.arrays
        is_whole = (self._is_cropped or self.preprocess.resize_side == side) and self.preprocess.channels == COLORS
        if is_whole and isinstance(arrays, np.ndarray) and arrays.shape[1:3] == (side, side):
            stacked = torch.from_numpy(arrays)
            is_gray = stacked.ndim == 3
            self.memory = (
                stacked[:, None].expand(-1, 3, -1, -1) if is_gray else stacked.permute(0, 3, 1, 2).contiguous()
            )
            return
        images: list[Tensor] = []
        final = None  # images that `read` gives the final size; a list that is stacked later would need it twice
        if not self._is_cropped:
            final = torch.empty((len(self), self.preprocess.channels, side, side), dtype=torch.uint8)
        with decode_threads() as parallel:
            for start in range(0, len(self), _FETCHED_AT_ONCE):
                indices = range(start, min(start + _FETCHED_AT_ONCE, len(self)))
                self.samples.prepare(indices)
                for index, (image, origin) in zip(indices, parallel(self.read, indices), strict=True):
                    self.origin[index] = origin
                    if final is None:
                        images.append(image)
                    else:
                        final[index] = image
        if final is None and all(image.shape[1:] == (side, side) for image in images):
            final = torch.stack(images)
        self.memory = images if final is None else final
