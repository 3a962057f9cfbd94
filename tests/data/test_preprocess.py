"""Preprocessing: sizes and values, compared with torchvision."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.data.transforms import CenterCropOrPad, ResizeKeepRatio
from torchvision.transforms import InterpolationMode, v2

from vit.data.core.image_header import MAX_ASPECT
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.preprocess import Interpolation, Preprocess, ResizeMode, resize_shorter, to_device

sizes = st.tuples(st.integers(1, 300), st.integers(1, 300)).filter(lambda size: max(size) <= MAX_ASPECT * min(size))
interpolations = st.sampled_from(["bilinear", "bicubic"])
modes = st.sampled_from(["shortest", "squash"])


def noise(height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(height * 1000 + width)
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=generator)


@settings(max_examples=60)
@given(sizes, st.integers(8, 64), st.floats(0.5, 1.0), interpolations)
def test_every_image_becomes_a_square_of_the_size(
    size: tuple[int, int], side: int, crop_fraction: float, interpolation: Interpolation
) -> None:
    result = Preprocess(side, crop_fraction, interpolation=interpolation)(noise(*size))
    assert result.shape == (3, side, side) and result.dtype == torch.uint8


@settings(max_examples=60)
@given(sizes, st.integers(8, 64), st.sampled_from([1.0, 0.875, 0.9, 0.5]), interpolations, modes)
def test_pixels_are_those_of_torchvision(
    size: tuple[int, int], side: int, crop_fraction: float, interpolation: Interpolation, mode: ResizeMode
) -> None:
    preprocess = Preprocess(side, crop_fraction, interpolation=interpolation, resize_mode=mode)
    image, resized = noise(*size), preprocess.resize_side
    to = (resized, resized) if mode == "squash" else resized
    expected = v2.CenterCrop(side)(v2.Resize(to, InterpolationMode(interpolation), antialias=True)(image))
    assert (preprocess(image).int() - expected.int()).abs().max() <= 2


def test_an_image_of_the_size_is_treated_as_any_other() -> None:
    """timm, torchvision and transformers also crop its border."""
    image = noise(32, 32)
    assert torch.equal(Preprocess(32)(image), image)
    seen = Preprocess(32, crop_fraction=0.5)(torch.nn.functional.pad(torch.full((3, 16, 16), 200), (8, 8, 8, 8)).byte())
    assert (seen[:, 2:-2, 2:-2] > 150).all()


def test_a_squashed_picture_is_seen_whole() -> None:
    image = torch.zeros(3, 32, 96, dtype=torch.uint8)
    image[:, :, :32] = 200
    seen = Preprocess(32, resize_mode="squash")(image)
    assert seen.shape == (3, 32, 32) and (seen[:, :, :9] > 190).all() and (seen[:, :, 13:] < 10).all()


@settings(max_examples=60)
@given(sizes, st.integers(8, 64), st.sampled_from([1.0, 0.875, 0.5]), interpolations)
def test_padded_pixels_are_those_of_timm(
    size: tuple[int, int], side: int, crop_fraction: float, interpolation: Interpolation
) -> None:
    preprocess = Preprocess(side, crop_fraction, interpolation=interpolation, resize_mode="pad")
    image, longest = noise(*size), preprocess.resize_side
    if min(size) * longest < max(size):
        return  # timm resizes such a picture to a side of 0, and fails
    border = v2.Compose(
        [
            ResizeKeepRatio(longest, interpolation=interpolation, longest=1.0),
            CenterCropOrPad(side, fill=preprocess.fill),
        ]
    )
    theirs = v2.functional.pil_to_tensor(border(v2.functional.to_pil_image(image)))
    assert (preprocess(image).int() - theirs.int()).abs().max() <= 2


def test_a_padded_picture_is_seen_whole_between_bars_of_the_mean_color() -> None:
    image = torch.zeros(3, 96, 32, dtype=torch.uint8)
    image[:, :32] = 200
    preprocess = Preprocess(96, resize_mode="pad")
    seen = preprocess(image)
    assert torch.equal(seen[:, :, 32:64], image) and seen[:, 5, 5].tolist() == preprocess.fill == [124, 116, 104]
    assert preprocess.normalize(seen[None])[0, :, 5, 5].abs().max() < 0.01


def test_random_crops_of_a_long_picture_are_padded_too() -> None:
    image = torch.full((3, 300, 30), 9, dtype=torch.uint8)
    cropped = ImageAugment(Augment(crop=0.35), Preprocess(32, resize_mode="pad")).crop(image, 5)
    heights = (cropped == 9).all(0).sum(0)  # of the picture in each column
    assert cropped.shape == (3, 32, 32) and 3 <= (heights == 32).sum() <= 10 and heights[0] == 0


def test_the_crop_keeps_the_middle() -> None:
    image = torch.zeros(3, 32, 96, dtype=torch.uint8)
    image[:, :, 32:64] = 200
    assert (Preprocess(32)(image) == 200).all()
    assert (Preprocess(32)(image.transpose(1, 2).contiguous()) == 200).all()
    ring = torch.zeros(3, 64, 64, dtype=torch.uint8)
    ring[:, 16:48, 16:48] = 200
    assert (Preprocess(32, crop_fraction=0.5)(ring) == 200).all()


def test_crop_fraction_is_the_share_of_the_shorter_side() -> None:
    assert Preprocess(224, crop_fraction=0.875).resize_side == 256
    assert Preprocess(224).resize_side == 224
    assert resize_shorter(noise(40, 60), 20, "bicubic").shape == (3, 20, 30)


def test_normalized_images_have_the_given_statistics() -> None:
    preprocess = Preprocess(8, mean=(0.5, 0.25, 0.1), std=(0.2, 0.5, 1.0))
    images = noise(8, 8)[None].repeat(4, 1, 1, 1)
    before = images.clone()
    mean, std = torch.tensor(preprocess.mean).view(3, 1, 1), torch.tensor(preprocess.std).view(3, 1, 1)
    found = preprocess.normalize(images)
    assert found.dtype == torch.float32
    assert torch.allclose(found, (images.double() / 255 - mean.double()).div(std).float(), atol=1e-5)
    assert torch.equal(images, before)
    v2_normalize = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(preprocess.mean, preprocess.std)])
    assert torch.allclose(found, v2_normalize(images), atol=1e-5)


@pytest.mark.parametrize("level", [0, 124, 255])
def test_images_of_one_color_stay_finite(level: int) -> None:
    preprocess = Preprocess(4)
    images = torch.full((1, 3, 9, 5), level, dtype=torch.uint8)
    assert preprocess.normalize(preprocess(images[0])[None]).isfinite().all()


def test_it_survives_json() -> None:
    preprocess = Preprocess(48, 0.9, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), "bilinear")
    values = json.loads(json.dumps(preprocess.to_dict()))
    assert values == preprocess.to_dict()
    read = Preprocess(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
    assert read == preprocess and hash(read) == hash(preprocess)


def test_a_tensor_of_a_gpu_is_not_pinned_again():
    class OnGpu:
        is_cuda = True

        def to(self, device):
            return device

    assert to_device(OnGpu(), torch.device("cuda")) == torch.device("cuda")
