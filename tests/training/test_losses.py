"""The smoothed loss follows the losses of the steps, and a resumed one continues bit-equal."""

import math

import pytest
import torch

from vit.training.losses import EpochLoss, SmoothedLoss


def averaged(losses, parts=1):
    average = SmoothedLoss()
    for loss in losses:
        for part in range(parts):
            average.add(torch.tensor(loss / parts), is_whole=part == parts - 1)
    return average


def test_the_average_loss_follows_the_losses():
    assert math.isnan(SmoothedLoss().value)
    assert averaged([2.0]).value == pytest.approx(2.0)
    assert averaged([2.0] * 30 + [1.0] * 20).value == pytest.approx(1.305, abs=0.001)
    assert averaged([2.0] * 30 + [1.0] * 200).value == pytest.approx(1.0, abs=1e-3)
    assert averaged([3.0, 1.0, 2.0], parts=2).value == pytest.approx(averaged([3.0, 1.0, 2.0]).value)
    noisy = torch.randn(2000, generator=torch.Generator().manual_seed(0)).tolist()
    assert torch.tensor([averaged(noisy[n : n + 100]).value for n in range(0, 2000, 100)]).std() < 0.3


def test_losses_that_are_not_finite_do_not_count():
    assert averaged([2.0, math.nan, 1.0, math.inf]).value == averaged([2.0, 1.0]).value
    assert math.isnan(averaged([math.nan]).value)


def test_a_resumed_average_goes_on_bit_equal():
    losses = torch.rand(50, generator=torch.Generator().manual_seed(1)).tolist()
    whole, first = averaged(losses), averaged(losses[:20])
    resumed = SmoothedLoss()
    resumed.load_state_dict(first.state_dict())
    for loss in losses[20:]:
        resumed.add(torch.tensor(loss), is_whole=True)
    assert resumed.state_dict() == whole.state_dict()


def test_the_loss_of_an_epoch_leaves_out_what_is_not_finite():
    epoch = EpochLoss()
    for loss in (2.0, math.nan, 1.0, math.inf):
        epoch.update(torch.tensor(loss))
    assert float(epoch.compute()) == 1.5
    resumed = EpochLoss()
    resumed.update(float(epoch.total), float(epoch.batches))
    resumed.update(torch.tensor(3.0))
    assert float(resumed.compute()) == 2.0
