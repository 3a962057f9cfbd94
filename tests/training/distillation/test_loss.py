"""The teacher's part of the loss is what the papers define, at any temperature and in any number of micro-batches."""

import pytest
import torch
import torch.nn.functional as F

from vit.training.distillation import TeachingLoss

RANDOM = torch.Generator().manual_seed(3)
LOGITS, TEACHER = (3 * torch.randn(8, 5, generator=RANDOM, dtype=torch.float64) for _ in range(2))


def naive(logits, teacher, temperature):
    """T^2 sum p log(p / q), image by image."""
    losses = []
    for own, wanted in zip(logits, teacher, strict=True):
        p, q = (wanted / temperature).exp(), (own / temperature).exp()
        p, q = p / p.sum(), q / q.sum()
        losses.append(temperature**2 * (p * (p / q).log()).sum())
    return torch.stack(losses).mean()


@pytest.mark.parametrize("temperature", [1.0, 4.0, 20.0])
def test_soft_labels_are_the_divergence_times_the_temperature_squared(temperature):
    loss = TeachingLoss("soft", temperature, 0.9).of(LOGITS, TEACHER)
    torch.testing.assert_close(loss, naive(LOGITS, TEACHER, temperature))
    torch.testing.assert_close(TeachingLoss("soft", temperature, 0.9).of(TEACHER, TEACHER + 7), torch.zeros_like(loss))


def test_a_high_temperature_gives_the_gradient_of_matched_logits():
    """Hinton et al. 2015, section 2.1: (z - v) / C for centered logits, whatever T is."""
    logits, teacher = (values - values.mean(dim=1, keepdim=True) for values in (LOGITS, TEACHER))
    logits = logits.clone().requires_grad_(True)
    TeachingLoss("soft", 1000.0, 0.9).of(logits, teacher).backward()
    torch.testing.assert_close(logits.grad * len(logits), (logits - teacher).detach() / 5, rtol=0.02, atol=0.01)


def test_hard_labels_are_the_cross_entropy_of_the_most_probable_class():
    loss = TeachingLoss("hard", 4.0, 0.5).of(LOGITS, TEACHER)
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, TEACHER.argmax(dim=1)))


def test_the_weight_is_the_share_of_the_teacher():
    whole = TeachingLoss("soft", 4.0, 0.9).whole(torch.tensor(2.0), torch.tensor(1.0))
    assert float(whole) == pytest.approx(0.1 * 2 + 0.9 * 1)


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_the_mean_of_equal_parts_is_the_loss_of_the_batch(kind):
    loss = TeachingLoss(kind, 4.0, 0.9)
    parts = [loss.of(*part) for part in zip(LOGITS.split(2), TEACHER.split(2), strict=True)]
    torch.testing.assert_close(torch.stack(parts).mean(), loss.of(LOGITS, TEACHER))
