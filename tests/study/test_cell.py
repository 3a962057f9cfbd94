"""A cell's process: what it sees of the machine."""

import os
from multiprocessing import Pipe

import pytest

from vit.errors import UsageError
from vit.study import cell
from vit.study.runner import Machine


@pytest.mark.parametrize(
    ("visible", "gpus", "seen"),
    [
        ("2,3", 2, ["2", "3", "2"]),
        ("GPU-8932f937, MIG-a1b2", 2, ["GPU-8932f937", "MIG-a1b2", "GPU-8932f937"]),
        (None, 2, ["0", "1", "0"]),
        ("2,3", 0, ["2,3"] * 3),
    ],
)
def test_a_cell_takes_one_of_the_gpus_that_its_study_may_use(tmp_path, monkeypatch, visible, gpus, seen):
    found = []
    for name in ("_end_with_parent", "_redirect_output"):  # this process is not that of a cell
        monkeypatch.setattr(cell, name, lambda *_: None)
    monkeypatch.setattr(cell, "_train", lambda *_: found.append(os.environ.get("CUDA_VISIBLE_DEVICES")))
    machine = Machine(jobs=3, threads=1, gpus=gpus)
    for slot in range(3):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        cell.run_cell(None, tmp_path, tmp_path, 1, machine.gpu(slot), "group", {})
    assert found == seen


@pytest.mark.parametrize("error", [UsageError("the network does not fit", "choose another"), RuntimeError("no kernel")])
def test_the_reason_why_a_step_cannot_be_timed_reaches_the_study(monkeypatch, error):
    for name in ("_end_with_parent", "_redirect_output"):  # this process is not that of a cell
        monkeypatch.setattr(cell, name, lambda *_: None)

    def fails(recipe):
        raise error

    monkeypatch.setattr(cell, "make_plan", fails)
    here, there = Pipe()
    cell.time_cell(None, 1, None, there)
    assert str(error) in here.recv()
