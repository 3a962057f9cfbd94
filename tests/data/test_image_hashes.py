"""Hashes of an image: equal for equal pixels, close for similar pictures."""

import io

import numpy as np
import pytest
import torch
from scipy.fft import dctn
from torchvision.transforms.v2 import functional as TF

from vit.data.checks.scan import hash_image
from vit.data.pixels.decode import decode_image


def pixels(picture):
    return torch.from_numpy(np.ascontiguousarray(np.asarray(picture.convert("RGB")).transpose(2, 0, 1)))


def saved_again(picture, quality=70, scale=0.9):
    small = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=quality)
    return decode_image(buffer.getvalue())


def test_the_hash_is_the_dct_hash_of_imagehash(scene):
    """Recomputed with scipy's transform, in imagehash's order: bits of rows, the lowest frequency first."""
    for seed in range(5):
        image = pixels(scene(seed))
        gray = np.array([0.299, 0.587, 0.114]) @ TF.resize(image, [32, 32], antialias=True).reshape(3, -1).numpy()
        low = dctn(gray.reshape(32, 32))[:8, :8]
        bits = "".join("01"[int(value > np.median(low))] for value in low.reshape(-1))
        assert f"{hash_image(image).perceptual_hash:064b}" == bits


def test_only_the_same_pixels_have_the_same_hash(scene):
    image = pixels(scene(0, 32, 24))
    first = hash_image(image)
    assert (first.sides, len(first.pixel_hash)) == ((24, 32), 16)
    assert hash_image(image.clone()).pixel_hash == first.pixel_hash
    other_strides = image.transpose(1, 2).contiguous().transpose(1, 2)
    assert hash_image(other_strides).pixel_hash == first.pixel_hash
    changed = image.clone()
    changed[2, 23, 31] ^= 1
    others = [changed, image.reshape(3, 32, 24), image.transpose(1, 2), image.flip(0)]
    assert len({hash_image(other).pixel_hash for other in others} | {first.pixel_hash}) == 5


def test_a_picture_saved_again_stays_close_and_others_are_far(scene):
    prints = [hash_image(pixels(scene(seed))) for seed in range(20)]
    for seed, first in enumerate(prints):
        again = hash_image(saved_again(scene(seed)))
        assert (first.perceptual_hash ^ again.perceptual_hash).bit_count() <= 4 and again.pixel_hash != first.pixel_hash
        assert np.abs(first.thumbnail.astype(int) - again.thumbnail).mean() < 6
        others = [(first.perceptual_hash ^ other.perceptual_hash).bit_count() for other in prints if other is not first]
        assert min(others) > 10


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 50), (8, 8), (33, 700)])
def test_any_size_has_hashes(height, width):
    image = torch.full((3, height, width), 7, dtype=torch.uint8)
    assert hash_image(image).spread == 0 and set(hash_image(image).thumbnail.tolist()) == {7}
    image[1, 0, 0] = 250
    assert hash_image(image).spread == (243 if height * width > 1 else 0)


def test_the_thumbnail_is_the_mean_of_blocks():
    image = torch.arange(3 * 32 * 32).reshape(3, 32, 32).remainder(251).to(torch.uint8)
    means = image.to(torch.float64).reshape(3, 16, 2, 16, 2).mean((2, 4)).round().reshape(-1)
    assert np.abs(hash_image(image).thumbnail - means.numpy()).max() <= 1
