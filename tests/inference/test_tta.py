"""Test-time augmentation averages logits of exactly these views, with any engine."""

import pytest
import torch
from torchvision.transforms import FiveCrop

from vit.data.preprocess import Preprocess
from vit.errors import UsageError
from vit.inference.tta import AugmentedEngine, larger


class Recorded:
    """An engine whose logits are sums of the pixels of three bands of columns."""

    name, precision, device, rules = "torch", "32-true", torch.device("cpu"), None

    def __init__(self, preprocess, temperature=1.0):
        self.preprocess, self.temperature = preprocess, temperature
        self.seen = []

    def logits(self, images):
        return torch.stack([band.float().mean(dim=(1, 2, 3)) / 40 for band in images.chunk(3, dim=3)], dim=1)

    def probabilities(self, images):
        self.seen.append(images)
        return (self.logits(images) / self.temperature).softmax(dim=1)


@pytest.fixture
def images():
    return torch.randint(0, 256, (4, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_flip_averages_the_logits_of_an_image_and_its_mirror_image(images, temperature):
    engine = Recorded(Preprocess(12), temperature=1.6)
    found = AugmentedEngine(engine, "flip", temperature).probabilities(images)
    mean = (engine.logits(images) + engine.logits(images.flip(3))) / 2
    assert torch.allclose(found, (mean / (temperature or 1.6)).softmax(dim=1), atol=1e-6)
    assert torch.allclose(found, AugmentedEngine(engine, "flip", temperature).probabilities(images.flip(3)), atol=1e-6)


def test_crops_are_those_of_torchvisions_five_crop(images):
    engine = Recorded(Preprocess(8, crop_fraction=8 / 12))
    AugmentedEngine(engine, "crops").probabilities(images)
    assert all(torch.equal(*pair) for pair in zip(engine.seen, FiveCrop(8)(images), strict=True))


def test_the_middle_crop_is_the_picture_that_the_network_sees_without_augmentation():
    preprocess = Preprocess(14, crop_fraction=0.875)
    picture = torch.randint(0, 256, (3, 40, 61), dtype=torch.uint8)
    *_, middle = FiveCrop(14)(larger(preprocess)(picture))
    assert torch.equal(middle, preprocess(picture))


@pytest.mark.faults("A10")
def test_crops_are_refused_where_the_network_sees_whole_pictures():
    assert larger(Preprocess(224, crop_fraction=0.875)).image_size == 256
    with pytest.raises(UsageError, match="whole pictures"):
        larger(Preprocess(28))


def test_a_probability_of_zero_stays_finite(images):
    found = AugmentedEngine(Recorded(Preprocess(12), temperature=1e-3), "flip", 1.0).probabilities(images)
    assert found.isfinite().all() and torch.allclose(found.sum(dim=1), torch.ones(4))


def test_a_network_of_several_labels_is_refused():
    engine = Recorded(Preprocess(12))
    engine.rules = object()
    with pytest.raises(UsageError, match="label"):
        AugmentedEngine(engine, "flip")
