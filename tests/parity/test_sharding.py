"""Weights that are spread over two processes: the same training, and ordinary checkpoints."""

import shutil

import pytest

from tests.parity.interrupted import SHORT, begun, same_but_for_rounding
from tests.processes import ended, linux_only
from tests.runs import run_folder, trained
from tests.tables import rows

ROTARY = ("--model.network.depth", 2, "--model.network.pos_embed", "rope2d_eva")


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "again"), [("fsdp", "false"), ("fsdp", "true"), ("ddp", "true")])
def test_a_rotary_vit_learns_in_two_processes_what_it_learns_in_one(vit, colors, tmp_path, strategy, again):
    command = ("train", colors, *SHORT, *ROTARY, "--strategy", strategy, "--devices", 2, "--trainer.accelerator", "cpu")
    ended(tmp_path, 0, *command, "--trainer.grad_checkpointing", again, "--out", "two")
    assert vit("train", colors, *SHORT, *ROTARY, "--out", tmp_path / "one").code == 0
    assert same_but_for_rounding(run_folder(tmp_path / "one"), run_folder(tmp_path / "two"))


@linux_only
@pytest.mark.slow
@pytest.mark.faults("R5", "R6")
@pytest.mark.parametrize("options", [("--optim.optimizer", "sgd"), ("--optim.optimizer", "adamw", "--lr", 0.001)])
def test_clipping_is_that_of_one_process(vit, colors, tmp_path, options):
    """A stopped training goes on, also where nothing is sharded."""
    clipped = (*options, "--optim.clip_norm", 0.05)
    two = begun(tmp_path, 2, colors, "--strategy", "fsdp", *clipped)
    alone = shutil.copytree(two, tmp_path / "alone" / "a" / "b" / "run")
    ended(tmp_path, 0, "train", "--resume", two)
    assert vit("train", "--resume", alone, "--devices", 1).code == 0

    def one(name, *more):
        return trained(tmp_path / name, colors, *SHORT, *more)

    whole, unclipped = one("one", *clipped), one("unclipped", *options, "--optim.clip_norm", 0)
    assert same_but_for_rounding(whole, two) and same_but_for_rounding(whole, alone)
    with pytest.raises(AssertionError):
        same_but_for_rounding(unclipped, whole)


@pytest.mark.slow
@linux_only
@pytest.mark.faults("R5", "R6")
def test_what_two_processes_share_goes_on_anywhere_and_ends_as_if_it_were_whole(vit, colors, tmp_path):
    two = begun(tmp_path, 2, colors, "--strategy", "fsdp")
    alone = shutil.copytree(two, tmp_path / "alone" / "a" / "b" / "run")

    ended(tmp_path, 0, "train", "--resume", two)
    vit("train", "--resume", alone, "--devices", 1).ok()
    one = trained(tmp_path / "one", colors, *SHORT)
    assert same_but_for_rounding(one, two) and same_but_for_rounding(one, alone)
    assert vit("predict", two, colors, "--recursive", "--output", tmp_path / "rows.csv").code == 0
    assert {row["status"] for row in rows(tmp_path / "rows.csv")} == {"ok"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--network", "resnet10_small", "--optim.optimizer", "sgd"), "not one of our ViTs"),
        (("--optim.optimizer", "muon"), "muon"),
        (("--optim.ema_decay", 0.9), "--optim.ema_decay"),
    ],
)
def test_what_needs_whole_weights_is_refused(vit, colors, tmp_path, options, words):
    answer = vit("train", colors, "--strategy", "fsdp", "--devices", 2, "--out", tmp_path / "runs", *options)
    assert answer.code == 2 and words in answer.err and "--strategy ddp" in answer.err
    assert not (tmp_path / "runs").exists()
