"""The MFU of a training: measured where its steps compute all of a network, and are long enough to matter."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit.errors import DivergedError
from vit.models.spec import Cost
from vit.training.running import result
from vit.training.running.result import TrainingStats, measure_checkpoint, training_mfu


def plan(freeze="none", lora=None, world_size=1):
    model = SimpleNamespace(freeze=freeze, lora=lora)
    return SimpleNamespace(
        recipe=SimpleNamespace(model=model), cost=Cost(7, 1_000_000), device="cpu", precision="32-true",
        world_size=world_size, teacher=None,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def peak(monkeypatch):
    monkeypatch.setattr(result, "matrix_peak", lambda device, precision: {("cpu", "32-true"): 6e9}[device, precision])


def test_a_step_costs_three_forward_passes():
    assert training_mfu(plan(), TrainingStats(60.0, 500.0, 9)) == 3 * 1e6 * 500 / 6e9


def test_processes_share_the_images():
    assert training_mfu(plan(world_size=2), TrainingStats(60.0, 500.0, 9)) == 3 * 1e6 * 500 / 12e9


@pytest.mark.parametrize(("some", "seconds"), [(plan(), 1.0), (plan(freeze="backbone"), 60.0), (plan(lora=8), 60.0)])
def test_short_and_partial_trainings_have_none(some, seconds):
    assert training_mfu(some, TrainingStats(seconds, 500.0, 9)) is None


def test_weights_without_any_validation_loss_are_not_measured(monkeypatch):
    monkeypatch.setattr(result, "load", lambda file: (None, SimpleNamespace(metrics={"val/loss": float("nan")})))
    with pytest.raises(DivergedError, match="the validation loss is not a number for any weights"):
        measure_checkpoint(Path("best.ckpt"), plan(), None, "cpu")
