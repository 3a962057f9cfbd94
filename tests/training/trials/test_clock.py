"""How many steps a time allows, for known seconds of a step, a validation and the end."""

from dataclasses import replace
from itertools import accumulate
from time import monotonic

import pytest
import torch

from vit.errors import UsageError
from vit.ranges import seconds
from vit.training import trials
from vit.training.observers import Signals
from vit.training.planning.plan import plan_of
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import ModelConfig, OptimConfig, Recipe
from vit.training.trials import Trial


def timed(monkeypatch, time, pace, seconds_of_trial=0.0):
    """The plan for a time, where trials measure a pace and take so many seconds."""
    model = ModelConfig(network={"name": "vit_nano_patch2_8"})
    plan = plan_of(Recipe(data=DataConfig(), model=model, optim=OptimConfig(time=time, batch_size=64)))
    assert plan.recipe.optim.is_timed
    monkeypatch.setattr(trials, "pace_of", lambda trial, seconds: (trial.plan, pace))
    return trials.plan_for_time(Trial(plan, None, Signals("")), monotonic() - seconds_of_trial)[0]


@pytest.mark.parametrize(
    ("time", "pace", "steps"),
    [
        ("60s", trials.Pace(1.0, 0.1, 0.5, 2.0), 430),
        ("30min", trials.Pace(10.0, 1.0, 20.0, 30.0), 1460),
        ("28s", trials.Pace(1.0, 1.0, 1.0, 2.0), 9),
        ("24s", trials.Pace(1.0, 1.0, 1.0, 2.0), 7),
    ],
)
def test_the_whole_training_ends_within_the_time(monkeypatch, time, pace, steps):
    plan = timed(monkeypatch, time, pace)
    whole = pace.seconds(plan.total_steps, plan.rounds)
    assert plan.total_steps == plan.recipe.optim.steps == steps
    assert whole <= (1 - trials.SAFETY) * seconds(time, "--time") + 0.01
    again = plan_of(plan.recipe)  # as a resumed run makes it from config.yaml
    assert (again.rounds, again.steps_per_round, again.recipe) == (plan.rounds, plan.steps_per_round, plan.recipe)
    assert not again.recipe.optim.is_timed


def test_time_that_trials_take_is_part_of_the_time(monkeypatch):
    pace = trials.Pace(1.0, 0.1, 0.5, 2.0)
    assert timed(monkeypatch, "90s", pace, seconds_of_trial=30.0).total_steps in (420, 430)


def test_a_time_that_is_too_short_is_refused_with_one_that_is_enough(monkeypatch):
    pace = trials.Pace(1.0, 2.0, 1.0, 2.0)
    with pytest.raises(UsageError, match=r"too short for 5 steps.*a step takes 2 s.*--time 41s or more"):
        timed(monkeypatch, "20s", pace)
    assert timed(monkeypatch, "41s", pace).total_steps >= 9


def test_micro_batches_that_fit_are_part_of_the_plan(monkeypatch):
    """Memory runs out in trials as it would in the training."""
    model = ModelConfig(network={"name": "vit_nano_patch2_8"})
    plan = plan_of(Recipe(model=model, optim=OptimConfig(time="1h", batch_size=64)))

    def run(trial, step_clock, count):
        if trial.plan.recipe.optim.accumulate < 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        step_clock.ends, step_clock.validated = [0.0, 1.0, 2.0, 3.0, 4.0], 5.0

    monkeypatch.setattr(Trial, "run", run)
    found, pace = trials.pace_of(Trial(plan, None, Signals("")), 1.0)
    assert found == replace(plan, recipe=found.recipe) and found.recipe.optim.accumulate == 4
    assert (pace.step, pace.validation) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("device", "count", "expected"),
    [
        ("cuda", 300, 1.0),
        ("cuda", 150, 1.0 + 25 / 75),
        ("cuda", 2, 2.5),
        ("cpu", 300, 1.0 + 97 / 297),
        ("cpu", 3, 7 / 3),
    ],
)
def test_a_step_is_measured_after_the_slow_ones(device, count, expected):
    """The first step takes 3 seconds, the next 99 take 2, and later ones 1. A GPU's first hundred are left out."""
    ends = list(accumulate([3.0] + [2.0] * 99 + [1.0] * 200))[:count]
    assert trials.step_seconds(0.0, ends, device) == pytest.approx(expected)
