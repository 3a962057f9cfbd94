"""DIET: the loss is cross-entropy with one class for each image; the backbone rests while a new head is warmed up."""

import pytest
import torch
import torch.nn.functional as F

from vit.extras.pretrain.objectives import (
    HEAD_ALONE,
    PRETRAINED_SMOOTHING,
    SMOOTHING,
    Diet,
    feature_width,
    without_classes,
)
from vit.extras.pretrain.pretrainer import Pretrainer
from vit.models.spec import create_network
from vit.training.recipes.recipe import OptimConfig


def backbone(name="vit_nano_patch2_8", **options):
    torch.manual_seed(0)
    return without_classes(create_network(name, 3, **options), name)


@pytest.mark.parametrize(("is_pretrained", "smoothing"), [(False, SMOOTHING), (True, PRETRAINED_SMOOTHING)])
def test_the_loss_is_smoothed_cross_entropy_over_all_images(is_pretrained, smoothing):
    objective = Diet(backbone(), 7, is_pretrained)
    images, indices = torch.randn(4, 3, 8, 8), torch.tensor([6, 0, 3, 3])
    loss = objective(images, indices, torch.zeros(4, dtype=torch.int64))
    logits = objective.network(images) @ objective.head.weight.T
    wanted = torch.full((4, 7), smoothing / 7)
    wanted[torch.arange(4), indices] += 1 - smoothing
    assert loss.item() == pytest.approx(-(wanted * F.log_softmax(logits, dim=1)).sum(dim=1).mean().item(), abs=1e-5)
    assert objective.head.weight.shape == (7, 64) and objective.head.bias is None


@pytest.mark.parametrize(
    ("name", "options", "width"),
    [
        ("vit_nano_patch2_8", {}, 64),
        ("vit_nano_patch2_8", {"pool": "mean"}, 64),
        ("vit_nano_patch2_8", {"pool": "cls_mean"}, 128),
        ("vit_nano_patch2_8", {"pool": "cls_dist"}, 64),
        ("resnet10_small", {}, 256),
    ],
)
def test_a_backbone_returns_what_its_head_read(name, options, width):
    network = backbone(name, **options)
    assert feature_width(network) == width and network.training
    assert not any(key.startswith("head") or "fc." in key for key in network.state_dict())


def test_gradients_of_two_halves_are_those_of_the_batch():
    """Several processes average the gradients of their parts: equal to one process where parts are equally large."""
    objective = Diet(backbone(), 6, False).eval()
    images, indices, seeds = torch.randn(4, 3, 8, 8), torch.tensor([5, 1, 2, 0]), torch.zeros(4, dtype=torch.int64)

    def gradients(*parts):
        objective.zero_grad()
        for part in parts:
            (objective(images[part], indices[part], seeds[part]) / len(parts)).backward()
        return [weight.grad.clone() for weight in objective.parameters()]

    whole, halves = gradients(slice(0, 4)), gradients(slice(0, 2), slice(2, 4))
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(whole, halves, strict=True))


def test_only_the_head_of_a_pretrained_network_is_trained_at_first():
    config = OptimConfig()
    fresh, pretrained = (Pretrainer(Diet(backbone(), 5, known), config, 200, 0) for known in (False, True))
    assert (fresh.resting_steps, pretrained.resting_steps) == (0, round(200 * HEAD_ALONE)) == (0, 10)


def test_names_of_the_backbone_that_do_not_decay_are_those_of_the_objective():
    objective = Diet(backbone(), 5, False)
    names = {name for name, _ in objective.named_parameters()}
    assert objective.no_weight_decay() & names == {"network.cls_token", "network.pos_embed"}
    assert set(objective.layers_above()) == names - {"head.weight"}
