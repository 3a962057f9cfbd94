"""`--patience`: when the learning rate falls, and when the training ends"""

import json

import pytest

from tests.runs import run_folder
from tests.tables import rows
from vit.training.planning.schedule import end_of_decay

STILL = (  # an accuracy that never rises, three steps an epoch
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 10, "--lr", 1e-9, "--wandb", "off",
    "--optim.best_metric", "acc1",
)  # fmt: skip


def trained(vit, colors, out, *options):
    """(what was shown, {step: learning rate as a fraction of the highest}, result) of a training."""
    answer = vit("train", colors, *STILL, *options, "--out", out).ok()
    run = run_folder(out)
    rates = {int(row["step"]): float(row["lr"]) / 1e-9 for row in rows(run / "metrics.csv")}
    return answer.err + answer.out, rates, json.loads((run / "result.json").read_text())


def test_the_end_of_the_schedule_is_moved_and_not_cut_off(vit, colors, tmp_path):
    shown, rates, result = trained(vit, colors, tmp_path, "--epochs", 12, "--patience", 3)
    assert "epoch 1 is still the best" in shown and "ends with epoch 5 instead of 12" in shown
    assert max(rates) == result["steps"] == 15 and (result["epochs"], result["rounds"]) == (5, 5)
    assert all(rates[step] == pytest.approx(1) for step in range(5, 13))  # after the warm-up of 4 steps
    assert rates[13] == pytest.approx(1) and rates[13] > rates[14] > rates[15] == pytest.approx(0.01 + 0.99 * 0.25)


def test_without_an_end_by_patience_the_rate_falls_in_the_last_fifth(vit, colors, tmp_path):
    shown, rates, result = trained(vit, colors, tmp_path, "--epochs", 5, "--patience", 4)
    assert "is still the best" not in shown and "at most" in shown and result["rounds"] == 5
    assert rates[12] == rates[13] == pytest.approx(1) and rates[15] < 0.3


@pytest.mark.parametrize(("done", "rounds", "end"), [(4, 50, 5), (8, 10, 10), (8, 50, 10), (5, 6, 6), (1, 9, 2)])
def test_the_rate_falls_during_a_fifth_of_the_training(done, rounds, end):
    assert end_of_decay(done, rounds) == end


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--patience", 5, "--epochs", 5), "--patience 5 cannot end a training that has 5 validations"),
        (("--patience", 5, "--optim.steps", 10, "--optim.best_metric", "last"), "for which each validation is better"),
        (("--patience", 0), "give a number >0"),
    ],
)
def test_a_patience_that_changes_nothing_is_refused(vit, colors, tmp_path, options, problem):
    vit("train", colors, *STILL, *options, "--out", tmp_path).failed(2, problem)
