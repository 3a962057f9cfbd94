"""The only thing that loaders yield."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Some images and everything that is known about each one; the rows of all fields belong together.

    Attributes:
        image: (B, 3, S, S) uint8 as loaded; float and normalized once it is on the device.
        label: (B,) int64 class numbers, -1 where unknown; (B, C) float after mixup or cutmix.
        path: B names, as the user wrote or listed them.
        error: B reasons why the image that belongs there could not be read; "" for those that could. In training
            another image stands in its place; in evaluation the row is not valid.
        key: (B,) int64, the word that everything drawn for this image in this epoch follows from; 0 in evaluation.
        valid: (B,) bool; False for rows that only make the batches of all processes equally long, and for images that
            evaluation could not read.
    """

    image: Tensor
    label: Tensor
    path: tuple[str, ...]
    error: tuple[str, ...]
    key: Tensor
    valid: Tensor

    def __len__(self) -> int:
        return len(self.path)

    def to(self, device: torch.device | str) -> "Batch":
        """The same rows on `device` (Lightning moves batches by this method); `key` is read on the CPU and stays."""
        return replace(
            self,
            image=self.image.to(device, non_blocking=True),
            label=self.label.to(device, non_blocking=True),
            valid=self.valid.to(device, non_blocking=True),
        )

    def share_memory(self) -> None:
        """Move the rows, in place, to memory that processes share; RuntimeError where there is too little of it."""
        for tensor in (self.image, self.label, self.key, self.valid):
            tensor.share_memory_()

    def pin_memory(self) -> "Batch":
        """The same rows in page-locked memory (DataLoader's pin_memory calls it)."""
        return replace(self, image=self.image.pin_memory(), label=self.label.pin_memory())
