"""What is kept of one image to recognize it: a pixel hash, a perceptual hash and a 16x16 thumbnail.

The perceptual hash is the DCT hash of Zauner ("Implementation and Benchmarking of Perceptual Image Hash Functions",
2010), as imagehash's `phash` defines it. The image is reduced to 32x32 gray pixels. Of their discrete cosine transform,
the 8x8 lowest frequencies give one bit each: above the median or not. Saving or resizing a picture hardly changes the
hash. Different pictures may share a hash, and the thumbnail tells them apart.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from vit.data.planes import shown

Bytes = npt.NDArray[np.uint8]

SIDE = 32  # pixels of the reduced picture
LOW = 8  # frequencies of the perceptual hash, per side
THUMBNAIL_SIDE = 16  # pixels
THUMBNAIL_SIZE = 3 * THUMBNAIL_SIDE**2  # values

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # of ITU-R BT.601, as Pillow's "L"
_COSINES = np.cos(np.pi / SIDE * np.outer(np.arange(LOW), np.arange(SIDE) + 0.5)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class ImageHashes:
    """One image, in 800 bytes.

    Attributes:
        height, width: sides in pixels.
        pixel_hash: 16 bytes, equal for two images if and only if the pixels of all channels are equal.
        perceptual_hash: 64 bits, half of them set; similar images differ in few bits.
        thumbnail: (768,) the picture averaged to 16x16 pixels of three channels.
        spread: largest difference between two pixels of one channel; 0 for an image of one color.
    """

    height: int
    width: int
    pixel_hash: bytes
    perceptual_hash: int
    thumbnail: Bytes
    spread: int


def hash_image(image: Tensor) -> ImageHashes:
    """The hashes of upright pixels (C, H, W) uint8. Of other channels than three, people see some (`shown`)."""
    number, height, width = image.shape
    pixels = image.contiguous().numpy()
    digest = hashlib.blake2b(f"{height}x{width}:".encode(), digest_size=16)
    digest.update(pixels.data)
    channels = pixels.reshape(number, -1)
    spread = int((channels.max(1) - channels.min(1)).max())
    reduced = TF.resize(shown(image), [SIDE, SIDE], interpolation=InterpolationMode.BILINEAR, antialias=True)
    square = reduced.to(torch.float32).contiguous().numpy()
    return ImageHashes(height, width, digest.digest(), _perceptual_hash(square), _thumbnail(square), spread)


def _perceptual_hash(square: npt.NDArray[np.float32]) -> int:
    """(3, 32, 32) float pixels -> 64 bits."""
    gray = np.tensordot(_LUMA, square, axes=1)
    frequencies = _COSINES @ gray @ _COSINES.T
    bits = frequencies > np.median(frequencies)
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def _thumbnail(square: npt.NDArray[np.float32]) -> Bytes:
    """(3, 32, 32) -> (768,) means of 2x2 blocks."""
    step = SIDE // THUMBNAIL_SIDE
    blocks = square.reshape(3, THUMBNAIL_SIDE, step, THUMBNAIL_SIDE, step)
    return blocks.mean((2, 4)).round().astype(np.uint8).reshape(THUMBNAIL_SIZE)
