"""Relevance: gradients of attention weights that were not stored are those that autograd would give."""

import pytest
import torch
import torch.nn.functional as F

from vit.explain.methods import record_attention, relevance, weight_gradient
from vit.models import vision_transformer


@pytest.mark.parametrize("values", [{}, {"pool": "mean"}, {"norm_placement": "post"}, {"pos_embed": "rope2d"}], ids=str)
def test_gradients_are_those_of_attention_written_out(small, images, values, monkeypatch):
    network = small(**values)
    class_names = torch.tensor([3, 1])
    with record_attention(network) as records:
        chosen = network(images).gather(1, class_names[:, None]).sum()
        gathered = torch.autograd.grad(chosen, [layer.heads for layer in records])
    kept = []

    def written_out(q, k, v, drop_rate=0.0):
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)
        weights.retain_grad()
        kept.append(weights)
        return F.dropout(weights, drop_rate) @ v

    monkeypatch.setattr(vision_transformer, "attend", written_out)
    network(images).gather(1, class_names[:, None]).sum().backward()
    for layer, gradient, weights in zip(records, gathered, kept, strict=True):
        found = weight_gradient(layer, gradient)
        queries = weights.shape[2]
        assert weights.grad.abs().max() > 1e-3
        assert torch.allclose(found[:, :, :queries], weights.grad, atol=1e-5)
        assert (found[:, :, queries:] == 0).all()


def test_one_block_by_hand(small, images):
    network = small(depth=1)
    class_names = torch.tensor([2, 4])
    with record_attention(network) as records:
        chosen = network(images).gather(1, class_names[:, None]).sum()
        (gradient,) = torch.autograd.grad(chosen, [records[0].heads])
    speaking = (weight_gradient(records[0], gradient) * records[0].weights()).clamp(min=0).mean(dim=1)
    expected = (torch.eye(17) + speaking)[:, 0, 1:].detach()
    assert torch.allclose(relevance(network, images, class_names).flatten(1), expected)


def test_the_map_depends_on_the_class_and_leaves_no_gradients(small, images):
    network = small()
    first, second = (relevance(network, images, torch.tensor([n, n])) for n in (0, 3))
    assert not torch.allclose(first, second) and first.min() >= 0
    assert all(parameter.grad is None for parameter in network.parameters())
