"""`vit report`: a study's folder becomes an answer, a table and files, whatever of it has finished."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from tests.tables import rows
from vit.commands.cli.command_line import run_command
from vit.commands.report import report
from vit.errors import DataError, UsageError
from vit.study.answer.answer_warnings import COMMONEST
from vit.study.findings import CellResult, FailedCell

FILES = {"results.csv", "summary.json", "curve.png", "report.html"}
PROTOCOL = {"data": "photos", "budget": "steps:2000", "seeds": [0, 1, 2]}
CURVES = {"vit": (0.02, 9.0, -0.75), "resnet": (0.03, 1.5, -0.5)}


def cell(series, images, seed, test_images=2000):
    a, b, c = CURVES[series]
    generator = np.random.default_rng([images, seed, len(series)])
    error = min(0.9, a + b * images**c) * np.exp(0.03 * generator.standard_normal())
    correct = generator.permutation(np.arange(test_images) >= error * test_images)
    run = f"cells/{series}/{images:07d}/seed{seed}"
    accuracy = float(correct.mean())
    return CellResult(
        series=series, network=series, num_images=images, seed=seed, accuracy=accuracy, validation_loss=0.5,
        steps=2000, batch_size=64, epochs=3.0, best_round=9, parameters=10**6, flops=10**8, seconds=60.0,
        images_per_second=900.0, run=run, correct=correct,
    )  # fmt: skip


def cells(sizes=(100, 300, 1000, 3000, 10000), seeds=(0, 1, 2)):
    return [cell(name, n, seed) for n in sizes for seed in seeds for name in CURVES]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`folder(results, failed)` -> a study's folder of which `collect` says just that."""
    from vit.report.studies import study_page

    def make(results, failed=(), **protocol):
        monkeypatch.setattr(study_page, "collect", lambda path: (results, {**PROTOCOL, **protocol}, list(failed)))
        (tmp_path / "study").mkdir()
        return tmp_path / "study"

    return make


def test_a_study_becomes_an_answer_a_table_and_files(folder, capsys):
    study = folder(cells())
    assert report(study) == study / "report.html"
    out = capsys.readouterr().out
    assert set(os.listdir(study)) == FILES
    summary = json.loads((study / "summary.json").read_text())
    assert " ".join([*summary["answer"], summary["trend"]]) in " ".join(out.split())
    assert [len(summary[name]) for name in ("forecasts", "backtest")] == [8, 6]
    assert len(rows(study / "results.csv")) == 30
    lines = [line.split() for line in out.splitlines()]
    assert ["images", "vit", "resnet"] in lines
    point = summary["series"][0]["points"][-1]["mean"]
    start = ["10,000", *(f"{100 * point[name]:.2f}" for name in ("value", "low", "high"))]
    assert [word.strip("()") for row in lines if row[:1] == ["10,000"] for word in row if word != "to"][:4] == start
    assert all(str(study / name) in out for name in FILES)
    assert out.strip().splitlines()[-1].startswith(f"Next: vit report {study} --target 0.9")


@pytest.mark.parametrize(
    ("protocol", "command"),
    [
        ({}, "predict {0}/cells/{1} FOLDER_OF_IMAGES"),
        ({"right": "all its known labels are given"}, "evaluate {0}/cells/{1}"),
        ({COMMONEST: 0.95}, "evaluate {0}/cells/{1}"),  # it may only guess
    ],
)
def test_the_next_command_is_one_that_takes_these_runs(folder, capsys, protocol, command):
    runs = cells(sizes=(100, 300))
    study = folder(runs, **protocol)
    report(study, target=0.97)
    best = max(runs, key=lambda run: (run.num_images, run.accuracy)).run.removeprefix("cells/")
    assert capsys.readouterr().out.strip().splitlines()[-1] == f"Next: vit {command.format(study, best)}"


