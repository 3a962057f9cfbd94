"""The backward pass of attention that is written by hand, against autograd and PyTorch's fused kernel."""

import pytest
import torch
import torch.nn.functional as F

from vit.models import attend_gradient
from vit.models.attend_gradient import _AttendSideBySide, attend_side_by_side
from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig

SIZES = {"image_size": 16, "patch_size": 4, "num_classes": 5, "embed_dim": 24, "depth": 3, "num_heads": 3}


def inputs(dtype, T=7):
    return torch.randn(2, T, 3 * 12, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()


def fused(qkv, num_heads):
    q, k, v = qkv.unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def test_the_gradient_is_the_limit_of_differences():
    assert torch.autograd.gradcheck(lambda qkv: _AttendSideBySide.apply(qkv, 3), inputs(torch.float64))


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("num_tokens", [1, 7, 65])
def test_values_and_gradients_are_those_of_the_fused_kernel(dtype, error, num_tokens):
    ours, theirs = inputs(dtype, num_tokens), inputs(torch.float32, num_tokens)
    found, expected = _AttendSideBySide.apply(ours, 3), fused(theirs, 3)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    for a, b in ((found, expected), (ours.grad, theirs.grad)):
        assert b.norm() > 0.1 and (a - b).norm() <= error * b.norm()


def test_a_gradient_of_the_gradient_is_refused():
    qkv = inputs(torch.bfloat16)
    (gradient,) = torch.autograd.grad(attend_side_by_side(qkv, 3).square().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("values", "calls"), [({}, 2), ({"pool": "mean"}, 3), ({"qk_norm": True}, 0), ({"attn_drop_rate": 0.5}, 0)]
)
def test_blocks_that_read_all_tokens_use_it(monkeypatch, values, calls):
    """The last block computes the class token alone; dropout and norms of queries need the weights or the queries."""
    network = VisionTransformer(ViTConfig(**SIZES, **values))
    torch.nn.init.normal_(network.head.weight)
    counted = []

    class Counted(_AttendSideBySide):
        @staticmethod
        def forward(ctx, qkv, num_heads):
            counted.append(qkv.dtype)
            return _AttendSideBySide.forward(ctx, qkv, num_heads)

    monkeypatch.setattr(attend_gradient, "_AttendSideBySide", Counted)
    images = torch.randn(2, 3, 16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        network(images).float().sum().backward()
        assert counted == [torch.bfloat16] * calls
        with torch.no_grad():
            network(images)
    network(images).sum().backward()  # in float32
    assert len(counted) == calls


def test_a_training_step_in_bfloat16_has_the_gradients_of_the_plain_code(monkeypatch):
    torch.manual_seed(0)
    network = VisionTransformer(ViTConfig(**SIZES))
    torch.nn.init.normal_(network.head.weight)
    images = torch.randn(8, 3, 16, 16)

    def gradients():
        network.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = network(images).float().square().mean()
        loss.backward()
        return torch.cat([parameter.grad.flatten() for parameter in network.parameters()])

    found = gradients()
    monkeypatch.setattr(attend_gradient, "_is_trained_here", lambda qkv: False)
    expected = gradients()
    assert (found - expected).norm() <= 1e-2 * expected.norm()
