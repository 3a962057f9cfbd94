"""The loss of several labels: timm's values, unknown labels without a gradient, equal in any number of parts."""

import numpy as np
import pytest
import torch
from timm.loss import AsymmetricLossMultiLabel
from torch.nn.functional import binary_cross_entropy_with_logits

from vit.data.pixels.augment import Augment, BatchAugment
from vit.tasks.losses import MultilabelLoss, asymmetric_losses, frequencies_of, known_share

ROWS = np.array([[1, 0, -1], [0, 0, 1], [1, -1, -1], [0, 1, 0]], dtype=np.int8)


@pytest.fixture
def logits():
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).mul(3).requires_grad_()


def loss(name="bce", smoothing=0.0, is_mixed=False):
    return MultilabelLoss(name, smoothing, frequencies_of(ROWS), known_share(ROWS, is_mixed))


def test_the_asymmetric_loss_is_that_of_timm():
    logits = torch.linspace(-12, 12, 49)[:, None].expand(-1, 2)
    labels = torch.tensor([[0.0, 1.0]]).expand(49, -1)
    torch.testing.assert_close(
        asymmetric_losses(logits, labels), AsymmetricLossMultiLabel(reduction="none")(logits, labels)
    )


@pytest.mark.parametrize("name", ["bce", "asymmetric"])
def test_an_unknown_label_has_neither_loss_nor_gradient(logits, name):
    labels = torch.tensor(ROWS).float()
    loss(name)(logits, labels).backward()
    assert (logits.grad[labels < 0] == 0).all() and (logits.grad[labels == 1] != 0).all()
    changed = torch.where(labels < 0, 50.0, logits.detach())
    assert loss(name)(changed, labels) == loss(name)(logits, labels)


@pytest.mark.parametrize("name", ["bce", "asymmetric"])
def test_parts_of_a_batch_have_the_gradient_of_the_whole(logits, name):
    labels, whole = torch.tensor(ROWS).float(), loss(name, 0.1)
    (expected,) = torch.autograd.grad(whole(logits, labels), logits)
    halves = sum(whole(logits[part], labels[part]) / 2 for part in (slice(0, 2), slice(2, 4)))
    torch.testing.assert_close(torch.autograd.grad(halves, logits)[0], expected)


def test_the_loss_is_the_mean_over_known_labels_and_smoothing_keeps_frequencies(logits):
    labels = torch.tensor(ROWS).float()
    known = labels >= 0
    expected = binary_cross_entropy_with_logits(logits[known], labels[known])
    torch.testing.assert_close(loss()(logits, labels), expected)
    torch.testing.assert_close(loss().validation_losses(logits, labels).mean(), expected)
    best = torch.logit(torch.tensor(frequencies_of(ROWS)).float()).expand(4, -1).clone().requires_grad_()
    loss(smoothing=0.5)(best, labels).backward()  # predicting frequencies alone is the best constant, smoothed or not
    torch.testing.assert_close(best.grad.sum(dim=0), torch.zeros(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("augment", [Augment(mixup=0.8), Augment(cutmix=1.0)])
def test_mixed_images_have_labels_by_share_and_unknown_ones_stay_unknown(augment):
    images = torch.tensor([0.0, 1.0, 0.0, 1.0])[:, None, None, None].expand(-1, 3, 8, 8)
    seeds = np.arange(4, dtype=np.int64)
    mixed, labels = BatchAugment(augment, 3).mix(images, torch.tensor(ROWS).float(), seeds)
    other = torch.tensor([0.0, 1.0, 0.0, 1.0]) - mixed.mean(dim=(1, 2, 3))  # share of the partner, whose gray differs
    share = other.abs()
    one, two = torch.tensor(ROWS).float(), torch.tensor(ROWS[[1, 0, 3, 2]]).float()
    expected = one * (1 - share[:, None]) + two * share[:, None]
    expected[(one < 0) | (two < 0)] = -1
    torch.testing.assert_close(labels, expected)
    assert ((labels > 0) & (labels < 1)).any()
    assert known_share(ROWS, is_mixed=True) == pytest.approx((1 + 0.75**2 + 0.5**2) / 3)
