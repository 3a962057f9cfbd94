"""Muon on stacked matrices against PyTorch's, matrix by matrix."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.optim import Muon

from vit.training import optim
from vit.training.optim import BatchedMuon, orthogonalized

SHAPES = [(12, 4), (4, 12), (8, 8), (12, 4), (4, 12), (8, 8), (12, 4)]


def matrices(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def grouped(parameters):
    return [
        {"params": parameters[:5], "lr": 0.02, "weight_decay": 0.1},
        {"params": parameters[5:], "lr": 0.01, "weight_decay": 0.0},
    ]


def step(parameters, optimizer, number):
    generator = torch.Generator().manual_seed(number)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 0.01
    optimizer.step()


@pytest.fixture(autouse=True)
def bf16(monkeypatch):
    """Hardware that is faster in bfloat16, in which PyTorch's Muon always computes."""
    monkeypatch.setattr(optim, "is_faster_in_bf16", lambda device: True)


@pytest.mark.parametrize(("native", "difference"), [(True, 1e-6), (False, 2e-3)])
def test_ten_steps_are_those_of_pytorch(monkeypatch, native, difference):
    monkeypatch.setattr(optim, "is_faster_in_bf16", lambda device: native)
    ours, theirs = matrices(), matrices()
    own = BatchedMuon(grouped(ours))
    other = Muon(grouped(theirs), adjust_lr_fn="match_rms_adamw")
    for number in range(10):
        step(ours, own, number)
        step(theirs, other, number)
    for a, b, start in zip(ours, theirs, matrices(), strict=True):
        assert not torch.allclose(a, start, atol=1e-2)
        assert torch.allclose(a, b, atol=difference)


def test_where_bfloat16_is_not_faster_nothing_is_rounded_to_it(monkeypatch):
    monkeypatch.setattr(optim, "is_faster_in_bf16", lambda device: False)
    updates = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    found = orthogonalized(updates, (3.4445, -4.7750, 2.0315), 5, 1e-7)
    assert found.dtype == torch.float32
    assert not torch.equal(found, found.bfloat16().float())


def test_a_state_of_pytorch_continues():
    ours, theirs = matrices(), matrices()
    other = Muon(grouped(theirs), adjust_lr_fn="match_rms_adamw")
    step(theirs, other, 0)
    for parameter, value in zip(ours, theirs, strict=True):
        parameter.data.copy_(value.data)
    own = BatchedMuon(grouped(ours))
    own.load_state_dict(deepcopy(other.state_dict()))
    assert own.state_dict()["param_groups"] == other.state_dict()["param_groups"]
    step(ours, own, 1)
    step(theirs, other, 1)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, theirs, strict=True))


def test_matrices_without_a_gradient_stay():
    parameters = matrices()
    optimizer = BatchedMuon(grouped(parameters))
    parameters[0].grad = torch.randn(SHAPES[0])
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(parameters, matrices(), strict=True)]
    assert moved == [True] + [False] * (len(SHAPES) - 1)


def test_a_closure_is_computed_with_gradients():
    parameters = matrices()
    optimizer = BatchedMuon(grouped(parameters))

    def closure():
        loss = sum(parameter.square().sum() for parameter in parameters)
        loss.backward()
        return float(loss.detach())

    expected = sum(float(start.detach().square().sum()) for start in matrices())
    assert optimizer.step(closure) == pytest.approx(expected, rel=1e-5)
    assert not torch.equal(parameters[0], matrices()[0])


@pytest.mark.parametrize("shape", [(3, 12, 4), (3, 4, 12)])
def test_singular_values_are_near_one(shape):
    updates = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 1e-3
    found = torch.linalg.svdvals(orthogonalized(updates, (3.4445, -4.7750, 2.0315), 5, 1e-7).float())
    assert found.min() > 0.3 and found.max() < 1.5
