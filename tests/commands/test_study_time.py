"""A study in a given time: its design, its promise, and how it goes on."""

import json
import shutil
import time
from types import SimpleNamespace

import pytest

from tests.study.results import PROTOCOL, law
from tests.study.results import study as results
from vit.commands.studies import study_cells, study_estimate, study_report
from vit.data.loading import threads
from vit.study.answer.answer_warnings import PART
from vit.study.answer.summary import summarize
from vit.study.folder import StudyDirectory
from vit.study.running import runner

NANO = ("--networks", "vit_nano_patch2_8", "--vary", "model.network.pool=cls,mean", "--budget", "steps:6")
QUICK = ("--set", "model.network.depth=1", "--set", "augment.name=none", "--set", "trainer.accelerator=cpu")
LINE = (*NANO, *QUICK, "--jobs", "2", "--wandb", "off")


@pytest.fixture
def study(vit, colors, tmp_path, monkeypatch):
    """`study(*words, step=seconds)`: a study of 30 training images, where a step takes as long as it is told."""

    def run(*words, step=1.0):
        monkeypatch.setattr(runner, "time_network", lambda recipe, machine: (step, 0.0))
        monkeypatch.setattr(threads, "available_cores", lambda: 2)  # one for each of the jobs
        answer = vit("study", colors, *LINE, *words, "--out", tmp_path)
        path = tmp_path / "colors" / "study.json"
        content = json.loads(path.read_text()) if path.is_file() else {"cells": [], "protocol": {}}
        return answer, content

    return run


def groups(content):
    return {(cell["images"], cell["seed"]) for cell in content["cells"]}


@pytest.mark.usefixtures("cells_here")
def test_a_time_decides_sizes_and_seeds_and_more_of_it_adds_to_them(study, monkeypatch):
    answer, first = study("--time", "60s", step=3.0)
    assert answer.code == 0, answer.err
    assert "60 s for everything" in answer.out
    assert "after them --time" in answer.out, "a new study of this time may have longer trainings instead"
    assert first["protocol"]["seconds"] == 60 and first["protocol"]["looks"] == 1
    assert {(30, 0), (30, 1)} <= groups(first) and len(groups(first)) < 10
    answer, again = study("--time", "60s", step=0.1)  # faster now: the design stays
    assert answer.code == 0 and groups(again) == groups(first) and again["protocol"]["looks"] == 1
    monkeypatch.setattr(study_cells, "run_cells_on", lambda *_: None)  # which trains them
    answer, more = study("--time", "10min", step=0.1)
    assert answer.code == 0 and groups(more) > groups(first)
    assert more["protocol"]["looks"] == 2 and len(groups(more)) == 10
    kept = {cell["folder"] for cell in first["cells"]}
    assert kept < {cell["folder"] for cell in more["cells"]}  # nothing is trained again


@pytest.mark.slow
def test_a_slow_machine_leaves_cells_out_and_lists_what_was_trained(study, monkeypatch):
    monkeypatch.setattr(study_estimate, "PLANNED", 1000.0)  # of the time: far too much is planned
    began = time.monotonic()
    slow = SimpleNamespace(monotonic=lambda: began + 100 * (time.monotonic() - began))  # of trainings alone
    monkeypatch.setattr(study_cells, "time", slow)
    answer, content = study("--time", "30s", step=100.0)
    assert answer.code == 0, answer.err
    assert "30 s are over" in answer.err and "did not start" in answer.err
    assert groups(content) == {(30, 0), (30, 1)} and content["protocol"]["sizes"] == [30]
    assert "missing" not in answer.out


@pytest.mark.slow
def test_a_killed_study_trains_two_seeds_at_one_size_on_a_slow_machine_too(study, monkeypatch):
    """It went on with the smallest size, and with nothing at all where no training was expected to end in time."""
    with monkeypatch.context() as killed:
        killed.setattr(study_cells, "run_cells_on", lambda *_: None)
        assert "no finished cell" in study("--time", "30s", step=100.0)[0].err
    answer, content = study("--time", "30s", step=100.0)
    assert answer.code == 0 and len(groups(content)) == 2, answer.err
    assert "more than this time: two seeds are trained in any case" in answer.out
    assert "time allows" not in answer.err, "it allows nothing"


