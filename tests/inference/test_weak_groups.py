"""Groups with more errors than the other images: planted ones are found, and chance finds none."""

import numpy as np
import torch
from PIL import Image

from vit.data.core.batch import Batch
from vit.data.core.samples import Samples
from vit.inference.metrics.weak_groups import ALPHA, ImageTraits, _sizes, weak_groups
from vit.inference.scores.scored_images import ScoredImages


def test_a_weak_group_is_found_and_named_with_its_wrong_images():
    generator = np.random.default_rng(0)
    own = np.arange(400) < 80
    wrong = generator.random(400) < np.where(own, 0.4, 0.1)
    found = weak_groups(wrong, [("odd", np.arange(400) % 2 == 1), ("weak", own), ("tiny", np.arange(400) < 5)])
    assert found.num_tested == 2  # five images tell nothing
    (weak,) = found.found
    assert weak.name == "weak" and weak.num_images == 80
    assert weak.error == wrong[:80].mean() and weak.other_error == wrong[80:].mean()
    assert weak.wrong == tuple(np.flatnonzero(wrong[:80]).tolist())
    assert found.describe() == "1 group has more errors than the other images, beyond chance (2 groups tested)"
    assert weak_groups(wrong, [("odd", np.arange(400) % 2 == 1)]).describe() == (
        "no group has more errors than the other images beyond chance (1 groups tested)"
    )


def test_chance_alone_is_seldom_a_finding():
    """At most 5 % of data sets without weak groups have a finding; 200 of them, and 5 % and three standard errors."""
    generator = np.random.default_rng(1)
    traits = generator.random((8, 300))
    groups = [(str(row), row_traits < 0.2) for row, row_traits in enumerate(traits)]
    groups += [(f"not {name}", own_traits > 0.8) for (name, _), own_traits in zip(groups, traits, strict=True)]
    alarms = [bool(weak_groups(generator.random(300) < 0.15, groups).found) for _ in range(200)]
    assert np.mean(alarms) <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / 200) ** 0.5


def traits_of(images, wrong, groups=None, **columns):
    """The weak groups of images (n, 3, S, S) without files, of which some are wrong."""
    count = len(images)
    labels = np.zeros(count, dtype=np.int64)
    probabilities = np.where(wrong[:, None], (0.1, 0.9), (0.9, 0.1)).astype(np.float32)
    names = tuple(map(str, range(count)))
    traits, valid = ImageTraits(), torch.ones(count, dtype=torch.bool)
    batch = Batch(images, torch.from_numpy(labels), names, ("",) * count, torch.zeros(count), valid)
    assert list(traits.watch([batch])) == [batch]
    samples = Samples(names, labels, arrays=[np.zeros((4, 4), dtype=np.uint8)] * count)
    scored = ScoredImages(names, labels, probabilities, groups=groups)
    return traits.find(scored, samples, {"site": dict.fromkeys(names, "a"), **columns}, ("a", "b"))


def test_a_photograph_that_exif_turns_is_tall(tmp_path):
    exif, photo = Image.Exif(), Image.new("RGB", (40, 30))
    exif[274] = 6
    photo.save(tmp_path / "tall.jpg", exif=exif)
    photo.save(tmp_path / "wide.jpg")
    names = ("tall.jpg", "wide.jpg")
    sizes = _sizes(Samples(names, np.zeros(2, dtype=np.int64), root=tmp_path), names)
    assert sizes is not None and sizes.tolist() == [[30, 40], [40, 30]]


def test_of_images_that_belong_together_the_first_one_counts():
    images = torch.randint(0, 256, (400, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images[:80] //= 4
    wrong = (np.arange(400) < 80) & (np.arange(400) % 4 < 2)
    alone = traits_of(images, wrong)
    pairs = traits_of(images, wrong, np.arange(400) // 2)
    assert [one.num_images for one in (alone.found[0], pairs.found[0])] == [80, 40]
    assert pairs.found[0].wrong == tuple(range(0, 80, 4)) and pairs.found[0].p_adjusted > alone.found[0].p_adjusted


def test_a_column_of_numbers_may_lack_some():
    images = torch.full((200, 3, 8, 8), 100, dtype=torch.uint8)
    ages = {str(number): "" if number % 10 == 9 else str(number) for number in range(200)}
    found = traits_of(images, np.arange(200) < 30, age=ages)
    assert [one.name for one in found.found] == ["low images (age up to 39.6)"] and found.num_tested == 2
    assert found.found[0].num_images == 36 and found.found[0].other_error == 3 / 164


def test_dark_and_blurred_images_are_groups():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(100, 256, (200, 3, 8, 8), generator=generator, dtype=torch.uint8)
    images[:40] //= 4
    dark = torch.arange(200) < 40
    found = traits_of(images, (dark & (torch.arange(200) % 2 == 0)).numpy())
    assert any(one.name.startswith("dark images (brightness up to") for one in found.found)
    images = torch.randint(0, 256, (200, 3, 8, 8), generator=generator, dtype=torch.uint8)
    images[:40] = images[:40].float().mean(dim=(2, 3), keepdim=True).to(torch.uint8)
    found = traits_of(images, (dark & (torch.arange(200) % 2 == 0)).numpy())
    assert [one.name.partition(" (")[0] for one in found.found] == ["blurred images"]
    assert found.num_tested == 4  # all images have one site, and no features
