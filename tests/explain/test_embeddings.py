"""Filters and positions that were put in are found."""

import torch

from vit.explain.inspection import position_similarity, principal_filters


def test_the_filter_that_varies_most_comes_first(small):
    network = small()
    wave, edge = torch.zeros(2, 3, 4, 4)
    wave[1, ::2] = 1.0
    edge[0, :, 0] = -1.0
    amounts = torch.randn(24, 2, generator=torch.Generator().manual_seed(2)) * torch.tensor([1.0, 3.0])
    with torch.no_grad():
        kernels = amounts[:, 0, None, None, None] * wave + amounts[:, 1, None, None, None] * edge
        network.patch_embed.proj.weight.copy_(kernels + 5.0)  # what all have in common is not a component
    components, shares = principal_filters(network, 2)
    assert components.shape == (2, 3, 4, 4)
    assert (components[0] * edge / edge.norm()).sum().abs() > 0.95
    assert (components[1] * wave / wave.norm()).sum().abs() > 0.95
    assert shares[0] > shares[1] and torch.isclose(shares.sum(), torch.tensor(1.0))
    assert all(component.max() == component.abs().max() for component in components)
    assert len(principal_filters(network, 100)[0]) == 24


def test_positions_are_compared_patch_by_patch(small):
    network = small()
    similarity = position_similarity(network)
    assert similarity.shape == (4, 4, 4, 4)
    positions = network.pos_embed[0, 1:]
    expected = torch.cosine_similarity(positions[6], positions[13], dim=0)
    assert torch.isclose(similarity[1, 2, 3, 1], expected.detach(), atol=1e-6)
    assert torch.allclose(similarity[2, 1, 2, 1], torch.tensor(1.0))
    assert position_similarity(small(pos_embed="none")) is None
    assert position_similarity(small(pos_embed="rope2d")) is None  # nothing is added to tokens
    assert position_similarity(small(pos_embed="learned_rope2d_eva")).shape == (4, 4, 4, 4)
    assert position_similarity(small(pos_embed="sincos2d"))[0, 0, 0, 1] < 1
