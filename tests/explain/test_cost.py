"""Cost by part: all of it, each part once, and the quadratic share as the formula says."""

import math
from dataclasses import replace

import pytest
import torch

from vit.explain.cost import PRODUCTS, over_sizes, parts, quadratic_share, sides_around
from vit.models.spec import NetworkSpec, count
from vit.models.vision_transformer import VisionTransformer

TINY = NetworkSpec.named("vit_tiny_patch16_224", 1000).config(224)
NANO = NetworkSpec.named("vit_nano_patch2_8", 10, {"pool": "mean"}).config(8)


@pytest.mark.parametrize("config", [NANO, replace(NANO, norm_placement="post", pos_embed="none")])
def test_parts_add_up_to_the_whole(config):
    found = parts(config)
    with torch.device("meta"):
        whole = count(VisionTransformer(config))
    assert tuple(map(sum, zip(*found.values(), strict=True))) == (whole.parameters, whole.flops)


def test_parts_of_vit_tiny_by_hand():
    found = parts(TINY)
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


def test_over_sizes_counts_and_times():
    small, large = over_sizes(NANO, [8, 32], torch.device("cpu"))
    assert (small.patches, large.patches) == (16, 256) and small.flops < large.flops
    for size in (small, large):
        assert size.counted == pytest.approx(size.formula, rel=0.1)  # but for patch embedding and head
        assert 0 < size.timed < 1.2 and size.seconds > 0
    assert large.timed > small.timed
    (huge,) = over_sizes(NANO, [128], torch.device("cpu"))
    assert huge.patches == 4096 and math.isnan(huge.timed)


def test_sizes_are_whole_patches():
    assert sides_around(224, 16) == [112, 224, 336, 448, 672, 896]
    assert sides_around(8, 8) == [8, 16, 24, 32]
