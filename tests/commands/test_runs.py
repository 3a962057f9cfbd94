"""`vit runs`: every run is a row, whatever state its folder is in."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from functools import partial

import pytest

from tests.browser import browser  # noqa: F401  a fixture
from tests.report.pages import Page
from tests.tables import rows
from vit.checkpoints import locking
from vit.checkpoints.run import RunDirectory
from vit.checkpoints.run_list import list_runs

pytestmark = pytest.mark.usefixtures("here")
HOSTILE = "<script>document.title='owned'</script>"


def begin(path):
    """A new run folder, as a training leaves it before its first step."""
    path.mkdir(parents=True)
    for name in ("config.yaml", "splits.csv"):
        (path / name).touch()


@pytest.fixture
def folder(digits_run, here):
    """Four finished runs of several accuracies, one that was stopped, and one whose result is damaged."""
    result = json.loads((digits_run.path / "result.json").read_text())
    for number, accuracy in enumerate((0.5, 0.95, 0.9, 0.10)):
        path = here / "runs" / ("cats" if number < 2 else "dogs") / "vit" / f"2026010{number + 1}-120000"
        begin(path)
        found = dict(result, data="cats" if number < 2 else "dogs", seconds=9.0 * 10**number)
        found["metrics"] = {"acc1": {"value": accuracy, "low": accuracy - 0.05, "high": accuracy + 0.05}}
        (path / "result.json").write_text(json.dumps(found))
        (path / "report.html").write_text("report")
    for name in ("20260105-120000", "20260106-120000"):
        path = here / "runs" / HOSTILE.replace("/", "_") / "cnn" / name
        begin(path)
    (path / "result.json").write_text("{")
    cell = here / "runs" / "study" / "cells" / "vit" / "100" / "seed0"
    begin(cell)
    (here / "runs" / "study" / "study.json").write_text("{}")
    return here / "runs"


def change(run, **values):
    """Write other values into the result of a run."""
    file = run / "result.json"
    file.write_text(json.dumps(dict(json.loads(file.read_text()), **values)))


def shown(answer):
    """Start of each run in the table."""
    return [line[:10] for line in answer.out.splitlines() if line.startswith("2026-01")]


def test_an_accuracy_on_images_that_the_network_knew_is_a_warning(vit, folder, here):
    """It stood in the table as any other, and was the best one."""
    assert "Next: vit predict runs/cats/vit/20260102-120000" in vit("runs").out
    change(folder / "cats" / "vit" / "20260102-120000", seen_before=["the run old has trained on 5 of 9 test images"])
    answer = vit("runs", "--output", "runs.csv", "--page", "runs.html")
    assert "WARNING: runs/cats/vit/20260102-120000: the run old has trained on 5 of 9 test images" in answer.err
    assert "Next: vit predict runs/dogs/vit/20260103-120000" in answer.out
    assert "has trained on 5 of 9" in (here / "runs.csv").read_text()
    assert "has trained on 5 of 9" in (here / "runs.html").read_text()


def test_all_runs_newest_first(vit, folder):
    answer = vit("runs").ok()
    assert shown(answer) == [f"2026-01-0{day}" for day in (6, 5, 4, 3, 2, 1)]
    assert "95.00 % (90.00 to 100.00)" in answer.out and "stopped" in answer.out and "damaged" in answer.out
    assert answer.err.count("WARNING") == 1 and "20260106-120000 is damaged" in answer.err
    assert answer.out.splitlines()[-1] == f"Next: vit predict {folder.name}/cats/vit/20260102-120000 FOLDER_OF_IMAGES"


def test_a_config_of_a_project_hides_no_run(vit, folder):
    """The project itself was the only row, or a link to nowhere ended the command."""
    (folder / "config.yaml").symlink_to("nowhere")
    (folder / "cats" / "config.yaml").write_text("name: project")
    assert len(shown(vit("runs", folder).ok())) == 6


def test_sorted_filtered_and_limited(vit, folder):
    assert shown(vit("runs", "--sort", "accuracy"))[:4] == [f"2026-01-0{day}" for day in (2, 3, 1, 4)]
    assert shown(vit("runs", "--sort", "time"))[:4] == [f"2026-01-0{day}" for day in (4, 3, 2, 1)]
    assert shown(vit("runs", "--only", "DOGS finished")) == ["2026-01-04", "2026-01-03"]
    answer = vit("runs", "--limit", 2)
    assert len(shown(answer)) == 2 and "... and 4 more" in answer.out


def test_a_table_of_all_runs(vit, folder, here):
    assert vit("runs", folder, "--output", "all.csv").code == 0
    runs = rows(here / "all.csv")
    assert len(runs) == 6 and {row["state"] for row in runs} == {"finished", "stopped", "damaged"}
    best = next(row for row in runs if row["accuracy"] == "0.95")
    assert (best["data"], best["seconds"]) == ("cats", "90.0")
    assert vit("runs", folder, "--output", "all.csv").code == 2


@pytest.mark.parametrize("refused", [None, errno.EACCES, errno.EROFS])
def test_a_run_that_is_being_trained(folder, monkeypatch, refused):
    """Also where the lock can only be read: the folder is of another user, or on a file system without writing."""
    path = folder / "cats" / "vit" / "20260107-120000"
    begin(path)
    code = "import sys, time; from vit.checkpoints.locking import hold; from pathlib import Path\n"
    code += "file = hold(Path(sys.argv[1]), False); print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(RunDirectory(path).lock_path)], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        RunDirectory(
            folder / HOSTILE.replace("/", "_") / "cnn" / "20260105-120000"
        ).lock_path.touch()  # of a killed one
        if refused is not None:
            monkeypatch.setattr(locking, "open", partial(read_only, refused), raising=False)
        states = {run.path.name: run.state for run in list_runs(folder)}
        assert states["20260107-120000"] == "training" and states["20260105-120000"] == "stopped"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def read_only(number, path, mode="r"):
    """`open` of files that cannot be written."""
    if mode != "r":
        raise OSError(number, os.strerror(number), path)
    return open(path, mode)


def test_the_store_of_mlflow_has_no_runs(vit, folder, here):
    """Each training leaves config.yaml there. A data set may be called mlflow, cells or artifacts."""
    store = folder / "mlflow"
    for copy in (store / "artifacts" / "f3", folder / "mlflow" / "vit" / "20260107-120000"):
        begin(copy)
    (store / "mlflow.db").write_bytes(b"")
    for name in ("cells", "artifacts"):
        shutil.copytree(folder / "cats", folder / name)
    answer = vit("runs", "--output", "all.csv")
    assert answer.code == 0 and "f3" not in (here / "all.csv").read_text()
    assert len(shown(answer)) == 11


def test_runs_of_several_labels_show_their_exact_match(vit, labels_run, digits_run, folder, here):
    for name in ("20260110-120000", "20260111-120000"):
        begin(folder / "tints" / "vit" / name)
        shutil.copy(labels_run.path / "result.json", folder / "tints" / "vit" / name)
    answer = vit("runs", "--only", "tints")
    assert answer.out.splitlines()[0].split()[4:6] == ["exact", "match"]
    assert answer.out.splitlines()[-1].startswith("Next: vit predict runs/tints/vit/2026011")
    assert "accuracy or exact match" in vit("runs", "--output", "all.csv").out.splitlines()[0]
    runs = {(row["data"], row["metric"]) for row in rows(here / "all.csv")}
    assert runs >= {("tints", "exact match"), ("cats", "accuracy")}


def test_a_stopped_run_is_finished_if_it_has_a_checkpoint(vit, folder):
    run = folder / HOSTILE.replace("/", "_") / "cnn" / "20260105-120000"
    assert vit("runs", "--only", "stopped").out.splitlines()[-1] == "Next: vit train DATA"
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.ckpt").touch()
    assert "vit train --resume" in vit("runs", "--only", "stopped").out.splitlines()[-1]


def test_a_study_says_how_to_see_its_runs(vit, folder):
    answer = vit("runs", folder / "study").failed(2, f"list their runs: vit runs {folder / 'study' / 'cells'}")
    assert f"vit report {folder / 'study'}" in answer.err and "vit train DATA" not in answer.err
    vit("runs", folder / "study" / "cells").ok("stopped")


def test_no_folder_and_no_run(vit, folder):
    vit("runs", "nowhere").failed(2, "there is no folder nowhere")
    vit("runs", "--only", "horses").failed(2, "has no run with the words 'horses'")
    vit("runs", "--output", "both.csv", "--page", "both.csv").failed(2, "--page and --output are both both.csv")


@pytest.mark.slow
def test_a_thousand_runs_are_listed_in_seconds(folder):
    source = folder / "cats" / "vit" / "20260101-120000"
    for number in range(1000):
        shutil.copytree(source, folder / "many" / "vit" / f"run{number}")
    began = time.perf_counter()
    assert len(list(list_runs(folder))) == 1006
    assert time.perf_counter() - began < 10


def test_the_page_has_a_row_and_a_link_for_each_run(vit, folder, here):
    assert vit("runs", folder, "--page", "page/runs.html").code == 0
    page = Page((here / "page" / "runs.html").read_text())
    links = {one["href"] for one in page.of("a")}
    for run in ("cats/vit/20260101-120000", "dogs/vit/20260104-120000"):
        assert f"./../runs/{run}/report.html" in links
    assert all(f"{percent} %" in page.text for percent in ("50.00", "95.00", "90.00", "10.00"))


@pytest.mark.slow
def test_the_page_sorts_filters_and_links(vit, folder, here, browser):  # noqa: F811
    assert vit("runs", folder, "--page", "page/runs.html").code == 0
    page, errors = browser.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto((here / "page" / "runs.html").as_uri())

    def column(number):
        return page.locator(f"tbody tr:visible td:nth-child({number})").all_inner_texts()

    assert len(column(1)) == 6 and page.title().startswith("Runs in ")
    page.get_by_role("button", name="accuracy").click()
    assert [words[:5] for words in column(2)[:4]] == ["10.00", "50.00", "90.00", "95.00"]
    page.get_by_role("button", name="accuracy").click()
    assert [words[:5] for words in column(2)[:4]] == ["95.00", "90.00", "50.00", "10.00"]
    assert column(2)[4:] == ["", ""], "runs without an accuracy stay last"
    page.get_by_role("button", name="time").click()
    assert [words[:10] for words in column(1)[:4]] == [f"2026-01-0{day}" for day in (1, 2, 3, 4)]
    page.get_by_role("searchbox").fill("cats")
    assert column(3) == ["cats", "cats"] and page.get_by_role("status").inner_text() == "2 of 6"
    page.get_by_role("link").first.click()
    assert page.inner_text("body") == "report" and not errors
    page.close()
