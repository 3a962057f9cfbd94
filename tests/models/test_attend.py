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
