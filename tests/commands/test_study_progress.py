"""The time that a study has left."""

import subprocess
from dataclasses import replace

import pytest

from vit.commands.cli.arguments import ExecutorOptions
from vit.commands.studies import study_cells
from vit.commands.studies.study_cells import StudyProgress
from vit.console import Reporter
from vit.errors import StoppedError, Terminated
from vit.study.grid import Budget, Inputs, make_cells
from vit.training.recipes.recipe import Recipe


@pytest.fixture
def cells():
    recipe = Recipe()
    recipe = replace(recipe, data=replace(recipe.data, source="digits"))
    return make_cells({"ViT": {"": recipe}}, {100: [0, 1]}, Budget.parse("steps:100"), Inputs("digits", {}, {}))


def test_the_share_of_the_work_that_is_done_is_shown(cells, tmp_path, monkeypatch):
    progress, shown = StudyProgress(Reporter(), tmp_path, cells, {"train": 100, "test": 10}), []
    monkeypatch.setattr(progress, "_outcome", lambda *_: "")
    monkeypatch.setattr(progress.progress, "update", lambda *_, share: shown.append(share))
    progress.notify(cells[0], "started")
    progress.notify(cells[0], "done")
    progress.close()
    assert shown == [0, 0.5]


def test_a_cell_that_does_not_start_is_not_waited_for(cells, tmp_path, monkeypatch, capsys):
    progress = StudyProgress(Reporter(), tmp_path, cells, {"train": 100, "test": 10})
    monkeypatch.setattr(progress, "_outcome", lambda *_: "")
    progress.leave_out(cells[1])
    progress.notify(cells[0], "done")
    assert f"1/{len(cells) - 1} " in capsys.readouterr().err
    assert progress.work_done == progress.total_work


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


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_a_study_that_is_stopped_says_how_to_continue(cells, tmp_path, monkeypatch, stop, code):
    def interrupted(*_):
        raise stop

    monkeypatch.setattr(study_cells, "run_cells_on", interrupted)
    progress = StudyProgress(Reporter(), tmp_path, cells, {"train": 100, "test": 10})
    with pytest.raises(StoppedError, match="ed; to continue, give the same command again") as error:
        progress.run(cells, ExecutorOptions(), {})
    assert error.value.code == code
