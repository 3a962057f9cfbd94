"""Augmentation of a batch: every draw follows from the draw seed of an image, and labels follow the pixels."""

import json

import numpy as np
import pytest
import torch
from timm.data.mixup import rand_bbox
from torch import Tensor

from vit.data.core.draws import hashed
from vit.data.pixels.augment import Augment, BatchAugment, preset


def keys(count: int, seed: int = 0) -> np.ndarray:
    return (hashed(seed, 0, np.arange(count)) >> np.uint64(1)).astype(np.int64)


def noise(count: int, side: int) -> Tensor:
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def moved(images: Tensor, words: np.ndarray, **parts: float) -> Tensor:
    return BatchAugment(Augment(**parts), num_classes=3).warp(images, words)


@pytest.mark.parametrize("side", [8, 28, 33])
def test_flip_is_certain_or_never(side: int) -> None:
    images = noise(16, side)
    assert torch.equal(moved(images, keys(16)), images.float())
    assert torch.allclose(moved(images, keys(16), flip=1.0), images.flip(3).float(), atol=0.02)
    assert torch.allclose(moved(images, keys(16), flip=1e-9, shift=1e-9), images.float(), atol=0.02)


def test_half_of_the_images_are_mirrored() -> None:
    images = noise(1, 8).expand(2000, -1, -1, -1)
    is_mirrored = (moved(images, keys(2000), flip=0.5) - images.flip(3)).abs().amax(dim=(1, 2, 3)) < 0.02
    assert abs(is_mirrored.float().mean() - 0.5) < 0.05  # 4.5 standard deviations


def test_shifts_are_whole_pixels_in_both_directions_to_the_limit() -> None:
    images, side, limit = noise(1, 16).expand(500, -1, -1, -1), 16, 2
    padded = torch.nn.functional.pad(images[0].float(), (limit,) * 4)
    shifted = {
        (x, y): padded[:, limit - y : limit - y + side, limit - x : limit - x + side]
        for x in range(-limit, limit + 1)
        for y in range(-limit, limit + 1)
    }
    found = moved(images, keys(500), shift=limit / side)
    counts = dict.fromkeys(shifted, 0)
    for image in found:
        (place,) = [place for place, expected in shifted.items() if torch.allclose(image, expected, atol=0.02)]
        counts[place] += 1
    assert min(counts.values()) > 0


def test_rotation_and_zoom_turn_about_the_middle() -> None:
    y, x = torch.meshgrid(torch.arange(33) - 16, torch.arange(33) - 16, indexing="ij")
    disc = ((x**2 + y**2) < 64).to(torch.uint8).mul(200).expand(300, 3, 33, 33)
    bar = ((y.abs() < 3) & (x.abs() < 12)).to(torch.uint8).mul(200).expand(300, 3, 33, 33)
    turned = moved(disc, keys(300), rotate=90.0)
    assert (turned - disc.float()).abs().mean() < 3
    turned = moved(bar, keys(300), rotate=90.0)
    assert (turned[:, :, 16, 16] - 200).abs().max() < 0.1
    assert turned[:, 0, 4:8, 16].amax(dim=1).max() > 150  # some stand upright
    assert ((turned - bar.float()).abs().mean(dim=(1, 2, 3)) < 2).any()  # some hardly turned
    areas = moved(disc, keys(300), zoom=0.25).sum(dim=(1, 2, 3)) / disc[0].float().sum()
    assert 0.50 < areas.min() < 0.65 and 1.45 < areas.max() < 1.65  # 0.75^2 and 1.25^2


EVERYTHING = {"shift": 0.1, "rotate": 20.0, "zoom": 0.2, "flip": 0.5}


