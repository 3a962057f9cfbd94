"""`vit train --time`: trial steps, then an ordinary training with a number of steps."""

import os
import signal
from dataclasses import replace

import pytest

from tests.comparing import differences
from tests.runs import run_folder, weights
from vit.commands.cli.recipe_options import read_recipe
from vit.training import trials
from vit.training.callbacks.metrics_csv import Recorder
from vit.training.loop import Classifier

OPTIONS = ("--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--batch_size", 6, "--precision", "32-true",
           "--augment", "strong", "--model.network.drop_path_rate", 0.2, "--keep_state", "true",
           "--wandb", "off")  # fmt: skip


@pytest.fixture
def ten_steps(monkeypatch):
    """Real trials, whose steps seem to take so long that ten hours allow 10 of them."""
    measure = trials.pace_of
    monkeypatch.setattr(trials, "_SHORTEST", 0.0)
    monkeypatch.setattr(trials, "_SHARE", 0.0)

    def slow(trial, seconds):
        plan, pace = measure(trial, seconds)
        assert min(vars(pace).values()) > 0
        return plan, replace(pace, step=2400.0)

    monkeypatch.setattr(trials, "pace_of", slow)


@pytest.mark.slow
def test_trials_leave_nothing_and_the_run_resumes(vit, colors, tmp_path, ten_steps, monkeypatch):
    vit("train", colors, *OPTIONS, "--time", "10h", "--out", tmp_path / "timed").noted("10h allow 10 steps")
    assert [path.name for path in (tmp_path / "timed").iterdir()] == ["colors"]
    run = run_folder(tmp_path / "timed")
    optim = read_recipe(run / "config.yaml").optim
    assert (optim.steps, optim.time) == (10, "10h")
    assert vit("train", colors, *OPTIONS, "--optim.steps", 10, "--out", tmp_path / "counted").code == 0
    counted = weights(run_folder(tmp_path / "counted"))
    assert not differences(counted, weights(run))

    def stop_at_four(recorder, trainer, *rest):
        on_batch_end(recorder, trainer, *rest)
        if trainer.global_step == 4 and int(trainer.estimated_stepping_batches) == 10:
            os.kill(os.getpid(), signal.SIGTERM)

    line = ("train", colors, *OPTIONS, "--time", "10h", "--resume", "auto", "--out", tmp_path / "stopped")
    with monkeypatch.context() as patch:
        on_batch_end = Recorder.on_train_batch_end
        patch.setattr(Recorder, "on_train_batch_end", stop_at_four)
        assert vit(*line).code == 143
    monkeypatch.setattr(trials, "pace_of", None)  # no second measurement
    stopped = run_folder(tmp_path / "stopped")
    vit("train", "--resume", stopped, "--time", "20h").failed(2, "optim.time is 10h in the run, 20h here")
    vit(*line).noted(f"going on with {stopped}")
    assert not differences(counted, weights(stopped))


def test_a_signal_during_trial_steps_leaves_no_run(vit, colors, tmp_path, monkeypatch):
    step = Classifier.training_step

    def stop(classifier, batch, place):
        os.kill(os.getpid(), signal.SIGTERM)
        return step(classifier, batch, place)

    monkeypatch.setattr(Classifier, "training_step", stop)
    answer = vit("train", colors, *OPTIONS, "--time", "1h", "--out", tmp_path)
    answer.failed(143, "terminated during trial steps", "start it again")
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("K12")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--time", "soon"), ["--time soon", "90s, 10min, 2h"]),
        (("--time", "30"), ["--time 30", "90s, 10min, 2h"]),
        (("--time", "1h", "--epochs", 3), ["--time 1h with --epochs"]),
        (("--time", "1h", "--optim.steps", 3), ["--time 1h with --optim.steps"]),
        (("--time", "1h", "--devices", 2, "--trainer.accelerator", "cpu"), ["--time on 2 processes", "--devices 1"]),
        (("--time", "1h", "--freeze", "backbone", "--init_from", "RUN"), ["--time with --freeze backbone"]),
        pytest.param(("--time", "0.01s"), ["--time 0.01s is too short", "or more"], marks=pytest.mark.slow),
        (
            ("--batch_size", "auto", "--devices", 2, "--trainer.accelerator", "cpu"),
            ["--batch_size auto on 2 processes"],
        ),
    ],
)
def test_a_length_that_cannot_be_is_refused(vit, digits_run, tmp_path, options, words):
    options = [digits_run.path if word == "RUN" else word for word in options]
    vit("train", "digits", *options, "--wandb", "off", "--out", tmp_path).failed(2, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--set", "time=1h"), "optim.time 1h"), (("--set", "batch_size=auto"), "optim.batch_size auto")],
)
def test_a_study_has_a_length_and_batches_of_its_own(vit, tmp_path, options, words):
    vit("study", "digits", *options, "--out", tmp_path).failed(2, words)
