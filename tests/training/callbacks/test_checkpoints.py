"""The best score of a run survives a move of its folder."""

from types import SimpleNamespace

import pytest
import torch

from vit.training.callbacks.checkpoints import BestCheckpoint


@pytest.mark.faults("R8")
def test_the_best_score_outlives_a_move_of_its_folder(tmp_path):
    old, new = (BestCheckpoint(tmp_path / name / "best.ckpt", "loss") for name in ("old", "new"))
    best = str(tmp_path.resolve() / "old" / "best.ckpt")
    old.best_model_path = old.kth_best_model_path = best
    old.best_k_models = {best: torch.tensor(0.25)}
    old.best_model_score = old.kth_value = torch.tensor(0.25)
    new.load_state_dict(old.state_dict())
    moved = str(tmp_path.resolve() / "new" / "best.ckpt")
    assert new.best_model_path == new.kth_best_model_path == moved
    assert new.best_k_models == {moved: 0.25} and new.best_model_score == 0.25


def follow(tmp_path, metric, values, losses=None, callback=None):
    """The values that became the best, in turn, of validations in this order."""
    callback = callback or BestCheckpoint(tmp_path / "best.ckpt", metric)
    kept = []
    callback._save_checkpoint = lambda trainer, path: kept.append(float(callback.current_score))
    for number, value in enumerate(values):
        logged = {"val/loss": torch.tensor(1.0 if losses is None else losses[number])}
        logged |= {f"val/{metric}": torch.tensor(value)}
        trainer = SimpleNamespace(
            callback_metrics=logged, current_epoch=number, global_step=number,
            strategy=SimpleNamespace(reduce_boolean_decision=bool, broadcast=lambda path: path),
        )  # fmt: skip
        candidates = callback._monitor_candidates(trainer)
        callback._save_topk_checkpoint(trainer, candidates)
    return kept, callback


def test_a_metric_is_maximized_and_the_loss_is_minimized(tmp_path):
    assert follow(tmp_path, "balanced_acc", [0.3, 0.2, 0.5, 0.4])[0] == pytest.approx([0.3, 0.5])
    assert follow(tmp_path, "loss", [0.3, 0.2, 0.5, 0.4])[0] == pytest.approx([0.3, 0.2])


def test_of_equal_values_the_earliest_wins(tmp_path):
    assert follow(tmp_path, "macro_f1", [0.5, 0.5, 0.25, 0.5])[0] == [0.5]


def test_the_best_value_outlives_a_resume(tmp_path):
    _, before = follow(tmp_path, "balanced_acc", [0.3, 0.5])
    resumed = BestCheckpoint(tmp_path / "best.ckpt", "balanced_acc")
    resumed.load_state_dict(before.state_dict())
    assert follow(tmp_path, "balanced_acc", [0.5, 0.4, 0.6], callback=resumed)[0] == pytest.approx([0.6])


def test_weights_whose_loss_is_not_finite_win_only_against_nothing(tmp_path):
    nan = float("nan")
    assert follow(tmp_path, "acc1", [0.2, 0.9], [1.0, nan])[0] == pytest.approx([0.2])
    assert follow(tmp_path, "acc1", [0.9, 0.2], [nan, 1.0])[0] == pytest.approx([-float("inf"), 0.2])


def test_the_last_weights_win_whatever_the_metrics_say_but_not_without_a_finite_loss(tmp_path):
    nan = float("nan")
    assert follow(tmp_path, "last", [0.0, 0.0, 0.0], [0.1, 0.3, 0.2])[0] == [0.0, 1.0, 2.0]
    assert follow(tmp_path, "last", [0.0, 0.0], [1.0, nan])[0] == [0.0]