def test_trainings_that_a_time_shortens_to_less_than_half_are_a_warning(vit, colors, tmp_path, monkeypatch):
    """3,000 photographs were compared after 15 % of the steps, and one word of the plan said so."""
    monkeypatch.setattr(runner, "time_network", lambda recipe, machine: (0.3, 0.0))
    words = ("--networks", "vit_nano_patch2_8,resnet10_small", "--init", "random", *QUICK[-2:], "--dry_run")
    for given, is_short in (("2min", True), ("1h", False)):
        answer = vit("study", colors, *words, "--time", given, "--out", tmp_path).ok()
        assert ("% of the usual length, and longer ones can rank" in answer.err) == is_short, answer.out
    monkeypatch.setattr(study_cells, "run_cells_on", lambda *_: None)  # it is killed before the first training ends
    begun = ("study", colors, *words[:-1], "--wandb", "off", "--time", "2min", "--out", tmp_path)
    assert "no finished cell" in vit(*begun).err
    again = vit(*begun, "--dry_run")  # which goes on with the short length
    assert "% of the usual length, and longer ones can rank" in again.err and "about 0 s" not in again.out, again.out


def test_after_short_trainings_the_next_command_is_a_longer_study(tmp_path):
    """It was `vit predict` with a network that had 10 % of its steps."""
    cells = results({"vit": law(2, -0.4), "cnn": law(1, -0.4)})
    found = summarize(cells, {**PROTOCOL, PART: 0.1, "seconds": 1200.0}, [], None)
    words = ["my photos/", "--time", "20min", "--name=a", "--seeds", "3"]
    longer = "vit study 'my photos/' --seeds 3 --time 4h --name a-4h --yes"
    for more in ([], ["--yes"], ["--yes", "true"], ["--yes=true"]):
        assert study_report._next(StudyDirectory(tmp_path / "a"), found, None, [*more, *words]) == longer


def test_a_design_for_other_images_is_none_for_these(vit, colors, tmp_path, monkeypatch):
    """A study that was killed before its first result, and whose images changed then, kept sizes above their number."""
    monkeypatch.setattr(runner, "time_network", lambda recipe, machine: (0.1, 0.0))
    monkeypatch.setattr(study_cells, "run_cells_on", lambda *_: None)
    shutil.copytree(colors, tmp_path / "images")
    words = ("study", tmp_path / "images", *LINE, "--time", "10min", "--out", tmp_path)
    assert "no finished cell" in vit(*words).err
    for number, path in enumerate(sorted((tmp_path / "images").rglob("*.png"))):
        if number % 2:
            path.unlink()
    answer = vit(*words, "--dry_run")
    (sizes,) = (line for line in answer.out.splitlines() if line.strip().startswith("sizes"))
    assert answer.code == 0 and "30" not in sizes, answer.out


@pytest.mark.parametrize(("images", "minutes"), [(500, 20), (501, 30), (1500, 30), (1501, 60)])
def test_a_study_of_more_images_takes_more_time(images, minutes):
    assert next(seconds for most, seconds in study_estimate.ON_CPU if images <= most) == 60 * minutes


def test_above_an_hour_nothing_starts_without_yes(study):
    long = ("--sizes", "all", "--seeds", "2", "--budget", "steps:100000000")
    answer, content = study(*long)
    assert answer.code == 2 and "--yes" in answer.err and "--time" in answer.err and not content["cells"]
    answer, _ = study(*long, "--dry_run")
    assert answer.code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--time", "soon"), "--time soon"),
        (("--time", "5min", "--sizes", "all", "--seeds", "2"), "leave one of them out"),
        (("--time", "5min", "--shard", "1/2"), "on several machines"),
        (("--init", "random", "--init_from", "x.ckpt"), "there is no checkpoint"),
    ],
)
def test_times_and_starts_that_decide_nothing_are_refused(study, words, said):
    answer, _ = study(*words)
    assert answer.code in (2, 4) and said in answer.err
