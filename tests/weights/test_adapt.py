"""Weights for another size; every tensor is accounted for."""

import pytest
import torch
from timm.models.volo import VOLO

from vit.models.spec import create_network
from vit.models.timm_network import TimmConfig, TimmNetwork
from vit.training.network.features import last_layer
from vit.weights.adapt import Classes, fill, head_names

NANO = {"name": "vit_nano_patch2_8", "depth": 2}


@pytest.mark.parametrize(
    ("image_size", "new", "has_head", "how"),
    [
        (28, 12, True, "14 x 14 -> 6 x 6 patches, the middle"),
        (28, 12, False, "14 x 14 -> 6 x 6 patches"),  # without a head: it can have learned from small crops
        (28, 20, True, "14 x 14 -> 10 x 10 patches"),
        (48, 20, True, "24 x 24 -> 10 x 10 patches"),
    ],
)
def test_a_classifier_keeps_the_middle_of_its_positions_on_a_much_smaller_grid(image_size, new, has_head, how):
    """With 96 instead of 224 pixels DeiT-Tiny had 8 of 100 photographs right, where its own positions give 22."""
    source = create_network(**NANO, num_classes=10, image_size=image_size)
    network = create_network(**NANO, num_classes=3, image_size=new)
    weights = {name: value for name, value in source.state_dict().items() if has_head or not name.startswith("head.")}
    assert fill(network, weights).resampled["pos_embed"] == how
    side, start = new // 2, (image_size - new) // 4
    kept = source.pos_embed[:, 1:].unflatten(1, (image_size // 2, -1))[:, start : start + side, start : start + side]
    assert torch.equal(network.pos_embed[:, 1:], kept.flatten(1, 2)) == how.endswith("the middle")
    assert torch.equal(network.pos_embed[:, :1], source.pos_embed[:, :1])


def test_every_tensor_is_reported():
    source = create_network(**NANO, num_classes=10)
    torch.nn.init.normal_(source.head.weight)
    network = create_network(**NANO, num_classes=3, image_size=12, patch_size=3)
    report = fill(network, source.state_dict(), {"decoder": "not needed"})
    assert report.resampled == {"patch_embed.proj.weight": "patches of 2 -> 3 pixels"}
    assert report.initialized == dict.fromkeys(["head.bias", "head.weight"], "10 -> 3 classes")
    assert len(report.matched) == len(source.state_dict()) - 3
    assert not network.head.weight.any() and torch.equal(
        network.blocks[1].mlp.fc2.weight, source.blocks[1].mlp.fc2.weight
    )
    words = dict(report.facts())
    assert (
        words["dropped"] == "decoder: not needed" and words["initialized"] == "head.bias, head.weight: 10 -> 3 classes"
    )


def test_another_image_size_resamples_positions():
    source = create_network(**NANO, num_classes=3)
    network = create_network(**NANO, num_classes=3, image_size=12)
    report = fill(network, source.state_dict())
    assert report.resampled == {"pos_embed": "4 x 4 -> 6 x 6 patches"} and not report.initialized
    assert torch.equal(network.pos_embed[:, 0], source.pos_embed[:, 0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.pop("norm.weight"), "norm.weight is missing"),
        (lambda w: w.update(extra=torch.zeros(1)), "extra is unexpected"),
        (lambda w: w.update({"norm.bias": torch.zeros(5)}), r"norm.bias is \(5,\), not \(64,\)"),
        (lambda w: w.update(pos_embed=torch.zeros(1, 12, 64)), "pos_embed is"),
    ],
)
def test_what_cannot_be_explained_is_an_error_with_its_name(change, words):
    network = create_network(**NANO, num_classes=3)
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    change(weights)
    with pytest.raises(ValueError, match=words):
        fill(network, weights)


def a_network(classes):
    network = create_network(**NANO, num_classes=classes)
    torch.nn.init.normal_(network.head.weight)
    return network


def test_a_head_follows_the_names_of_its_classes():
    source, network = a_network(3), create_network(**NANO, num_classes=3)
    report = fill(network, source.state_dict(), classes=Classes(("a", "b", "c"), ("c", "a", "b")))
    assert torch.equal(network.head.weight, source.head.weight[[2, 0, 1]]) and not report.initialized
    assert report.resampled == dict.fromkeys(["head.bias", "head.weight"], "rows in the order of these classes")


def test_a_head_for_as_many_other_classes_is_not_taken():
    source, network = a_network(3), create_network(**NANO, num_classes=3)
    report = fill(network, source.state_dict(), classes=Classes(("a", "b", "c"), ("a", "b", "d")))
    assert not network.head.weight.any()
    assert report.initialized == dict.fromkeys(["head.bias", "head.weight"], "the weights have other classes")


def volo(num_classes):
    """A small VOLO, whose second head gives logits of every token."""
    network = TimmNetwork(TimmConfig(model="test_resnet", image_size=32, num_classes=num_classes))
    network.model = VOLO(
        img_size=32, num_classes=num_classes, layers=(1, 1, 1, 1), embed_dims=(24,) * 4, num_heads=(2,) * 4
    )
    return network


@pytest.mark.parametrize("num_classes", [3, 24])  # 24 is also the width of its layers
def test_every_layer_with_logits_is_a_head(num_classes):
    """VOLO's weights could not be fine-tuned to other classes: its second head had another shape."""
    heads = {f"model.{head}.{part}" for head in ("head", "aux_head") for part in ("weight", "bias")}
    network, source = volo(num_classes), volo(5)
    assert head_names(network) == heads and last_layer(network) is None
    report = fill(network, source.state_dict())
    assert report.initialized == dict.fromkeys(heads, f"5 -> {num_classes} classes")
    assert torch.equal(network.model.cls_token, source.model.cls_token)
