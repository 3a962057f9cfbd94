"""Memory that the operating system does not give: a limit is set on the training's own process."""

import signal

import pytest
import torch

from tests.processes import ended, linux_only
from tests.runs import run_folder, weights
from vit.commands.cli.recipe_options import read_recipe

# The kernel answers malloc: it gives some MiB more than there are when the first step begins, which needs more.
# Libraries that report and draw afterwards need more, too, so that the limit ends with the steps.
LIMITED = """
import resource
from vit.training.loop import Classifier
step, free = Classifier.training_step, resource.getrlimit(resource.RLIMIT_AS)
def limited(classifier, batch, place):
    if resource.getrlimit(resource.RLIMIT_AS) == free:
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + {room} * 2**20, free[1]))
    return step(classifier, batch, place)
Classifier.training_step = limited
Classifier.on_train_end = lambda classifier: resource.setrlimit(resource.RLIMIT_AS, free)
"""
# The first attempt has passed two epochs, and the second one is killed before the end of its first epoch.
KILLED = """
import os
from vit.training.loop import Classifier
loss, calls = Classifier.batch_loss, []
def limited(classifier, batch):
    calls.append(batch)
    if len(calls) == 8:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
    if len(calls) == 12:
        os.kill(os.getpid(), 9)
    return loss(classifier, batch)
Classifier.batch_loss = limited
"""
OPTIONS = ("digits", "--network", "vit_nano_patch2_8", "--optim.steps", 2, "--batch_size", 1024, "--precision",
           "32-true", "--optim.optimizer", "sgd", "--lr", 0.1, "--keep_state", "true",
           "--wandb", "off")  # fmt: skip


@pytest.mark.slow
@linux_only
@pytest.mark.faults("N4")
@pytest.mark.parametrize("room", [24, 48, 96])
def test_memory_that_is_refused_divides_the_batch_and_keeps_the_steps(vit, tmp_path, monkeypatch, room):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")  # else glibc reserves 64 MiB of addresses for another thread
    script = LIMITED.format(room=room)
    _, said = ended(tmp_path, 0, "train", *OPTIONS, "--out", tmp_path / "limited", script=script)
    assert "Traceback" not in said, said
    lines = [line for line in said.splitlines() if "out of memory: starting again in" in line]
    run = run_folder(tmp_path / "limited")
    parts = read_recipe(run / "config.yaml").optim.accumulate
    assert parts >= 2 and f"in {parts} micro-batches of {1024 // parts} images" in lines[-1]
    assert vit("train", *OPTIONS, "--optim.accumulate", parts, "--out", tmp_path / "asked").code == 0
    assert vit("train", *OPTIONS, "--out", tmp_path / "whole").code == 0
    asked, whole = (weights(run_folder(tmp_path / name)) for name in ("asked", "whole"))
    for name, tensor in weights(run).items():
        assert torch.equal(tensor, asked[name]), name
        torch.testing.assert_close(tensor, whole[name], atol=1e-5, rtol=0)


@pytest.mark.faults("N4", simulated="the network raises what PyTorch raises")
@pytest.mark.slow
def test_no_checkpoint_of_the_failed_attempt_is_resumed(vit, colors, tmp_path):
    """config.yaml has two micro-batches already; a checkpoint of whole batches would resume at another image."""
    words = (colors, "--network", "vit_nano_patch2_8", "--batch_size", 8, "--epochs", 4, "--wandb", "off")
    _, said = ended(tmp_path, -signal.SIGKILL, "train", *words, "--out", tmp_path / "out", script=KILLED)
    assert "starting again in 2 micro-batches" in said, said
    run = run_folder(tmp_path / "out")
    assert read_recipe(run / "config.yaml").optim.accumulate == 2
    assert not list((run / "checkpoints").iterdir())
    vit("train", "--resume", run).failed(2, "start it again as a new run: it has no checkpoint")
