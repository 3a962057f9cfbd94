"""Cost by part: all of it, each part once, and the quadratic share as the formula says."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch

from vit.explain import inspection
from vit.explain.inspection import PRODUCTS, cost_by_part, cost_by_size, image_sizes_around, quadratic_share
from vit.models.spec import NetworkSpec
from vit.models.vit_config import Pool, ViTConfig

TINY = ViTConfig(embed_dim=192, num_heads=3)
NANO = ViTConfig(
    image_size=8, patch_size=2, num_classes=10, embed_dim=64, depth=4, num_heads=4, mlp_ratio=2.0, pool="mean"
)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"norm_placement": "post", "pos_embed": "none"},
        {"stem": "conv", "activation": "swiglu", "mlp_norm": True},
        {"pos_embed": "rope2d", "qk_norm": True, "embed_norm": True, "layer_scale": 0.1},
        *({"pool": pool, "num_registers": 1} for pool in get_args(Pool)),
    ],
    ids=lambda values: "-".join(map(str, values.values())) or "mean",
)
def test_parts_add_up_to_the_whole(values):
    found = cost_by_part(replace(NANO, **values))
    cost = NetworkSpec.named("vit_nano_patch2_8", 10, {"pool": "mean", **values}).cost(8)
    assert tuple(map(sum, zip(*found.values(), strict=True))) == (cost.parameters, cost.flops)


def test_attention_pooling_is_of_the_head():
    found = cost_by_part(replace(NANO, pool="map"))
    D, N, M, C = 64, 16, 128, 10
    weights = 4 * D * D + 2 * D * M + C * D  # of q, k, v and proj, of the MLP, and of the last layer
    assert found["head"][0] == weights + D + 4 * D + 2 * D + (M + D) + C  # the latent, biases, and a norm
    assert found["head"][1] == 2 * (2 * D * D + 2 * N * D * D + 2 * N * D + 2 * D * M + C * D)
    assert all(found[part] == cost for part, cost in cost_by_part(NANO).items() if part not in ("head", "norms"))


def test_the_convolutions_of_a_stem_are_counted_once():
    _, flops = cost_by_part(replace(NANO, stem="conv"))["patch embedding"]
    weights = 9 * (3 * 8 + 8 * 16 + 16 * 32 + 32 * 64) + 64 * 64  # of four 3x3 convolutions and the projection
    assert flops == 2 * 16 * weights  # the first one has stride 2, so that all of them give 4x4 values


def test_parts_of_vit_tiny_by_hand():
    found = cost_by_part(TINY)
    D, N, T = 192, 196, 197
    assert found["patch embedding"] == (768 * D + D, 2 * N * 768 * D)
    assert found["head"] == (1000 * D + 1000, 2 * 1000 * D)
    assert found["positions and extra tokens"] == ((T + 1) * D, 0)
    # eleven whole blocks, and one that is computed for the class token alone
    assert found[PRODUCTS] == (0, 4 * D * (11 * T * T + T))
    assert found["MLPs"][1] == 2 * 8 * D * D * (11 * T + 1)
    assert found["attention projections"][1] == 2 * D * D * (11 * 4 * T + 2 * T + 2)


def test_the_quadratic_share_of_the_usual_mlp():
    assert quadratic_share(196, 192, 4.0) == pytest.approx(196 / (6 * 192 + 196))


@pytest.mark.parametrize("values", [{}, {"pos_embed": "rope2d", "num_registers": 1, "activation": "swiglu"}])
def test_cost_by_size_counts_and_times(values):
    small, large = cost_by_size(replace(NANO, **values), [8, 32], torch.device("cpu"))
    assert (small.num_patches, large.num_patches) == (16, 256) and small.flops < large.flops
    for size in (small, large):
        assert size.counted_share == pytest.approx(size.formula_share, rel=0.1)  # but for patch embedding and head
        assert (math.isnan(size.timed_share) or 0 < size.timed_share <= 1) and size.block_seconds > 0
    (huge,) = cost_by_size(NANO, [128], torch.device("cpu"))
    assert huge.num_patches == 4096 and math.isnan(huge.timed_share)


def test_a_share_that_other_work_spoiled_is_not_told(monkeypatch):
    times = iter([1.0, 5.0] * inspection.NUM_TIMINGS)  # products that take five times their block
    monkeypatch.setattr(inspection, "_seconds", lambda compute, device: next(times))
    (size,) = cost_by_size(NANO, [8], torch.device("cpu"))
    assert size.block_seconds == 1.0 and math.isnan(size.timed_share)


def test_sizes_are_whole_patches():
    assert image_sizes_around(224, 16) == [112, 224, 336, 448, 672, 896]
    assert image_sizes_around(8, 8) == [8, 16, 24, 32]
