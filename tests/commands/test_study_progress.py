"""The time that a study has left."""

import subprocess
from dataclasses import replace

import pytest

from vit.commands.studies.study_cells import StudyProgress
from vit.console import Reporter
from vit.study.grid import Budget, Inputs, make_cells
from vit.training.recipes.recipe import Recipe


@pytest.fixture
def cells():
    recipe = Recipe()
    recipe = replace(recipe, data=replace(recipe.data, source="digits"))
    return make_cells({"ViT": {"": recipe}}, {100: [0, 1]}, Budget.parse("steps:100"), Inputs("digits", {}, {}))


def shares(folder, cells, monkeypatch, metrics=None):
    """The share of the work that is done, after each event of the first cell, which was stopped with these metrics."""
    if metrics is not None:
        run = folder / cells[0].folder
        run.mkdir(parents=True)
        (run / "metrics.csv").write_text(metrics)
    progress, shown = StudyProgress(Reporter(), folder, cells, {"train": 100, "test": 10}), []
    monkeypatch.setattr(progress, "_outcome", lambda *_: "")
    monkeypatch.setattr(progress.progress, "update", lambda *_, share: shown.append(share))
    progress.notify(cells[0], "started")
    progress.notify(cells[0], "done")
    progress.close()
    return shown


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (None, 0.5),
        ("epoch,step,seconds\n0,1,2.5\n1,75,80.5\n", 0.2),  # 25 of 125 steps that were left
        ("epoch,step,seconds\n0,1,2.5\n1,75,80.5\n1,8", 0.2),  # a row that a kill has cut short
        ("epoch,step,seconds\n49,100,90.5\n", 0.05 / 1.05),  # killed before its result
        ("epoch,step,seconds\n", 0.5),
        ("nothing of ours", 0.5),
        ("epoch,step,seconds\n0,many,2.5\n", 0.5),
    ],
)
def test_what_a_stopped_cell_has_trained_before_is_not_left(cells, tmp_path, monkeypatch, metrics, expected):
    assert shares(tmp_path, cells, monkeypatch, metrics) == pytest.approx([0, expected])


def test_a_cell_that_does_not_start_is_not_waited_for(cells, tmp_path, monkeypatch, capsys):
    progress = StudyProgress(Reporter(), tmp_path, cells, {"train": 100, "test": 10})
    monkeypatch.setattr(progress, "_outcome", lambda *_: "")
    progress.leave_out(cells[1])
    progress.notify(cells[0], "done")
    assert f"1/{len(cells) - 1} " in capsys.readouterr().err
    assert progress.work_done == progress.total_work


def test_epochs_count_where_they_are_the_length(cells, tmp_path, monkeypatch):
    for cell in cells:
        cell.recipe.optim.epochs, cell.recipe.optim.steps = 4, None
    metrics = "epoch,step,seconds\n0,10,2.5\n2,24,80.5\n"
    assert shares(tmp_path, cells, monkeypatch, metrics) == pytest.approx([0, 0.2])


def test_a_last_cell_that_was_killed_before_its_result_has_a_share(cells, tmp_path, monkeypatch):
    metrics = "epoch,step,seconds\n49,100,90.5\n"
    assert shares(tmp_path, cells[:1], monkeypatch, metrics) == pytest.approx([0, 1])


@pytest.mark.faults("W12")
def test_one_line_uploads_the_offline_runs_of_all_cells(cells, tmp_path, capsys):
    study = tmp_path / "my study"
    for number, cell in enumerate(cells):
        (study / cell.folder / "wandb" / f"offline-run-{number}").mkdir(parents=True)
    StudyProgress(Reporter(), study, cells, {"train": 100, "test": 10}).close()
    said = capsys.readouterr().err
    assert "has 2 offline runs of cells; upload with: wandb sync " in said
    named = said.split("wandb sync ")[1].strip()
    listed = subprocess.run(["sh", "-c", f"ls -d {named}"], capture_output=True, text=True, check=True).stdout
    assert sorted(listed.splitlines()) == sorted(map(str, study.glob("cells/**/offline-run-*")))