def test_a_move_is_a_function_of_the_image_and_its_key() -> None:
    images, words = noise(9, 16), keys(9)
    whole = moved(images, words, **EVERYTHING)
    assert torch.equal(whole, moved(images, words, **EVERYTHING))
    for start, stop in ((0, 1), (4, 5), (2, 9), (8, 9)):
        alone = moved(images[start:stop], words[start:stop], **EVERYTHING)
        assert torch.allclose(alone, whole[start:stop], atol=1e-3)
    same = moved(images[:1].expand(9, -1, -1, -1), words, **EVERYTHING)
    assert all((same[0] - image).abs().max() > 1 for image in same[1:])


def one_hot_images(labels: Tensor, side: int = 16) -> Tensor:
    """Images in which the channel of their class is 1. After mixing, channel means are the fractions of the classes."""
    return torch.nn.functional.one_hot(labels, 3).float()[:, :, None, None].repeat(1, 1, side, side)


def mixed(labels: Tensor, words: np.ndarray, **parts: float) -> tuple[Tensor, Tensor]:
    return BatchAugment(Augment(**parts), num_classes=3).mix(one_hot_images(labels), labels, words)


@pytest.mark.parametrize("parts", [{"mixup": 0.2}, {"mixup": 1.0}, {"cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0}])
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_labels_are_the_shares_of_the_pixels(parts: dict[str, float], count: int) -> None:
    images, labels = mixed(torch.arange(count) % 3, keys(count), **parts)
    assert images.shape == (count, 3, 16, 16) and labels.shape == (count, 3)
    assert torch.allclose(labels.sum(dim=1), torch.ones(count)) and labels.min() >= 0
    assert torch.allclose(images.mean(dim=(2, 3)), labels, atol=1e-6)
    assert count < 7 or (labels.max(dim=1).values < 0.99).any()


@pytest.mark.parametrize("parts", [{"mixup": 1.0}, {"cutmix": 1.0}])
def test_a_pair_is_mixed_both_ways(parts: dict[str, float]) -> None:
    """The two images of a pair complement each other. Equal images would waste half of every batch."""
    labels = torch.tensor([0, 1] * 32)
    images, shares = mixed(labels, keys(64), **parts)
    assert torch.allclose(
        images[0::2] + images[1::2], torch.tensor([1.0, 1.0, 0.0])[:, None, None].expand(32, 3, 16, 16)
    )
    assert torch.allclose(shares[0::2, 0], shares[1::2, 1])
    assert (shares[0::2, 0] - shares[1::2, 0]).abs().median() > 0.2


@pytest.mark.parametrize("processes", [2, 4])
def test_even_shares_are_mixed_as_the_whole_batch_is(processes: int) -> None:
    labels, words, parts = torch.arange(16) % 3, keys(16), {"mixup": 0.5, "cutmix": 1.0}
    whole = mixed(labels, words, **parts)
    share = 16 // processes
    shares = [mixed(labels[i : i + share], words[i : i + share], **parts) for i in range(0, 16, share)]
    assert torch.equal(torch.cat([images for images, _ in shares]), whole[0])
    assert torch.equal(torch.cat([targets for _, targets in shares]), whole[1])


def test_mixing_is_a_function_of_the_pair_and_its_key() -> None:
    labels, words, parts = torch.arange(8) % 3, keys(8), {"mixup": 0.5, "cutmix": 1.0, "erasing": 0.5}
    images, shares = mixed(labels, words, **parts)
    again = mixed(labels[2:4], words[2:4], **parts)
    assert torch.equal(again[0], images[2:4]) and torch.equal(again[1], shares[2:4])


def test_cutmix_puts_a_box_of_the_neighbor_in() -> None:
    labels = torch.tensor([0, 1] * 200)
    images, _ = mixed(labels, keys(400), cutmix=1.0)
    own = images[torch.arange(400), labels]
    assert set(own.unique().tolist()) == {0.0, 1.0}
    for taken in own == 0:
        rows, columns = taken.any(dim=1), taken.any(dim=0)
        assert taken.sum() == rows.sum() * columns.sum()
        touches = any(edge.any() for edge in (rows[[0, -1]], columns[[0, -1]]))
        assert touches or abs(int(rows.sum()) - int(columns.sum())) <= 1  # a square, but where the border cuts it


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_cutmix_is_that_of_timm(alpha: float) -> None:
    """Before, boxes lay wholly inside the image, so that its center was replaced in 85 instead of 47 % of all draws."""
    count, draws = 4000, np.random.default_rng(0)
    labels = torch.tensor([0, 1] * count)
    images, shares = mixed(labels, keys(2 * count), cutmix=alpha)
    replaced = (images[0::2, 0] == 0).float().mean(dim=0)
    np.random.seed(0)  # timm draws from numpy's global state
    expected, kept = torch.zeros(16, 16), []
    for _ in range(count):
        top, bottom, left, right = rand_bbox((1, 3, 16, 16), draws.beta(alpha, alpha))
        expected[top:bottom, left:right] += 1 / count
        kept.append(1 - (bottom - top) * (right - left) / 256)
    assert (replaced - expected).abs().max() < 0.06 and replaced[8, 8] < 0.6
    assert abs(shares[0::2, 0].mean() - np.mean(kept)) < 0.03 and abs(shares[0::2, 0].std() - np.std(kept)) < 0.03


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_mixup_draws_from_beta(alpha: float) -> None:
    labels = torch.tensor([0, 1] * 2000)
    kept = mixed(labels, keys(4000), mixup=alpha)[1][0::2, 0]
    assert abs(kept.mean() - 0.5) < 0.05
    assert abs(kept.var() - 1 / (4 * (2 * alpha + 1))) < 0.015


def test_with_both_each_pair_gets_one_of_the_two() -> None:
    labels = torch.tensor([0, 1] * 500)
    images = mixed(labels, keys(1000), mixup=1.0, cutmix=1.0)[0][0::2, 0]
    is_cut = ((images == 0) | (images == 1)).all(dim=2).all(dim=1)
    assert abs(is_cut.float().mean() - 0.5) < 0.1


@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_erasing(probability: float) -> None:
    images, labels = mixed(torch.zeros(1000, dtype=torch.int64), keys(1000), erasing=probability)
    assert torch.equal(labels, torch.zeros(1000, dtype=torch.int64))  # class numbers: nothing is mixed
    erased = (images[:, 0] == 0).float()
    is_erased = erased.amax(dim=(1, 2)) > 0
    assert abs(is_erased.float().mean() - probability) < (0.07 if 0 < probability < 1 else 0.01)
    if probability:
        areas = erased.mean(dim=(1, 2))[is_erased]
        assert areas.max() < 0.4 and 0.1 < areas.mean() < 0.25  # a share of 0.02 to 0.33


def test_mixing_leaves_its_arguments_alone() -> None:
    labels = torch.arange(6) % 3
    images = one_hot_images(labels)
    before = images.clone()
    BatchAugment(Augment(mixup=1.0, cutmix=1.0, erasing=1.0), 3).mix(images, labels, keys(6))
    assert torch.equal(images, before)


def test_presets() -> None:
    assert preset("none", 224, mirrored=True) == Augment()
    assert preset("light", 64, mirrored=True) == Augment(shift=0.125, flip=0.5)
    assert preset("light", 65, mirrored=True) == Augment(crop=0.35, flip=0.5)
    assert preset("standard", 28, mirrored=False) == Augment(shift=0.125, randaugment=2)
    strong = preset("strong", 224, mirrored=True)
    assert strong == Augment(crop=0.35, flip=0.5, randaugment=2, mixup=0.2, cutmix=1.0, erasing=0.25)
    for name in ("none", "light", "standard", "strong"):
        assert preset(name, 32, mirrored=False).flip == 0.0
        assert preset(name, 32, mirrored=True).mixes == (name == "strong")
        assert Augment(**json.loads(json.dumps(vars(preset(name, 32, True))))) == preset(name, 32, True)
