"""The run folder: new every time, inside OUT whatever it is called, written whole."""

import json
import multiprocessing
import os
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.atomic_files import write_json
from vit.checkpoints.locking import hold
from vit.checkpoints.result import versions
from vit.checkpoints.run import RunDirectory, check_finished, checkpoint_of, slug
from vit.errors import CheckpointError, DataError, ResourceError, UsageError

HOSTILE = ["../../etc", "/etc/passwd", "..", ".", "", "a/../../b", "con\x00", "-rf", ".hidden", "ü" * 300, "a\nb", "~"]


@pytest.mark.faults("H4")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_inside_out(tmp_path, name):
    out = tmp_path / "runs"
    run = RunDirectory.create(str(out), name, name, name)
    assert run.path.resolve().is_relative_to(out.resolve())
    assert len(run.path.relative_to(out).parts) == 3
    assert os.listdir(tmp_path) == ["runs"] and os.listdir(run.path) == []
    assert not any(part.startswith((".", "-")) for part in run.path.relative_to(out).parts)


def test_an_unfinished_pretraining_says_how_many_epochs_are_trained(tmp_path):
    """Its metrics.csv has no validation loss, and nothing seemed to say it."""
    run = RunDirectory(tmp_path)
    run.config_path.write_text("method: diet\noptim: {epochs: 4, steps: null}\n")
    run.metrics_path.write_text("epoch,step,train/loss,val/knn_acc1\n0,0,,0.5\n0,4,3.5,0.6\n1,6,,\n")
    assert run.lacking.startswith("1 of 4 epochs")


@pytest.mark.faults("H4", "F6")
@given(st.text())
def test_a_slug_is_one_harmless_part_of_a_path(name):
    made = slug(name)
    assert 0 < len(made) <= 80 and made.isascii()
    assert not set(made) & set("/\\\0 \n") and made not in {".", ".."} and made[0] not in ".-"


@pytest.mark.faults("K6")
@pytest.mark.faults("R15", simulated="time.strftime gives one answer")
def test_a_folder_is_never_used_again(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-120000")
    made = [RunDirectory.create(str(tmp_path), "data", "net", None).path for _ in range(3)]
    assert [path.name for path in made] == ["20260101-120000", "20260101-120000-2", "20260101-120000-3"]
    named = RunDirectory.create(str(tmp_path), "data", "net", "my try").path
    assert named.name == "20260101-120000-my-try"
    assert named.parent == tmp_path / "data" / "net"


@pytest.mark.faults("K8")
def test_out_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert RunDirectory.create("~/runs", "data", "net", None).path.is_relative_to(tmp_path / "runs")


@pytest.mark.faults("F1")
@pytest.mark.parametrize("place", ["file", "file/below", "file/below/further"])
def test_a_place_that_cannot_be_written_is_a_resource_error(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot write to"):
        RunDirectory.create(str(tmp_path / place), "data", "net", None)


@pytest.mark.faults("F1", simulated="os.fsync fails")
def test_a_full_disk_shows_at_once(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match="No space left"):
        RunDirectory.create(str(tmp_path), "data", "net", None)


def test_only_a_run_can_be_opened(tmp_path):
    with pytest.raises(UsageError, match="not a run folder"):
        RunDirectory.open(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    assert RunDirectory.open(tmp_path).path == tmp_path


def test_a_run_stands_for_its_best_checkpoint(tmp_path):
    run = RunDirectory(tmp_path)
    (tmp_path / "openvino_model.xml").touch()
    with pytest.raises(CheckpointError, match=r"give .*openvino_model\.xml"):
        checkpoint_of(tmp_path)
    run.last_path.parent.mkdir()
    run.last_path.touch()
    assert checkpoint_of(tmp_path) == run.last_path
    run.best_path.touch()
    assert checkpoint_of(tmp_path) == run.best_path
    assert checkpoint_of(run.last_path) == run.last_path


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "result.json"
    write_json(path, {"name": "ü", "values": [1, 2.5]})
    assert json.loads(path.read_text()) == {"name": "ü", "values": [1, 2.5]}
    with pytest.raises(TypeError):
        write_json(path, {"values": object()})
    assert json.loads(path.read_text())["values"] == [1, 2.5]
    assert os.listdir(tmp_path) == ["result.json"]


def test_versions_name_what_decides_a_number():
    assert {"python", "torch", "torchvision", "timm", "numpy", "pillow"} <= set(versions())
    assert all(versions().values())


def _try_to_hold(run, answers):
    try:
        with run.held():
            answers.put("held")
    except ResourceError:
        answers.put("refused")


@pytest.mark.faults("R7")
@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_a_lock_is_not_freed_by_asking_for_it(tmp_path):
    """POSIX frees all locks of a file when the process closes it, whoever opened it."""
    run, context = RunDirectory(tmp_path), multiprocessing.get_context("forkserver")

    def asked_elsewhere():
        answers = context.SimpleQueue()
        process = context.Process(target=_try_to_hold, args=(run, answers))
        process.start()
        process.join(30)
        return answers.get()

    with run.held():
        assert run.is_held()
        with pytest.raises(ResourceError), run.held():  # another thread of this process
            pass
        assert asked_elsewhere() == "refused"
    assert not run.is_held() and asked_elsewhere() == "held"


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".lock").symlink_to("notes.txt")
    with pytest.raises(OSError, match="symbolic"):
        hold(tmp_path / ".lock", wait=False)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_config_of_a_project_is_not_that_of_a_run(tmp_path):
    """Its checkpoints are whole: the copy of a finished one was refused as unfinished."""
    (tmp_path / "config.yaml").write_text("name: project")
    assert check_finished(tmp_path / "models" / "best.ckpt", unfinished=False) == ""


def test_a_config_that_is_not_text_is_an_error_of_data(tmp_path):
    (tmp_path / "config.yaml").write_bytes(b"\xff")
    with pytest.raises(DataError, match="UTF-8"):
        checkpoint_of(tmp_path)
