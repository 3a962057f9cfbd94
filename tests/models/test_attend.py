"""Attention gives the same result by every computation, and the choice between them is a rule."""

import pytest
import torch

from vit.models import attend as module
from vit.models.attend import attend

SHAPES = [(2, 3, 17, 17, 16), (2, 3, 1, 17, 16), (1, 2, 65, 65, 8), (0, 3, 17, 17, 16)]


def heads(B, H, R, T, d, dtype):
    """Queries, keys and values as views of one tensor, as a network makes them."""
    qkv = torch.randn(B, T, 3 * H * d, generator=torch.Generator().manual_seed(0)).to(dtype)
    q, k, v = qkv.unflatten(-1, (3, H, d)).permute(2, 0, 3, 1, 4).unbind()
    return q[:, :, :R], k, v


def plain(q, k, v):
    return (q.double() @ k.double().mT * q.shape[-1] ** -0.5).softmax(dim=-1) @ v.double()


@pytest.fixture(params=[True, False], ids=["amx", "no-amx"])
def amx(request, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: request.param)
    return request.param


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("chunk", [1 << 24, 700])
def test_it_is_softmax_attention(amx, shape, dtype, atol, chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    q, k, v = heads(*shape, dtype)
    with torch.inference_mode():
        found = attend(q, k, v)
    assert found.shape == q.shape
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), plain(q, k, v), atol=atol, rtol=1e-2)


@pytest.mark.parametrize("chunk", [1 << 24, 700])
def test_the_products_in_chunks(monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    q, k, v = heads(2, 3, 17, 17, 16, torch.bfloat16)
    torch.testing.assert_close(module._products(q, k, v).double(), plain(q, k, v), atol=1e-2, rtol=1e-2)


def test_the_rule(amx):
    half = heads(2, 3, 17, 17, 16, torch.bfloat16)
    exact = heads(2, 3, 17, 17, 16, torch.float32)
    with torch.no_grad():
        assert module._products_are_faster(*half) is not amx
        assert not module._products_are_faster(*exact)
        assert not module._products_are_faster(exact[0], *half[1:])  # queries after a norm: autocast casts them
        long = torch.empty(1, 1, 4096, 8, dtype=torch.bfloat16)
        assert not module._products_are_faster(long, long, long)  # 32 MiB of weights in one head
    assert not module._products_are_faster(*half)  # with gradients


@pytest.mark.parametrize(
    ("tokens", "dtype", "drop_rate", "expected"),
    [
        (300, torch.float32, 0.0, 1),
        (300, torch.bfloat16, 0.0, 0),
        (255, torch.float32, 0.0, 0),
        (300, torch.float32, 0.1, 0),
    ],
)
def test_long_sequences_train_through_the_fused_kernel_in_float32(monkeypatch, tokens, dtype, drop_rate, expected):
    calls, kernel = [], module.F.scaled_dot_product_attention
    monkeypatch.setattr(module.F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or kernel(*a, **k))
    attend(*(part.requires_grad_() for part in heads(1, 2, tokens, tokens, 8, dtype)), drop_rate)
    assert len(calls) == expected


def test_a_long_sequence_has_the_gradients_of_softmax_attention():
    ours = [part.detach().clone().requires_grad_() for part in heads(2, 3, 300, 300, 16, torch.float32)]
    exact = [part.detach().clone().requires_grad_() for part in ours]
    weights = torch.randn(2, 3, 300, 16, generator=torch.Generator().manual_seed(1))
    found, expected = attend(*ours), plain(*exact)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)
    for one, other in zip(ours, exact, strict=True):
        assert other.grad.norm() > 0.1
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)
