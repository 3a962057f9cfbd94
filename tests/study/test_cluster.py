"""Cells as tasks of a cluster: options, tasks, progress from files, and what SLURM's commands answer."""

import os
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.slurm import write_answer
from vit.commands.cli.arguments import ExecutorOptions
from vit.errors import UsageError
from vit.extras.slurm import tasks as slurm_tasks
from vit.extras.slurm.tasks import alive, largest_array
from vit.study.grid import Cell
from vit.study.running.cluster import CellsToRun, ClusterOptions
from vit.training.recipes.recipe import ModelConfig, Recipe


def cells(count):
    return [Cell("vit", 100, seed, "", f"cells/vit/100/seed{seed}", Recipe(seed=seed)) for seed in range(count)]


def work_of(folder, some, options=None, notify=None):
    return CellsToRun(folder, some, options or ClusterOptions(), None, {}, notify or (lambda *_: None))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tyme": "4h"}, "did you mean 'time'"),
        ({"cpus": "two"}, "--cluster.cpus is two; give a whole number"),
        ({"cpus": 0}, "give a number >0"),
        ({"gpus": -1}, "give a number >=0"),
        ({"memory": "nan"}, "--cluster.memory is nan"),
    ],
)
def test_wrong_options_are_refused(given, words):
    with pytest.raises(UsageError, match=words.replace(".", r"\.")):
        _ = ExecutorOptions(executor="slurm", cluster=given).cluster_options


def test_every_cell_is_in_one_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = work_of(Path("study"), [], ClusterOptions(cells_per_task=3)).batches(cells(7))
    assert [[cell.seed for cell in batch.cells] for batch in found] == [[0, 1, 2], [3, 4, 5], [6]]
    assert all(batch.study == tmp_path / "study" and batch.threads == 2 for batch in found)
    assert {batch.home for batch in found} == {tmp_path}
    assert [len(batch.cells) for batch in work_of(Path("study"), []).batches(cells(3))] == [1, 1, 1]


def test_probes_of_one_backbone_are_one_task_unless_a_number_is_given(tmp_path):
    """A task of its own would wait for the task that computes the features of its backbone."""
    models = [ModelConfig(init_from=name, freeze="backbone") for name in ("a.ckpt", "b.ckpt", "a.ckpt", "b.ckpt")]
    probes = [
        replace(cell, recipe=replace(cell.recipe, model=model)) for cell, model in zip(cells(4), models, strict=True)
    ]
    trained = cells(5)[4]
    found = work_of(tmp_path, []).batches([*probes, trained])
    assert sorted([cell.seed for cell in batch.cells] for batch in found) == [[0, 2], [1, 3], [4]]
    found = work_of(tmp_path, [], ClusterOptions(cells_per_task=1)).batches(probes)
    assert [[cell.seed for cell in batch.cells] for batch in found] == [[0], [1], [2], [3]]


def test_progress_comes_from_the_files_of_cells(tmp_path, monkeypatch):
    """A finished, a failed and a lost cell: each starts once and ends once, and a lost one has a reason."""
    module = sys.modules[CellsToRun.__module__]
    monkeypatch.setattr(module, "_POLL", 0.01)
    monkeypatch.setattr(module, "_GRACE", 0.2)
    done, failed, lost = cells(3)
    events = []

    def work():
        for cell, file in ((done, "result.json"), (failed, "failure.txt")):
            folder = tmp_path / cell.folder
            folder.mkdir(parents=True)
            (folder / "log.txt").touch()
            time.sleep(0.1)
            (folder / file).write_text("{}")

    worker = threading.Thread(target=work)
    worker.start()
    tasks = {"1_0": [done, failed], "1_1": [lost]}
    work_of(tmp_path, [], notify=lambda cell, event: events.append((cell.seed, event))).follow(
        tasks, lambda names: {"1_0"} if worker.is_alive() else set(), lambda name: f"task {name} is gone"
    )
    worker.join()
    assert sorted(events) == [(0, "done"), (0, "started"), (1, "failed"), (1, "started"), (2, "failed"), (2, "started")]
    assert (tmp_path / lost.folder / "failure.txt").read_text() == "task 1_1 is gone\n"


def test_a_task_that_was_once_not_listed_still_has_time_for_its_last_files(tmp_path, monkeypatch):
    """Its time began when SLURM first did not list it, and the task was lost as soon as it ended."""
    module = sys.modules[CellsToRun.__module__]
    monkeypatch.setattr(module, "_POLL", 0.05)
    monkeypatch.setattr(module, "_GRACE", 0.5)
    (cell,) = cells(1)
    (tmp_path / cell.folder).mkdir(parents=True)
    listed = iter([set(), *[{"1_0"}] * 15, *[set()] * 4])  # by its number of looks: a task that ends after 0.8 s
    events = []

    def alive(names):
        now = next(listed, None)
        if now is None:
            (tmp_path / cell.folder / "result.json").write_text("{}")
        return now or set()

    work_of(tmp_path, [], notify=lambda _, event: events.append(event)).follow({"1_0": [cell]}, alive, lambda _: "gone")
    assert events == ["started", "done"]


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Gives SLURM's commands an answer, an error and an exit code."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return partial(write_answer, tmp_path)


def test_tasks_that_squeue_lists_are_alive(answers):
    answers(
        "squeue", "12 0 13\n12 3 12\n15 N/A 15\n"
    )  # %F %K %i: array, task, job; the last task has the array's number
    assert alive(["12_0", "12_1", "12_3", "15"]) == {"12_0", "12_3", "15"}


def test_a_job_that_slurm_has_forgotten_has_ended(answers):
    answers("squeue", err="slurm_load_jobs error: Invalid job id specified", code=1)
    assert alive(["12_0"]) == set()


def test_a_controller_that_does_not_answer_ends_nothing(answers):
    answers("squeue", err="slurm_load_jobs error: Unable to contact slurm controller", code=1)
    assert alive(["12_0"]) == {"12_0"}


def test_the_size_of_arrays_is_that_of_the_cluster(answers):
    answers("scontrol", "KillWait = 30 sec\nMaxArraySize            = 11\nMaxJobCount = 10000\n")
    assert largest_array() == 11
    answers("scontrol", err="cannot contact", code=1)
    assert largest_array() == 1001


def test_a_limit_of_tasks_holds_over_several_arrays(answers, tmp_path, monkeypatch):
    """Each array begins once the tasks of those before it have ended, of which SLURM's limit knows nothing."""
    asked = []
    monkeypatch.setattr(slurm_tasks, "largest_array", lambda: 3)
    monkeypatch.setattr(slurm_tasks.CellsToRun, "follow", lambda *_: None)
    monkeypatch.setattr(slurm_tasks.Slurm, "check", lambda *_: None)

    def submit(folder, tasks, options, jobs):
        asked.append((len(tasks), options.sbatch.split()[-1:]))
        return [f"{10 * len(asked)}_{task}" for task in range(len(tasks))]

    monkeypatch.setattr(slurm_tasks, "submit", submit)
    for jobs in (2, None):
        options = ClusterOptions(sbatch="qos=low")
        work = slurm_tasks.CellsToRun(tmp_path, cells(7), options, jobs, {}, lambda *_: None)
        slurm_tasks.Slurm().run_cells(work)
        (tmp_path / "submitted.json").unlink(missing_ok=True)
        answers("squeue")
    ends = [["dependency=afterany:10"], ["dependency=afterany:10:20"]]
    assert asked[:3] == [(3, ["qos=low"]), (3, ends[0]), (1, ends[1])]
    assert [option for _, option in asked[3:]] == 3 * [["qos=low"]]
