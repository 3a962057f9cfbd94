"""Weights & Biases: what was recorded is read back from its files; whatever breaks is one line and training goes on."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from tests.wandb_files import elsewhere, history, kept, logs, plain  # noqa: F401  elsewhere is a fixture
from vit.training.recipes.recipe import Recipe
from vit.training.tracking import wandb_tracker
from vit.training.tracking.open import open_trackers
from vit.training.tracking.tracker import Sharing, Tracking
from vit.training.tracking.wandb_tracker import SETTINGS

KEY = "0123456789abcdef0123456789abcdef01234567"

# Enough of a W&B server for one run: GraphQL, the stream of rows, uploads. It says its port, then each request.
SERVER = r"""
import gzip, json, re, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROJECT = {"id": "p", "name": "vit", "entity": {"id": "e", "name": "somebody"}}


def answer(name, variables, host):
    if name == "Viewer":
        return {"viewer": {"id": "u", "entity": "somebody", "username": "x", "flags": "{}", "teams": {"edges": []}}}
    if name == "RunResumeStatus":
        return {"model": {**PROJECT, "bucket": json.loads(sys.argv[1])}}
    if name == "UpsertBucket":
        bucket = {"id": "b", "name": variables["name"], "displayName": "x", "description": "", "config": "{}"}
        bucket.update(sweepName=None, historyLineCount=0, project=PROJECT)
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}
    if name == "CreateRunFiles":
        files = [{"name": file, "uploadUrl": f"http://{host}/upload"} for file in variables["files"]]
        return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
    return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        try:
            content = json.loads(body or b"{}")
        except ValueError:
            content = {}
        query = re.search(r"(?:query|mutation) (\w+)", content.get("query", ""))
        print(json.dumps([self.path, query and query[1], content.get("files")]), flush=True)
        data = answer(query[1], content.get("variables", {}), self.headers["Host"]) if query else None
        reply = json.dumps({"data": data} if query else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_PUT = do_POST


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture
def notices():
    return []


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


RESUMED = {  # the server has the rows of two steps
    "id": "b", "name": "first", "displayName": "x", "summaryMetrics": "{}", "historyLineCount": 2, "eventsLineCount": 0,
    "logLineCount": 0, "historyTail": '["{\\"_step\\": 2}"]', "eventsTail": "[]", "config": "{}", "tags": [],
    "notes": None, "wandbConfig": '{"t": 1}',
}  # fmt: skip


@pytest.fixture
def server(monkeypatch, request):
    bucket = json.dumps(getattr(request, "param", None))
    process = subprocess.Popen([sys.executable, "-c", SERVER, bucket], stdout=subprocess.PIPE, text=True)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{int(process.stdout.readline())}")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


EVERYTHING = Sharing(media=True, model=True)


def begin(mode, folder, notices, config=None, group=None):
    run = Tracking(folder, folder.parent, "first", group, config or {"optim": {"lr": 0.001}}, EVERYTHING)
    return open_trackers(Recipe(wandb=mode), run, notices.append)


def text_of(folder):
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.faults("W11")
@pytest.mark.slow
def test_the_kept_id_is_that_of_a_sweep(folder, notices, monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "sweeprun1")
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep1")
    begin("offline", folder, notices).finish()
    (used,) = folder.glob("wandb/offline-run-*")
    assert used.name.endswith(f"-{(folder / 'wandb_id.txt').read_text().strip()}") and used.name.endswith("-sweeprun1")


@pytest.mark.faults("W8")
def test_what_is_tracked_is_in_the_run_folder(folder, notices, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    picture, checkpoint = tmp_path / "curve.png", tmp_path / "best.ckpt"
    Image.new("RGB", (8, 8), "red").save(picture)
    checkpoint.write_bytes(b"weights" * 1000)
    config = {
        "optim": {"lr": 0.001, "betas": (0.9, 0.95)},
        "network": {"num_tokens": 7, "qkv_bias": True},
        "data": {"hub_token": "hush-1", "sources": [{"password": "hush-2", "api_key": None}]},
    }
    tracker = begin("offline", folder, notices, config, "study")
    for step in range(3):
        tracker.log({"train/loss": 1.0 / (step + 1), "epoch": step}, step)
        tracker.log({"val/acc1": (0.5, 0.75, 0.25)[step]}, step)
        tracker.figure("figures/curve", picture)
        tracker.figure("figures/worst", picture, has_images=True)
        worst = [["photographs/a.png", 2.5], ["photographs/b.png", 1.5]]
        tracker.table("val/worst", ["path", "loss"], worst, has_images=True)
        tracker.confusion_matrix("val/confusion", [0, 1, 1, -1], [0, 0, 1, 1], ["cat", "dog"])
    tracker.summary({"val/acc1": 0.75})
    tracker.artifact(checkpoint, "best of first", {"val/acc1": 0.75, "token": "hush-3"})
    tracker.finish()
    tracker.finish()
    tracker.log({"train/loss": 9.0}, 9)

    (run,) = kept(folder, "run")
    assert run.run_id == (folder / "wandb_id.txt").read_text().strip()
    assert (run.project, run.display_name, run.run_group, run.job_type) == ("vit", "first", "study", "cell")
    assert run.host == ""
    found = plain(run.config.update)
    assert found["optim"] == {"lr": 0.001, "betas": [0.9, 0.95]}
    assert found["network"] == {"num_tokens": 7, "qkv_bias": True}
    hidden = "(not uploaded)"
    assert found["data"] == {"hub_token": hidden, "sources": [{"password": hidden, "api_key": None}]}

    rows = history(folder)
    assert [row["_step"] for row in rows] == [0, 1, 2]
    assert [row["train/loss"] for row in rows] == [1.0, 1 / 2, 1 / 3]
    assert [row["val/acc1"] for row in rows] == [0.5, 0.75, 0.25]
    assert [row["val/worst/nrows"] for row in rows] == [2] * 3
    assert [row["val/confusion_table/nrows"] for row in rows] == [4] * 3
    summary = {}
    for update in kept(folder, "summary"):
        summary.update(plain(update.update))
    assert summary["val/acc1"] == 0.75
    assert summary["train/loss"] == 1 / 3

    artifacts = kept(folder, "artifact")
    (model,) = [artifact for artifact in artifacts if artifact.type == "model"]
    assert model.name == "best-of-first"
    assert json.loads(model.metadata) == {"val/acc1": 0.75, "token": hidden}
    assert [entry.local_path for entry in model.manifest.contents] == [str(checkpoint)]
    tables = [artifact for artifact in artifacts if artifact.type == "run_table"]
    assert all(str(folder) in entry.local_path for table in tables for entry in table.manifest.contents)

    everything = text_of(folder)
    assert b"hush" not in everything
    assert KEY.encode() not in everything
    assert len(notices) == 1
    assert notices[0].startswith("Weights & Biases is offline (as asked)")


@pytest.mark.faults("W5")
def test_a_resumed_training_is_the_same_run(folder, notices):
    for step in (1, 2):
        tracker = begin("offline", folder, notices)
        tracker.log({"train/loss": 1.0}, step)
        tracker.finish()
    runs = kept(folder, "run")
    assert len(runs) == 2
    assert {run.run_id for run in runs} == {(folder / "wandb_id.txt").read_text().strip()}
    assert all(run.resume for run in runs)
    assert [row["_step"] for row in history(folder)] == [1, 2]


def test_a_run_left_open_is_not_taken_for_the_next(folder, notices, tmp_path):
    begin("offline", folder, notices)
    tracker = begin("offline", tmp_path / "next", notices)
    tracker.log({"train/loss": 1.0}, 0)
    tracker.finish()
    assert len(history(tmp_path / "next")) == 1
    assert history(folder) == []


def test_large_confusion_matrices_are_left_to_the_picture(folder, notices):
    tracker = begin("offline", folder, notices)
    tracker.confusion_matrix("many/classes", [0], [0], [str(index) for index in range(61)])
    tracker.confusion_matrix("many/rows", [0] * 10_001, [0] * 10_001, ["cat", "dog"])
    tracker.finish()
    assert history(folder) == []
    assert len(notices) == 1


@pytest.mark.faults("W1")
def test_not_logged_in_is_offline_with_one_notice(folder, notices):
    tracker = begin("auto", folder, notices)
    tracker.log({"train/loss": 1.0}, 0)
    tracker.finish()
    (line,) = notices
    assert "not logged in" in line
    assert "\n" not in line
    assert line.endswith(f"wandb sync {logs(folder)[0].parent}")
    assert len(history(folder)) == 1


def test_a_login_in_netrc_counts(folder, notices, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1:9 login user password {KEY}\n")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    begin("auto", folder, notices).finish()
    (line,) = notices
    assert "no connection to 127.0.0.1" in line
    assert KEY.encode() not in text_of(folder)


def test_the_old_address_in_netrc_counts(monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text(f"machine api.wandb.ai login user password {KEY}\n")
    assert wandb_tracker._in_netrc("api.forge.coreweave.com")
    assert not wandb_tracker._in_netrc("wandb.example.org")


@pytest.mark.faults("W1")
@pytest.mark.parametrize("mode", ["auto", "online"])
def test_an_unreachable_server_is_offline_within_seconds(mode, folder, notices, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    start = time.monotonic()
    tracker = begin(mode, folder, notices)
    assert time.monotonic() - start < 10
    tracker.log({"train/loss": 1.0}, 0)
    tracker.finish()
    (line,) = notices
    assert "no connection to 127.0.0.1" in line
    assert f"wandb sync {folder}" in line
    assert len(history(folder)) == 1
    assert KEY.encode() not in text_of(folder)


@pytest.mark.faults("W1")
def test_a_server_that_never_answers_is_offline(folder, notices, monkeypatch):
    monkeypatch.setitem(SETTINGS, "init_timeout", 1.0)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        tracker = begin("online", folder, notices)
    tracker.log({"train/loss": 1.0}, 0)
    tracker.finish()
    (line,) = notices
    assert line.startswith("Weights & Biases is offline (CommError")
    assert "\n" not in line
    assert len(history(folder)) == 1


def test_a_key_that_is_none_is_offline(folder, notices, server, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "short")
    begin("online", folder, notices).finish()
    (line,) = notices
    assert line.startswith("Weights & Biases is offline (AuthenticationError")


def test_a_proxy_is_what_must_answer(folder, notices, server, monkeypatch):
    monkeypatch.setenv("http_proxy", "127.0.0.1:9")
    begin("online", folder, notices).finish()
    (line,) = notices
    assert "no connection to 127.0.0.1" in line


def test_wandb_mode_is_heard_by_auto_alone(folder, notices, server, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert begin("auto", folder, notices).trackers == {}
    assert not folder.exists()
    monkeypatch.setenv("WANDB_MODE", "offline")
    begin("auto", folder, notices).finish()
    assert notices[0].startswith("Weights & Biases is offline (WANDB_MODE=offline)")
    begin("online", folder, notices).finish()
    assert notices[1].startswith("Weights & Biases: http")


@pytest.mark.faults("W8")
def test_online_rows_arrive_and_the_key_stays_out_of_files(folder, notices, server):
    tracker = begin("auto", folder, notices)
    for step in range(3):
        tracker.log({"train/loss": float(step)}, step)
    tracker.finish()
    server.kill()
    requests = [json.loads(line) for line in server.stdout]
    sent = [files["wandb-history.jsonl"]["content"] for _, _, files in requests if "history" in str(files)]
    assert [json.loads(row)["train/loss"] for rows in sent for row in rows] == [0, 1, 2]
    (line,) = notices
    assert re.fullmatch(r"Weights & Biases: http://127.0.0.1:\d+/somebody/vit/runs/\w+", line)
    assert not any("otel" in path for path, _, _ in requests)
    assert KEY.encode() not in text_of(folder)


@pytest.mark.faults("W5")
@pytest.mark.parametrize("server", [RESUMED], indirect=True)
def test_a_resumed_run_gets_the_rows_that_a_kill_kept_from_the_server(folder, notices, server):
    """They stayed missing. The row of step 4 has two parts, of which this process logs the second one."""
    folder.mkdir()
    (folder / "metrics.csv").write_text("step,train/loss,val/loss\n1,1.0,\n2,2.0,\n3,3.0,\n4,4.0,\n4,,0.5\n5,5.0,\n")
    tracker = begin("online", folder, notices)
    tracker.log({"val/loss": 0.5}, 4)
    tracker.log({"train/loss": 5.0}, 5)
    tracker.finish()
    server.kill()
    requests = [json.loads(line) for line in server.stdout]
    parts = [files["wandb-history.jsonl"] for _, _, files in requests if "history" in str(files)]
    sent = [json.loads(row) for part in parts for row in part["content"]]
    assert parts[0]["offset"] == 2 and len(notices) == 1
    assert [(row["_step"], row.get("train/loss"), row.get("val/loss")) for row in sent] == [
        (3, 3.0, None), (4, 4.0, 0.5), (5, 5.0, None)
    ]  # fmt: skip


@pytest.mark.faults("W5")
def test_an_offline_part_repeats_no_row(folder, notices):
    """`wandb sync` appends the parts of a run to each other."""
    folder.mkdir()
    (folder / "wandb_id.txt").write_text("0123abcd\n")
    (folder / "metrics.csv").write_text("step,train/loss\n1,1.0\n2,2.0\n")
    tracker = begin("offline", folder, notices)
    tracker.log({"train/loss": 2.0}, 2)
    tracker.finish()
    assert [row["_step"] for row in history(folder)] == [2]


@pytest.mark.faults("W2", "W3")
@pytest.mark.slow
def test_a_server_that_dies_does_not_hold_up_the_end(folder, notices, server, monkeypatch):
    assert SETTINGS["finish_timeout"] < 60
    monkeypatch.setitem(SETTINGS, "finish_timeout", 2.0)
    tracker = begin("auto", folder, notices)
    tracker.log({"train/loss": 0.0}, 0)
    server.kill()
    server.wait()
    start = time.monotonic()
    for step in range(1, 20):
        tracker.log({"train/loss": 1.0}, step)
    assert time.monotonic() - start < 1
    tracker.finish()
    assert time.monotonic() - start < 15
    assert len(notices) == 2
    assert "TimeoutError" in notices[1]
    assert notices[1].endswith(f"wandb sync {logs(folder)[0].parent}")
    assert [row["_step"] for row in history(folder)] == list(range(20))


@pytest.mark.faults("W3")
@pytest.mark.slow
def test_an_end_that_never_comes_is_left_behind(folder):
    program = f"""
import os, signal, time
from pathlib import Path
from vit.training.tracking import wandb_tracker
from vit.training.tracking.tracker import NUMBERS_ALONE, Tracking
wandb_tracker.FINISH_SECONDS = 1.0
run = Tracking(Path({str(folder)!r}), Path(), "first", None, {{}}, NUMBERS_ALONE)
tracker = wandb_tracker.open_wandb("offline", run, print)
os.kill(tracker._session._connection._proc._process.pid, signal.SIGSTOP)
tracker.finish()
"""
    lines = run_python(program, seconds=20)
    assert len(lines) == 2
    assert lines[1].startswith("Weights & Biases lacks the end (no answer); upload it with: wandb sync ")


@pytest.mark.faults("W7", simulated="wandb's log raises the error")
def test_the_first_error_is_one_warning_and_the_last_word(folder, notices, monkeypatch, tmp_path):
    import wandb

    tracker = begin("offline", folder, notices)
    tracker.log({"train/loss": 1.0}, 0)

    def full(*_, **__):
        raise OSError("No space left\non device")

    monkeypatch.setattr(wandb.Run, "log", full)
    for step in range(1, 4):
        tracker.log({"train/loss": 1.0}, step)
        tracker.figure("figures/curve", tmp_path / "none.png")
    tracker.summary({"val/acc1": 1.0})
    tracker.artifact(tmp_path / "none.ckpt", "best", {})
    tracker.finish()
    assert len(notices) == 2
    assert notices[1].startswith("Weights & Biases stopped (OSError: No space left on device); training goes on")


@pytest.mark.parametrize("method", ["figure", "confusion_matrix", "artifact"])
def test_what_cannot_be_shown_is_one_warning(method, folder, notices, tmp_path):
    tracker = begin("offline", folder, notices)
    missing = tmp_path / "none.png"
    arguments = {
        "figure": ("figures/curve", missing),
        "confusion_matrix": ("val/confusion", [0, 1], [0], ["cat", "dog"]),
        "artifact": (missing, "best", {}),
    }
    getattr(tracker, method)(*arguments[method])
    tracker.finish()
    assert len(notices) == 2
    assert notices[1].startswith("Weights & Biases stopped (")


@pytest.mark.faults("W9", simulated="the import of wandb fails")
def test_without_wandb_training_goes_on(folder, notices, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    tracker = begin("auto", folder, notices)
    assert tracker.trackers == {}
    tracker.log({"train/loss": 1.0}, 0)
    tracker.finish()
    (line,) = notices
    assert line.startswith("Weights & Biases cannot be used (ModuleNotFoundError")
    assert not folder.exists()


@pytest.mark.faults("W6")
def test_off_writes_nothing_and_does_not_import_wandb(folder):
    program = f"""
import sys
from pathlib import Path
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.open import open_trackers
from vit.training.tracking.tracker import NUMBERS_ALONE, Tracking
run = Tracking(Path({str(folder)!r}), Path(), "first", None, {{}}, NUMBERS_ALONE)
tracker = open_trackers(Recipe(wandb="off"), run, print)
tracker.log({{"train/loss": 1.0}}, 0)
tracker.figure("figures/curve", Path("none.png"))
tracker.table("val/worst", ["path"], [], has_images=True)
tracker.confusion_matrix("val/confusion", [0], [0], ["cat"])
tracker.summary({{"val/acc1": 1.0}})
tracker.artifact(Path("none.ckpt"), "best", {{}})
tracker.finish()
assert "wandb" not in sys.modules
"""
    assert run_python(program) == []
    assert not folder.exists()


def run_python(program, seconds=60):
    environment = {**os.environ, "PYTHONPATH": str(Path(wandb_tracker.__file__).parents[3])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
