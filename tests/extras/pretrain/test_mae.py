"""Masks by draw seed, learning, the backbone that is left, and networks that are refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import ask
from vit.errors import UsageError
from vit.extras.pretrain.objectives import Mae, check_encoder, patch_order, without_classes
from vit.models.spec import NetworkSpec
from vit.models.vision_transformer import VisionTransformer
from vit.weights.open import open_pretrained

TINY = ("--network", "vit_nano_patch2_8", "--wandb", "off")


def objective() -> Mae:
    torch.manual_seed(0)
    return Mae(without_classes(NetworkSpec.named("vit_nano_patch2_8", 1).build(8), "nano"))


def test_the_order_of_patches_follows_from_the_draw_seed_of_each_image_alone() -> None:
    seeds = torch.tensor([5, 2**62, 7])
    order = patch_order(seeds, 16)
    assert (order.sort(dim=1).values == torch.arange(16)).all()
    assert torch.equal(patch_order(seeds[[2, 0]], 16), order[[2, 0]])
    assert len({tuple(row) for row in order.tolist()}) == 3


def test_every_patch_is_visible_equally_often() -> None:
    visible = np.bincount(patch_order(torch.arange(4000), 16)[:, :4].flatten().numpy(), minlength=16)
    assert np.abs(visible - 1000).max() < 5 * (4000 * 0.25 * 0.75) ** 0.5  # 5 standard deviations


def test_the_loss_depends_on_draw_seeds_and_not_on_the_numbers_of_images() -> None:
    mae, images = objective(), torch.randn(4, 3, 8, 8)
    first = mae(images, torch.arange(4), torch.arange(4))
    assert torch.equal(mae(images, torch.arange(4) + 9, torch.arange(4)), first)
    assert not torch.equal(mae(images, torch.arange(4), torch.arange(4) + 9), first)


def test_learns_the_pixels_of_one_picture() -> None:
    mae, images = objective(), torch.randn(1, 3, 8, 8).expand(8, -1, -1, -1)
    optimizer = torch.optim.AdamW(mae.parameters(), lr=3e-3)
    losses = []
    for step in range(60):
        loss = mae(images, torch.arange(8), torch.arange(8) + 8 * step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.8
    assert losses[-1] < 0.3 * losses[0]


def test_weights_without_decay_exist() -> None:
    mae = objective()
    assert mae.no_weight_decay() - {"network.dist_token", "network.reg_token", "network.attn_pool.latent"} <= {
        name for name, _ in mae.named_parameters()
    }
    assert "mask_token.0" in mae.no_weight_decay()


def test_pretraining_leaves_a_backbone_without_a_head(here: Path) -> None:
    small = (*TINY, "--model.network.depth", "1", "--optim.steps", "4")
    ask("pretrain", "digits", "--method", "mae", *small).ok()
    run = next((here / "runs").rglob("config.yaml")).parent
    pretrained = open_pretrained(str(run))
    network = pretrained.build(10).network
    assert isinstance(network, VisionTransformer)
    assert set(dict(network.named_parameters())) - set(pretrained.weights) == {"head.weight", "head.bias"}


@pytest.mark.faults("L10")
def test_a_network_that_is_not_a_vit_is_refused_before_a_run_folder_is_made(here: Path) -> None:
    answer = ask("pretrain", "digits", "--method", "mae", "--network", "resnet18_cifar", "--wandb", "off").failed(2)
    assert "only for a ViT of our own" in answer.err
    assert "--method diet" in answer.err
    assert not (here / "runs").exists()


@pytest.mark.faults("L11")
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("stem=conv", "the stem conv sees"), ("pos_embed=rope2d", "rope2d"), ("pos_embed=none", "without positions"),
        ("pool=map", "pool map"),
    ],
)  # fmt: skip
def test_a_vit_whose_patches_do_not_stand_alone_is_refused(here: Path, option: str, reason: str) -> None:
    ask("pretrain", "digits", "--method", "mae", *TINY, f"--model.network.{option}").failed(2, reason)
    assert not (here / "runs").exists()


@pytest.mark.faults("L12")
def test_a_network_of_too_few_patches_is_refused() -> None:
    with pytest.raises(UsageError, match="0 of 1 patches visible"):
        check_encoder(NetworkSpec.named("vit_nano_patch2_8", 1, {"patch_size": 8}).build_empty(8))
