"""RandAugment of batches against torchvision's RandAugment of single images."""

import pytest
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode, v2

from vit.data.pixels.augment import BatchedRandAugment

SEEDS = range(100)  # every operation, with both signs


def pictures(*shape: int) -> Tensor:
    """Noise of different brightness and contrast, and the last picture of one color."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(len(SEEDS), *shape, generator=generator) * torch.rand(len(SEEDS), 1, 1, 1, generator=generator)
    images[-1] = 0.5
    return (255 * images).to(torch.uint8)


@pytest.mark.parametrize(
    ("shape", "operations", "magnitude"),
    [
        *(
            (shape, *how)
            for shape in ((3, 32, 32), (1, 28, 28), (3, 9, 17))
            for how in ((1, 12), (2, 9), (3, 0), (2, 30))
        ),
        ((3, 230, 190), 2, 9),
        *(pytest.param((3, 230, 190), *how, marks=pytest.mark.slow) for how in ((1, 12), (3, 0), (2, 30))),
    ],
)
def test_every_image_is_torchvisions(shape: tuple[int, int, int], operations: int, magnitude: int) -> None:
    images = pictures(*shape)
    single = v2.RandAugment(operations, magnitude, interpolation=InterpolationMode.BILINEAR)
    expected = []
    for image, seed in zip(images, SEEDS, strict=True):
        torch.manual_seed(seed)
        expected.append(single(image))
    before = images.clone()
    found = BatchedRandAugment(operations, magnitude).of_batch(images, SEEDS)
    assert found.dtype == torch.uint8
    assert torch.equal(found, torch.stack(expected))
    assert torch.equal(images, before)


def test_torchs_generator_stays() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    BatchedRandAugment(2, 9).of_batch(pictures(3, 32, 32), SEEDS)
    assert torch.equal(torch.rand(4), expected)


def test_no_images() -> None:
    assert BatchedRandAugment(2, 9).of_batch(torch.empty(0, 3, 32, 32, dtype=torch.uint8), []).shape == (0, 3, 32, 32)
