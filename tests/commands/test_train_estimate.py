"""The end of a training, estimated from a clock that the test moves."""

from types import SimpleNamespace

import pytest

from vit.commands.training import train_progress
from vit.commands.training.train_progress import Estimate
from vit.training.planning.plan import make_plan
from vit.training.recipes.recipe import ModelConfig, OptimConfig, Recipe


class Clock:
    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(train_progress.time, "perf_counter", clock.perf_counter)
    return clock


@pytest.fixture(scope="module")
def plan():
    return make_plan(Recipe(model=ModelConfig(network={"name": "vit_nano_patch2_8"}), optim=OptimConfig(batch_size=64)))


def train(estimate, clock, plan, step, validation, first=1):
    """Carry a training out, whose first step takes 2 seconds; the number of epochs before the estimate, and the end."""
    total, epochs = plan.total_steps, None
    clock.now += 2.0
    for done in range(first, total + 1):
        clock.now += step
        estimate.step(done, total, 1.0, 1.0)
        if epochs is None and estimate.seconds is not None:
            epochs = (done - first) / plan.steps_per_epoch
        if done % plan.steps_per_round == 0:
            clock.now += validation
            estimate.row({"val/loss": 1.0}, done)
    return epochs, clock.now + 2 * validation - 100.0  # calibration and test


def estimated(plan, said):
    return Estimate(plan, SimpleNamespace(notice=said.append))


@pytest.mark.parametrize(("step", "validation"), [(0.03, 0.05), (0.03, 0.5), (1.0, 1.0), (1.0, 2.0), (20.0, 20.0)])
def test_the_estimate_is_within_a_fifth_early_and_said_once(clock, plan, step, validation):
    said = []
    estimate = estimated(plan, said)
    epochs, real = train(estimate, clock, plan, step, validation)
    assert estimate.seconds == pytest.approx(real, rel=0.2)
    assert epochs < 1.1 and (step < 1.0 or epochs < 1.0)
    assert len(said) == 1 and "for 50 epochs, ends at " in said[0]


def test_a_resumed_run_estimates_its_rest(clock, plan):
    said = []
    estimate = estimated(plan, said)
    _, real = train(estimate, clock, plan, 1.0, 1.0, first=501)
    assert estimate.seconds == pytest.approx(real, rel=0.2) and "for the last 450 steps" in said[0]


def test_a_training_that_starts_again_is_measured_again(clock, plan):
    said = []
    estimate = estimated(plan, said)
    clock.now += 1000.0
    estimate.step(1, plan.total_steps, 1.0, 1.0)
    estimate.replanned(plan.recipe)
    _, real = train(estimate, clock, plan, 1.0, 1.0)
    assert estimate.seconds == pytest.approx(real - 1000.0, rel=0.2)
