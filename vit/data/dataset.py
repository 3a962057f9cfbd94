"""Lists of keys -> batches: decode, or take from memory, then crop; errors stay with their image."""

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vit.data.augment import ImageAugment
from vit.data.batch import Batch
from vit.data.decode import ImageError, read_image
from vit.data.draws import hashed
from vit.data.preprocess import Preprocess, resize_shorter
from vit.data.sampler import Key
from vit.data.samples import Labels, Samples
from vit.data.threads import decode_threads
from vit.errors import DataError


def array_image(samples: Samples, index: int) -> Tensor:
    """The pixels of an image that its source holds: (3, H, W) uint8."""
    assert samples.arrays is not None
    pixels = torch.from_numpy(np.ascontiguousarray(samples.arrays[index]))
    return pixels.expand(3, -1, -1) if pixels.ndim == 2 else pixels.permute(2, 0, 1)


class ImageDataset(Dataset[Batch]):
    """Samples that yield whole batches.

    Args:
        samples: the images.
        preprocess: how evaluation sees them.
        augment: how training varies them; None for evaluation.
        seed: of the augmentation's draws.
        in_memory: keep all images as uint8, decoded once; the batches are the same.
    """

    def __init__(
        self, samples: Samples, preprocess: Preprocess, augment: ImageAugment | None, seed: int, in_memory: bool
    ) -> None:
        self.samples = samples
        self.preprocess = preprocess
        self.augment = augment
        self.seed = seed
        self.unreadable: dict[int, str] = {}  # why; others stand in for training images, evaluation leaves them out
        self.memory: list[Tensor] | Tensor | None = None
        self.origin: Labels = np.arange(len(samples))  # which image lies at each place of memory
        if in_memory or samples.arrays is not None:
            self._fill_memory()

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def is_stacked(self) -> bool:
        """Whether all images lie in memory at their final size, uncropped, so that a batch is one gather."""
        return isinstance(self.memory, Tensor) and not self._is_cropped

    def __getitems__(self, keys: list[Key]) -> Batch:
        """The batch of some keys (DataLoader calls this instead of one __getitem__ per image)."""
        indices = [key.index for key in keys]
        asked, words = indices, self._words(keys)
        if self.is_stacked:
            assert isinstance(self.memory, Tensor)
            images = self.memory[indices]
            if self.augment is not None and self.augment.augment.randaugment:
                images = torch.stack([self.augment.recolor(i, w) for i, w in zip(images, words, strict=True)])
            indices = self.origin[indices].tolist()
        else:
            pictures = [self._picture(index) for index in indices]
            images = torch.stack(
                [self._prepared(image, word) for (image, _), word in zip(pictures, words, strict=True)]
            )
            indices = [index for _, index in pictures]
        return Batch(
            image=images,
            label=torch.from_numpy(self.samples.labels[indices]),
            path=tuple(self.samples.paths[index] for index in indices),
            error=tuple(self.unreadable.get(index, "") for index in asked),
            key=torch.tensor(words),
            valid=torch.tensor([key.valid and self._is_there(key.index) for key in keys]),
        )

    def _is_there(self, index: int) -> bool:
        """Whether the image of an index, or one that stands in for it, was read."""
        return self.augment is not None or index not in self.unreadable

    def _words(self, keys: list[Key]) -> list[int]:
        """The word of each key (see `Batch.key`)."""
        if self.augment is None:
            return [0] * len(keys)
        epochs, indices, _ = zip(*keys, strict=True)
        return (hashed(self.seed, epochs, indices) >> np.uint64(1)).tolist()

    @property
    def _is_cropped(self) -> bool:
        """Whether every epoch sees another part of an image."""
        return self.augment is not None and self.augment.augment.crops

    def _prepared(self, image: Tensor, word: int) -> Tensor:
        """What `_kept` gives, as the network sees it this time: (3, H, W) -> (3, S, S) uint8."""
        if self.augment is None:
            return image
        return self.augment.recolor(self.augment.crop(image, word) if self._is_cropped else image, word)

    def _kept(self, image: Tensor) -> Tensor:
        """What all epochs have in common of an image, and all that they need: this is what memory holds."""
        if self.augment is None or not self._is_cropped:
            return self.preprocess(image)
        limit = self.augment.working_side
        return resize_shorter(image, limit, self.preprocess.interpolation) if min(image.shape[1:]) > limit else image

    def _picture(self, index: int) -> tuple[Tensor, int]:
        if self.memory is not None:
            return self.memory[index], int(self.origin[index])
        image, origin = self._decoded(index)
        return self._kept(image), origin

    def _decoded(self, index: int) -> tuple[Tensor, int]:
        """One image of the source and its index; a bad training image is replaced by the next good one of the list.

        In evaluation an image that cannot be read is black, and its row is not valid.
        """
        if self.samples.arrays is not None:
            return array_image(self.samples, index), index
        if self.augment is None:
            try:
                return read_image(self.samples.file(index)), index
            except ImageError as error:
                self.unreadable[index] = error.reason
                return torch.zeros(3, self.preprocess.image_size, self.preprocess.image_size, dtype=torch.uint8), index
        tries = min(10, len(self))
        for place in range(index, index + tries):
            try:
                return read_image(self.samples.file(place % len(self))), place % len(self)
            except ImageError as error:
                failure = error
                if place == index:
                    self.unreadable[index] = str(error)
        raise DataError(
            f"{failure}", "fix or remove the file ('vit data check' lists every file that cannot be read)"
        ) from failure

    def _fill_memory(self) -> None:
        side = self.preprocess.image_size
        is_input = self._is_cropped or self.preprocess.resize_side == side
        if self.samples.arrays is not None and is_input and _all_shaped(self.samples, side):
            stacked = torch.from_numpy(np.asarray(self.samples.arrays))
            gray = stacked.ndim == 3
            self.memory = stacked[:, None].expand(-1, 3, -1, -1) if gray else stacked.permute(0, 3, 1, 2).contiguous()
            return

        def kept(index: int) -> Tensor:
            image, self.origin[index] = self._decoded(index)
            return self._kept(image)

        with decode_threads() as parallel:
            images = list(parallel(kept, range(len(self))))
        exact = all(image.shape[1:] == (side, side) for image in images)
        self.memory = torch.stack(images) if exact else images


def _all_shaped(samples: Samples, side: int) -> bool:
    assert samples.arrays is not None
    return isinstance(samples.arrays, np.ndarray) and samples.arrays.shape[1:3] == (side, side)
