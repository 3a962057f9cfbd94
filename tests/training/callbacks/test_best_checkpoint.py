"""The best score of a run survives a move of its folder."""

import pytest
import torch

from vit.training.callbacks.best_checkpoint import BestCheckpoint


@pytest.mark.faults("R8")
def test_the_best_score_outlives_a_move_of_its_folder(tmp_path):
    old, new = (BestCheckpoint(tmp_path / name / "best.ckpt") for name in ("old", "new"))
    best = str(tmp_path.resolve() / "old" / "best.ckpt")
    old.best_model_path = old.kth_best_model_path = best
    old.best_k_models = {best: torch.tensor(0.25)}
    old.best_model_score = old.kth_value = torch.tensor(0.25)
    new.load_state_dict(old.state_dict())
    moved = str(tmp_path.resolve() / "new" / "best.ckpt")
    assert new.best_model_path == new.kth_best_model_path == moved
    assert new.best_k_models == {moved: 0.25} and new.best_model_score == 0.25
