"""Changes of test images do what their names say, and the reach of a network is measured where it is known."""

from functools import partial

import pytest
import torch

from vit.models.spec import create_network


@pytest.fixture
def conditions():
    import conditions

    return conditions


def images(count=6, side=8):
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def generator():
    return torch.Generator().manual_seed(0)


def test_every_change_is_decided_by_its_seed_and_keeps_shape_and_range(conditions):
    for name, change in conditions.changes(2):
        once, again = change(images(), generator()), change(images(), generator())
        assert once.shape == images().shape, name
        assert once.min() >= 0 and once.max() <= 1.001, name
        torch.testing.assert_close(once, again, msg=name)
        assert (name == "unchanged") == torch.equal(once, images()), name


def test_an_image_moves_whole(conditions):
    picture = torch.zeros(1, 3, 9, 9)
    picture[:, :, 4, 4] = 1
    found = conditions.moved(picture.expand(8, -1, -1, -1), generator(), 2 / 9)
    for one in found:
        ((y, x),) = one[0].nonzero().tolist()
        assert max(abs(y - 4), abs(x - 4)) == 2 and {abs(y - 4), abs(x - 4)} <= {0, 2}


def test_a_full_turn_and_a_half_turn(conditions):
    torch.testing.assert_close(conditions.turned(images(), generator(), 360.0), images(), atol=1e-4, rtol=0)
    half = conditions.turned(images(), generator(), 180.0)
    torch.testing.assert_close(half, images().flip(2, 3), atol=1e-4, rtol=0)


def test_a_square_hides_its_share(conditions):
    found = conditions.hidden(torch.ones(5, 3, 8, 8), generator(), 0.5)
    assert (found == 0.5).float().mean().item() == pytest.approx(0.25)


def test_blur_keeps_a_flat_image_and_shuffling_keeps_all_pixels(conditions):
    flat = torch.full((2, 3, 8, 8), 0.3)
    torch.testing.assert_close(conditions.blurred(flat, generator(), 0.1), flat)
    shuffled = conditions.with_shuffled_patches(images(), generator(), 2)
    torch.testing.assert_close(shuffled.flatten(1).sort().values, images().flatten(1).sort().values)


def test_a_network_without_positions_does_not_see_shuffled_patches(conditions):
    torch.manual_seed(0)
    for pos_embed, is_blind in (("none", True), ("learned", False)):
        network = create_network("vit_nano_patch2_8", 10, pos_embed=pos_embed).eval()
        torch.nn.init.normal_(network.head.weight)
        shuffle = partial(conditions.with_shuffled_patches, patch=2)
        same = torch.allclose(network(images()), network(shuffle(images(), generator())), atol=1e-4)
        assert same == is_blind


def test_the_receptive_field_of_a_narrow_network_is_small():
    from reach import receptive_radius

    torch.manual_seed(0)
    network = create_network("resnet10_small", 10, image_size=32).eval()
    wide = receptive_radius(network, images(4, 32))
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.Conv2d) and module.kernel_size == (3, 3):
                middle = module.weight[:, :, 1:2, 1:2].clone()
                module.weight.zero_()[:, :, 1:2, 1:2] = middle
    assert receptive_radius(network, images(4, 32)) == pytest.approx(0, abs=1e-6)  # a single pixel
    assert 0.1 < wide < 0.5


def test_lines_are_read_as_they_were_written(tmp_path):
    import numpy as np
    from lines import Lines

    lines = Lines("block", "norm", (1.0, 2.0), {"a": np.array([[1.0, 2.0], [4.0, 8.0]])}, "seeds", False, "command")
    lines.write(tmp_path / "lines.json")
    found = Lines.read(tmp_path / "lines.json")
    assert found.machine and (found.values["a"] == lines.values["a"]).all()
    assert found.at("a", 0).value == pytest.approx(2.0)  # the geometric mean of 1 and 4
    (sentence,) = found.sentences([], {})
    assert "0.5 times that at block 2" in sentence


@pytest.mark.slow
def test_made_images_are_the_same_everywhere_and_conflicts_disagree(tmp_path):
    import hashlib

    import texture_shape

    texture_shape.make(tmp_path)
    files = sorted(tmp_path.rglob("*.bmp"))
    assert len(files) == 4 * (texture_shape.TRAIN + texture_shape.TEST)
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    texture_shape.make(tmp_path / "again")
    again = sorted((tmp_path / "again").rglob("*.bmp"))
    assert digest == hashlib.sha256(b"".join(file.read_bytes() for file in again)).hexdigest()
    faint, strong = (texture_shape.conflicts(contrast) for contrast in (0.05, 0.4))
    assert faint[1:] == strong[1:] and len(faint[0]) == len(faint[1]) == 12 * texture_shape.CONFLICTS
    assert all(shape != texture for shape, texture in zip(*faint[1:], strict=True))


def test_a_stronger_texture_changes_the_inside_of_a_figure_alone():
    import texture_shape

    plain, faint, strong = (texture_shape.conflicts(contrast)[0].float() for contrast in (1e-6, 0.05, 0.4))
    changed = (strong - plain).abs() > 1
    assert 0.1 < changed.float().mean() < 0.5  # a figure fills about a fifth of an image
    assert ((faint - plain)[~changed].abs() <= 1).all()
    ratio = (strong - plain)[changed].abs().mean() / (faint - plain)[changed].abs().mean()
    assert 6 < ratio < 10  # 0.4 / 0.05, but for values beyond black and white


def test_shapes_have_equal_areas():
    """A network must not tell shapes by how much of the image they fill."""
    import numpy as np
    import texture_shape

    areas = []
    for shape in range(4):
        generator = np.random.default_rng(0)
        areas.append(np.mean([texture_shape.mask_of(shape, generator).sum() for _ in range(200)]))
    assert max(areas) / min(areas) < 1.15, areas
