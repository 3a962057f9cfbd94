"""The weighted loss equals the formula written out: with mixup, smoothing, micro-batches and processes."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from vit.tasks.losses import TrainingLoss

WEIGHTS = torch.tensor([0.2, 1.5, 8.0, 0.7], dtype=torch.float64)
ADJUSTMENT = torch.tensor([0.3, -0.5, -4.0, 0.0], dtype=torch.float64)


def batch(seed=0, size=6, classes=4):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, classes, generator=generator)
    labels = torch.randint(0, classes, (size,), generator=generator)
    own = torch.rand(size, 1, generator=generator)
    mixed = own * F.one_hot(labels, classes) + (1 - own) * F.one_hot(labels.roll(1), classes)
    return logits, labels, mixed


def written_out(logits, shares, smoothing, weights):
    """Sum over images and classes, with nothing from torch but numbers."""
    total, classes = 0.0, logits.shape[1]
    for row, share in zip(logits.double().tolist(), shares.double().tolist(), strict=True):
        norm = math.log(sum(math.exp(value) for value in row))
        losses = [norm - value for value in row]
        for number in range(classes):
            smoothed = (1 - smoothing) * losses[number] + smoothing * sum(losses) / classes
            total += share[number] * float(weights[number]) * smoothed
    return total / len(logits)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@given(seed=st.integers(0, 2**31))
def test_it_is_the_formula_with_and_without_mixup(smoothing, seed):
    logits, labels, mixed = batch(seed)
    loss = TrainingLoss(smoothing, WEIGHTS.numpy(), ADJUSTMENT.numpy())
    adjusted = logits + ADJUSTMENT
    for given_labels, shares in ((labels, F.one_hot(labels, 4)), (mixed, mixed)):
        assert float(loss(logits, given_labels)) == pytest.approx(
            written_out(adjusted, shares, smoothing, WEIGHTS), rel=1e-4, abs=1e-5
        )


def test_without_corrections_it_is_pytorch_s_to_the_bit():
    logits, labels, mixed = batch()
    for given_labels in (labels, mixed):
        assert torch.equal(
            TrainingLoss(0.1)(logits, given_labels), F.cross_entropy(logits, given_labels, label_smoothing=0.1)
        )


@pytest.mark.parametrize("parts", [2, 3])
def test_the_gradient_is_the_same_in_any_number_of_parts(parts):
    """PyTorch's weighted mean divides by the weights of each part, and would give another gradient."""
    logits, labels, _ = batch()
    loss = TrainingLoss(0.1, WEIGHTS.numpy())
    whole = logits.clone().requires_grad_()
    loss(whole, labels).backward()
    pieces = logits.clone().requires_grad_()
    for some, own in zip(pieces.chunk(parts), labels.chunk(parts), strict=True):
        (loss(some, own) / parts).backward()
    torch.testing.assert_close(pieces.grad, whole.grad)
    theirs = logits.clone().requires_grad_()
    for some, own in zip(theirs.chunk(parts), labels.chunk(parts), strict=True):
        (F.cross_entropy(some, own, WEIGHTS.float(), label_smoothing=0.1) / parts).backward()
    assert not torch.allclose(theirs.grad / theirs.grad.norm(), whole.grad / whole.grad.norm(), atol=1e-3)


def test_smoothing_does_not_pull_common_classes_to_rare_ones():
    """Where training images of class 0 have no other feature, the best logits still name class 0."""
    weights = torch.tensor([0.1, 40.0])
    ours, theirs = (torch.zeros(1, 2, requires_grad=True) for _ in range(2))
    label = torch.tensor([0])
    for logits, function in (
        (ours, TrainingLoss(0.1, weights.numpy())),
        (theirs, lambda x, y: F.cross_entropy(x, y, weights, label_smoothing=0.1)),
    ):
        function(logits, label).backward()
    assert ours.grad[0, 0] < 0 < theirs.grad[0, 0]  # a step goes down the gradient


def test_its_tensors_are_not_in_checkpoints():
    assert not TrainingLoss(0.1, WEIGHTS.numpy(), ADJUSTMENT.numpy()).state_dict()
