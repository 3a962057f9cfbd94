"""A CNN learns on two processes what it learns on one."""

import pytest
import torch

from tests.processes import TWO, finish, start

FOUR_STEPS = (
    "--config", "digits_cnn", "--optim.steps", 4, "--batch_size", 32, "--seed", 5, "--wandb", "off",
    "--keep_state", "true",
    "--model.network.widths", "[8,16,32,64]",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.faults("X8")
def test_two_processes_and_one_end_with_the_same_weights(vit, tmp_path):
    answer = vit("train", *FOUR_STEPS, "--out", tmp_path / "one")
    assert answer.code == 0, answer.err
    process = start(tmp_path, "train", *FOUR_STEPS, *TWO, "--out", tmp_path / "two")
    out, err = finish(tmp_path, process, 600)
    assert process.returncode == 0, out + err
    one, two = (torch.load(next((tmp_path / name).glob("**/last.ckpt")), weights_only=True) for name in ("one", "two"))
    assert one["global_step"] == two["global_step"] == 4
    assert any("running_var" in name for name in one["state_dict"])
    for name, value in one["state_dict"].items():
        assert torch.allclose(two["state_dict"][name], value, rtol=1e-5, atol=1e-5), name
