"""Augmentation of one image before it joins a batch: the random crop, and RandAugment."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from vit.data.core.draws import hashed, uniform
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.preprocess import Preprocess

PREPROCESS = Preprocess(32)
KEYS = (hashed(0, np.arange(300)) >> np.uint64(1)).tolist()


def coordinates() -> Tensor:
    """256x256 pixels: red is the column, green is the row."""
    line = torch.arange(256, dtype=torch.uint8)
    return torch.stack(
        [line.expand(256, 256), line[:, None].expand(256, 256), torch.zeros(256, 256, dtype=torch.uint8)]
    )


def noise(height: int, width: int) -> Tensor:
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_crops_have_the_areas_and_ratios_of_the_paper() -> None:
    augment = ImageAugment(Augment(crop=0.35), PREPROCESS)
    boxes = []
    for key in KEYS:
        crop = augment.crop(coordinates(), key)
        assert crop.shape == (3, 32, 32) and crop.dtype == torch.uint8
        (left, top), (right, bottom) = crop[:2].amin(dim=(1, 2)).tolist(), crop[:2].amax(dim=(1, 2)).tolist()
        boxes.append((left, top, right - left + 1, bottom - top + 1))
    left, top, width, height = np.array(boxes, dtype=float).T
    areas, ratios = width * height / 256**2, width / height
    assert 0.30 < areas.min() < 0.42 and areas.max() > 0.85 and 0.55 < areas.mean() < 0.72
    assert 0.70 < ratios.min() < 0.80 and 1.25 < ratios.max() < 1.40
    for start, length in ((left, width), (top, height)):
        place = start[length < 220] / (256 - length[length < 220])
        assert place.min() < 0.1 and place.max() > 0.9 and abs(place.mean() - 0.5) < 0.1


@pytest.mark.parametrize("size", [(533, 400), (480, 640), (300, 300), (1080, 1920)])
def test_crops_of_usual_pictures_are_those_that_recipes_were_measured_with(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Areas and ratios as drawn, cut at the ends of the picture."""
    boxes: list[tuple[int, int]] = []
    monkeypatch.setattr(TF, "resized_crop", lambda image, top, left, *box, **_: boxes.append(box[:2]) or image)
    for key in KEYS:
        ImageAugment(Augment(crop=0.35), PREPROCESS).crop(torch.zeros(3, *size, dtype=torch.uint8), key)
    height, width = size
    for key, box in zip(KEYS, boxes, strict=True):
        area, ratio = uniform(4, key, 1)[:2]
        pixels, shape = (0.35 + 0.65 * area) * height * width, 0.75 * (16 / 9) ** ratio
        assert box == (min(height, round((pixels / shape) ** 0.5)), min(width, round((pixels * shape) ** 0.5)))


@pytest.mark.parametrize("size", [(64, 640), (640, 64), (64, 130), (64, 64)])
def test_crops_of_narrow_pictures_keep_the_smallest_area(size: tuple[int, int]) -> None:
    height, width = size
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None]
    picture = torch.stack([rows.expand(size) // 4, columns.expand(size) // 4, torch.zeros(size)]).to(torch.uint8)
    augment = ImageAugment(Augment(crop=0.35), PREPROCESS)
    areas = []
    for key in KEYS:
        place = augment.crop(picture, key)[:2].flatten(1)
        sides = 4 * (place.amax(1) - place.amin(1)).double()
        areas.append(float(sides.prod()) / (height * width))
    assert min(areas) > 0.25 and max(areas) > 0.6


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (300, 6), (32, 32), (31, 64)])
@pytest.mark.parametrize("crop", [0.05, 1.0])
def test_a_crop_of_any_picture_has_the_size(size: tuple[int, int], crop: float) -> None:
    for key in KEYS[:20]:
        result = ImageAugment(Augment(crop=crop), PREPROCESS).crop(noise(*size), key)
        assert result.shape == (3, 32, 32) and result.dtype == torch.uint8


def test_crops_are_resized_as_evaluation_resizes() -> None:
    found = {
        name: ImageAugment(Augment(crop=0.5), Preprocess(32, interpolation=name)).crop(noise(90, 70), KEYS[0])
        for name in ("bilinear", "bicubic")
    }
    assert not torch.equal(found["bilinear"], found["bicubic"])


def test_a_batch_has_the_images_that_their_own_keys_give() -> None:
    augment = ImageAugment(Augment(crop=0.5, randaugment=2), PREPROCESS)
    crops = torch.stack([augment.crop(noise(40, 50), key) for key in KEYS[:20]])
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        results.append(augment.recolored(crops, KEYS[:20]))
    assert torch.equal(*results)
    assert len({tuple(result.flatten().tolist()) for result in results[0]}) == 20
    order = torch.randperm(20).tolist()
    assert torch.equal(augment.recolored(crops[order], [KEYS[place] for place in order]), results[0][order])


def test_without_randaugment_colors_stay() -> None:
    images = noise(32, 32)[None]
    assert torch.equal(ImageAugment(Augment(crop=0.5), PREPROCESS).recolored(images, KEYS[:1]), images)
