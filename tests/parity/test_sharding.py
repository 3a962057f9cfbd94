"""Weights that are spread over two processes: the same training, and ordinary checkpoints."""

import shutil

import pytest
import torch

from tests.parity.interrupted import SHORT, begun, same_but_for_rounding
from tests.processes import finish, linux_only, start
from tests.runs import run_folder
from tests.tables import rows

ROTARY = ("--model.network.depth", 2, "--model.network.pos_embed", "rope2d_eva")


@linux_only
@pytest.mark.slow
def test_a_rotary_vit_learns_in_two_processes_what_it_learns_in_one(vit, colors, tmp_path):
    command = ("train", colors, *SHORT, *ROTARY, "--strategy", "fsdp", "--devices", 2, "--trainer.accelerator", "cpu")
    process = start(tmp_path, *command, "--out", "two")
    _, said = finish(tmp_path, process, 400)
    assert process.returncode == 0, said
    assert vit("train", colors, *SHORT, *ROTARY, "--out", tmp_path / "one").code == 0
    assert same_but_for_rounding(run_folder(tmp_path / "one"), run_folder(tmp_path / "two"))


AVERAGED = ("--optim.ema_decay", 0.8, "--optim.clip_norm", 0.05)


def trained_weights(run):
    """The weights that are trained on, beside their average."""
    return torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["current_model_state"]


@linux_only
@pytest.mark.slow
@pytest.mark.faults("R5", "R6")
@pytest.mark.parametrize("options", [("--optim.optimizer", "sgd"), ("--optim.optimizer", "adamw", "--lr", 0.001)])
def test_averages_and_clipping_are_those_of_one_process(vit, colors, tmp_path, options):
    """Each process keeps the average of its own parts; a stopped training goes on, also where nothing is spread."""
    two = begun(tmp_path, 2, colors, "--strategy", "fsdp", *AVERAGED, *options)
    alone = shutil.copytree(two, tmp_path / "alone" / "a" / "b" / "run")
    process = start(tmp_path, "train", "--resume", two)
    _, said = finish(tmp_path, process, 400)
    assert process.returncode == 0, said
    assert vit("train", "--resume", alone, "--devices", 1).code == 0

    def one(name, *more):
        assert vit("train", colors, *SHORT, *AVERAGED, *options, *more, "--out", tmp_path / name).code == 0
        return run_folder(tmp_path / name)

    whole, unclipped = one("one"), one("unclipped", "--optim.clip_norm", 0)
    assert same_but_for_rounding(whole, two) and same_but_for_rounding(whole, alone)
    expected = trained_weights(whole)
    for run in (two, alone):
        torch.testing.assert_close(trained_weights(run), expected, atol=1e-6, rtol=1e-6)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(trained_weights(unclipped), expected, atol=1e-5, rtol=1e-5)
    averages = torch.load(whole / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    with pytest.raises(AssertionError):
        torch.testing.assert_close(averages, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@linux_only
@pytest.mark.faults("R5", "R6")
def test_what_two_processes_share_goes_on_anywhere_and_ends_as_if_it_were_whole(vit, colors, tmp_path):
    two = begun(tmp_path, 2, colors, "--strategy", "fsdp")
    alone = shutil.copytree(two, tmp_path / "alone" / "a" / "b" / "run")

    process = start(tmp_path, "train", "--resume", two)
    _, said = finish(tmp_path, process, 400)
    assert process.returncode == 0, said
    answer = vit("train", "--resume", alone, "--devices", 1)
    assert answer.code == 0, answer.err
    assert vit("train", colors, *SHORT, "--out", tmp_path / "one").code == 0
    one = run_folder(tmp_path / "one")
    assert same_but_for_rounding(one, two) and same_but_for_rounding(one, alone)
    assert vit("predict", two, colors, "--recursive", "--output", tmp_path / "rows.csv").code == 0
    assert {row["status"] for row in rows(tmp_path / "rows.csv")} == {"ok"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--network", "resnet10_small", "--optim.optimizer", "sgd"), "not one of our ViTs"),
        (("--optim.optimizer", "muon"), "muon"),
    ],
)
def test_what_needs_whole_weights_is_refused(vit, colors, tmp_path, options, words):
    answer = vit("train", colors, "--strategy", "fsdp", "--devices", 2, "--out", tmp_path / "runs", *options)
    assert answer.code == 2 and words in answer.err and "--strategy ddp" in answer.err
    assert not (tmp_path / "runs").exists()
