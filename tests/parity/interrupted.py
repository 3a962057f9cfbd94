"""A short training that processes begin and leave in the middle of an epoch, and what must be equal in the end."""

import json

import torch

from tests.processes import ended
from tests.runs import run_folder, weights

SHORT = (
    "--network", "vit_nano_patch2_8", "--augment", "strong", "--epochs", 3, "--batch_size", 8,
    "--optim.optimizer", "sgd", "--lr", 0.01, "--precision", "32-true", "--wandb", "off",
    "--keep_state", "true",
)  # fmt: skip
ENDED = """
import os, signal
from vit.commands.training import train_progress
def end(watcher, done, *rest):
    if done == 5:
        os.kill(os.getpid(), signal.SIGTERM)
train_progress.TrainProgress.step = end
"""


def begun(folder, processes, data, *options):
    """The run folder of processes that Lightning has started, which were ended after step 5."""
    command = (data, *SHORT, "--devices", processes, "--trainer.accelerator", "cpu", *options)
    _, said = ended(folder, 143, "train", *command, "--out", folder / "begun", script=ENDED)
    assert "after step 5, which is saved" in said, said
    return run_folder(folder / "begun")


def same_but_for_rounding(one, other):
    """Equal weights, answers and number of steps of two finished runs."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, atol=1e-6, rtol=1e-6, msg=name)
    results = [json.loads((run / "result.json").read_text()) for run in (one, other)]
    assert results[0]["correct"] == results[1]["correct"] and results[0]["steps"] == results[1]["steps"]
    return True
