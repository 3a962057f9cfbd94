"""Rollout against a calculation by hand."""

import torch

from vit.explain.methods import attention_weights, rolled, rollout


def test_two_blocks_by_hand():
    first = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    second = torch.tensor([[0.2, 0.8], [0.0, 1.0]])
    heads = torch.stack((second + 0.1, second - 0.1))  # their mean counts
    flow = rolled([first[None, None], heads[None]])
    # (A + I) / 2 of each, the second block times the first
    expected = torch.tensor([[0.6, 0.4], [0.0, 1.0]]) @ torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    assert torch.allclose(flow[0], expected)


def test_what_is_in_a_token_sums_to_one(small, images):
    flow = rolled(attention_weights(small(), images))
    assert torch.allclose(flow.sum(dim=-1), torch.ones(2, 17), atol=1e-5)


def test_with_a_class_token_its_row_and_with_mean_pooling_the_mean_of_rows(small, images):
    for pool in ("cls", "mean"):
        network = small(pool=pool)
        flow = rolled(attention_weights(network, images))
        expected = flow[:, 0, 1:] if pool == "cls" else flow.mean(dim=1)
        assert torch.allclose(rollout(network, images, torch.tensor([0, 0])), expected.view(2, 4, 4))
