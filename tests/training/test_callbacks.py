"""metrics.csv survives a kill: rows that were cut short or come after the checkpoint are dropped."""

import pytest
import torch

from vit.training.callbacks import COLUMNS, BestCheckpoint, _rows_until

HEADER = ",".join(COLUMNS)
ROWS = ["0,1,0.001,2.3,,,,,,0.1", "0,9,0.002,2.2,100,2.1,0.5,0.9,0.1,0.5", "1,18,0.001,2.0,100,1.9,0.6,0.9,0.1,1.5"]


@pytest.mark.faults("R8")
def test_the_best_score_outlives_a_move_of_its_folder(tmp_path):
    old, new = (BestCheckpoint(tmp_path / name, "best", "val/loss") for name in ("old", "new"))
    best = str(tmp_path.resolve() / "old" / "best.ckpt")
    old.best_model_path = old.kth_best_model_path = best
    old.best_k_models = {best: torch.tensor(0.25)}
    old.best_model_score = old.kth_value = torch.tensor(0.25)
    new.load_state_dict(old.state_dict())
    moved = str(tmp_path.resolve() / "new" / "best.ckpt")
    assert new.best_model_path == new.kth_best_model_path == moved
    assert new.best_k_models == {moved: 0.25} and new.best_model_score == 0.25


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (1, 1), (9, 2), (17, 2), (18, 3), (99, 3)])
def test_rows_after_the_checkpoint_are_dropped(tmp_path, step, kept):
    (tmp_path / "metrics.csv").write_text("\r\n".join([HEADER, *ROWS, ""]))
    rows = _rows_until(tmp_path / "metrics.csv", step)
    assert [",".join(row.values()) for row in rows] == ROWS[:kept]


@pytest.mark.faults("W4")
def test_a_file_cut_anywhere_keeps_its_whole_rows(tmp_path):
    whole = "\r\n".join([HEADER, *ROWS, ""]).encode()
    for length in range(len(whole)):
        (tmp_path / "metrics.csv").write_bytes(whole[:length])
        rows = [",".join(row.values()) for row in _rows_until(tmp_path / "metrics.csv", 99)]
        complete = whole[:length].decode().count("\r\n")
        assert rows[: complete - 1] == ROWS[: max(0, complete - 1)]
        assert len(rows) <= max(0, complete)
