"""What is kept of an image to know it again: a hash of its pixels, a perceptual hash, and a picture of 16x16 pixels.

The perceptual hash is the DCT hash of Zauner ("Implementation and Benchmarking of Perceptual Image Hash Functions",
2010) as imagehash's `phash` defines it: gray, 32x32 pixels, the 8x8 lowest frequencies of its discrete cosine
transform, one bit each: above their median or not. It stays as it is when a picture is saved anew or resized, and many
a different picture shares it; the small picture tells those apart.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

Bytes = npt.NDArray[np.uint8]

SIDE = 32  # pixels of the picture that the hash is made of
LOW = 8  # frequencies of the hash, a side
SMALL_SIDE = 16  # pixels of the small picture
SMALL = 3 * SMALL_SIDE**2  # numbers of the small picture

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # of ITU-R BT.601, as Pillow's "L"
_COSINES = np.cos(np.pi / SIDE * np.outer(np.arange(LOW), np.arange(SIDE) + 0.5)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One image, in 800 bytes.

    Attributes:
        height, width: in pixels.
        digest: 16 bytes; images with the same pixels, and only they, share it.
        phash: 64 bits, half of them set; images that look alike differ in few of them.
        small: (768,) the picture averaged to 16x16 pixels of three channels.
        spread: largest difference between two pixels in any channel; 0 for one color.
    """

    height: int
    width: int
    digest: bytes
    phash: int
    small: Bytes
    spread: int


def fingerprint(image: Tensor) -> Fingerprint:
    """The fingerprint of upright pixels (3, H, W) uint8."""
    _, height, width = image.shape
    pixels = image.contiguous().numpy()
    digest = hashlib.blake2b(f"{height}x{width}:".encode(), digest_size=16)
    digest.update(pixels.data)
    channels = pixels.reshape(3, -1)
    spread = int((channels.max(1) - channels.min(1)).max())
    reduced = TF.resize(image, [SIDE, SIDE], interpolation=InterpolationMode.BILINEAR, antialias=True)
    square = reduced.to(torch.float32).numpy()
    return Fingerprint(height, width, digest.digest(), _phash(square), _small(square), spread)


def _phash(square: npt.NDArray[np.float32]) -> int:
    """The hash of (3, 32, 32) float pixels."""
    gray = np.tensordot(_LUMA, square, axes=1)
    frequencies = _COSINES @ gray @ _COSINES.T
    bits = frequencies > np.median(frequencies)
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def _small(square: npt.NDArray[np.float32]) -> Bytes:
    """(3, 32, 32) -> (768,) means of blocks."""
    step = SIDE // SMALL_SIDE
    return square.reshape(3, SMALL_SIDE, step, SMALL_SIDE, step).mean((2, 4)).round().astype(np.uint8).reshape(SMALL)