def test_a_target_is_asked_for(folder, capsys):
    study = folder(cells())
    assert report(study, target=0.97) == study / "report.html"
    assert json.loads((study / "summary.json").read_text())["target"] == 0.97
    assert "For an accuracy of 97 %" in (study / "report.html").read_text()
    out = capsys.readouterr().out
    assert out.count("For an accuracy of 97 %, ") == 2
    assert re.fullmatch(rf"Next: vit predict {study}/cells/\w+/0010000/seed\d FOLDER_OF_IMAGES", out.splitlines()[-1])


@pytest.mark.slow
def test_it_may_be_asked_again(folder):
    study = folder(cells())
    report(study)
    first = {name: (study / name).read_bytes() for name in FILES}
    report(study)
    assert {name: (study / name).read_bytes() for name in FILES} == first


@pytest.mark.parametrize("results", [cells(seeds=(0,)), cells(sizes=(100,)), cells()[:1], cells()[:7]], ids=len)
def test_half_a_study_is_reported(folder, capsys, results):
    study = folder(results)
    report(study)
    assert set(os.listdir(study)) == FILES
    assert "Next: vit " in capsys.readouterr().out


def test_failed_cells_are_named(folder, capsys):
    failed = [FailedCell("vit", 100, n, "", f"cells/{n}", f"no\n{n}") for n in range(7)]
    report(folder(cells(), failed))
    err = capsys.readouterr().err
    assert "7 cells failed" in err and r"vit, 100 images, seed 4: no\n4" in err and "seed 5" not in err


def test_a_study_without_a_result(folder):
    failed = [FailedCell("vit", 100, 0, "", "cells/0", "out of memory")]
    study = folder([], failed)
    with pytest.raises(DataError, match=r"no finished cell.*out of memory"):
        report(study)
    assert not os.listdir(study)


@pytest.mark.parametrize("place", ["nothing", "empty"])
def test_what_is_no_study(tmp_path, place):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"vit study"):
        report(tmp_path / place)
    assert not os.listdir(tmp_path / "empty")


@pytest.mark.parametrize("target", ["0", "1", "95", "-0.1", "high"])
def test_a_target_is_a_share(folder, target):
    study = folder(cells())
    with pytest.raises(UsageError, match=f"target is {target}; give a number"):
        run_command(report, [str(study), f"--target={target}"])
    assert not os.listdir(study)


def test_a_run_gets_its_page_again(vit, digits_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(digits_run.path, run, ignore=shutil.ignore_patterns("checkpoints", "figures"))
    before = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    answer = vit("report", run)
    assert answer.code == 0 and answer.err == "" and str(run / "report.html") in answer.out
    again = (run / "report.html").read_bytes()
    assert again.count(b'src="data:image/png') == before.count(b'src="data:image/png') > 50
    maps = b'src="data:image/jpeg'  # enlarged; without its checkpoint the run has none
    assert before.count(maps) == 2 * 12 and again.count(maps) == 0
    assert answer.out.strip().splitlines()[-1].startswith(f"Next: vit predict {run} ")
    config = (run / "config.yaml").read_text().replace("source: digits", f"source: {tmp_path}/gone/")
    (run / "config.yaml").write_text(config)
    vit("report", run).noted("the page has no pictures: ", "/gone, which held the images of")
    assert b'src="data:image/png' not in (run / "report.html").read_bytes()
    assert vit("report", run, "--target", 0.9).code == 2


def test_a_page_that_cannot_be_drawn_is_a_notice(capsys, tmp_path):
    """The training is finished then, and nothing of it may look lost."""
    from vit.checkpoints.run import RunDirectory
    from vit.commands.training.run_folder import noticed_failure
    from vit.console import Reporter

    with noticed_failure(Reporter(), RunDirectory(tmp_path)):
        raise ValueError("no\x1b[31mfont")
    said = capsys.readouterr().err
    assert r"could not be drawn: ValueError: no\x1b[31mfont" in said and f"'vit report {tmp_path}' tries again" in said
