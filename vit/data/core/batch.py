"""`Batch`: the images that a loader yields, with everything that is known about each image."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Images with their labels, paths and errors. Row i of every field belongs to image i."""

    image: Tensor  # (B, 3, S, S) uint8 from the loader; float and normalized on the device
    # (B,) int64 class numbers, -1 where unknown; (B, C) float after mixup or cutmix. With several labels for an image
    # (B, K) float32: 1 present, 0 absent, -1 unknown; shares from 0 to 1 after mixup or cutmix.
    label: Tensor
    path: tuple[str, ...]  # B paths, as the user wrote or listed them
    # B reasons why the listed image could not be read; "" where it could. In training another image takes the row.
    error: tuple[str, ...]
    draw_seed: Tensor  # (B,) int64 seeds for all random draws of this image in this epoch; 0 in evaluation
    # (B,) bool; False for images that evaluation could not read, and for rows that only give all processes equally many
    # batches
    valid: Tensor

    def __len__(self) -> int:
        return len(self.path)

    def to(self, device: torch.device | str) -> "Batch":
        """The same rows on `device`. `draw_seed` stays on the CPU, where it is read."""
        return replace(  # Lightning calls this method
            self,
            image=self.image.to(device, non_blocking=True),
            label=self.label.to(device, non_blocking=True),
            valid=self.valid.to(device, non_blocking=True),
        )

    def share_memory(self) -> None:
        """Move the rows, in place, to memory that processes share. RuntimeError where there is too little."""
        for tensor in (self.image, self.label, self.draw_seed, self.valid):
            tensor.share_memory_()

    def pin_memory(self) -> "Batch":
        """The same rows in page-locked memory; DataLoader's `pin_memory` calls this method."""
        image, label, valid = (tensor.pin_memory() for tensor in (self.image, self.label, self.valid))
        return replace(self, image=image, label=label, valid=valid)
