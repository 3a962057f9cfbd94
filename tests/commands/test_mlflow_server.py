"""A real `mlflow server` on the loopback: killed and started again in the middle of a training."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.installed import skip_without
from tests.mlflow_store import client_of
from vit.commands.training import train_progress
from vit.csv_files import records

skip_without("mlflow", "the extra 'mlflow' is not installed")
pytest.importorskip("flask", reason="`mlflow server` needs the whole of MLflow: pip install mlflow")

pytestmark = pytest.mark.slow

SMALL = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--data.num_workers", 0,
    "--epochs", 3, "--batch_size", 8, "--checkpoint_every", "0s", "--tracker", "mlflow",
)  # fmt: skip


class Server:
    def __init__(self, folder):
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        store = ("--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}")
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--workers", "1")
        with open(self.folder / "log.txt", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *store, "--artifacts-destination", "a", *words],
                cwd=self.folder, env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 180
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.5)
        raise TimeoutError((self.folder / "log.txt").read_text())

    def kill(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def steps(self, name):
        """Steps of a metric in the database, which the server need not be running for."""
        query = "select step from metrics where key = ? order by step"
        with sqlite3.connect(self.folder / "mlflow.db") as database:
            return [step for (step,) in database.execute(query, [name])]


@pytest.fixture
def server(mlflow_out, tmp_path, monkeypatch):
    folder = tmp_path / "server"
    folder.mkdir()
    one = Server(folder)
    one.start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", one.uri)
    yield one
    one.kill()


@pytest.fixture
def at_step(monkeypatch):
    """`at_step({5: action})` carries actions out when a training has done so many steps."""
    step = train_progress.TrainProgress.step

    def set_actions(actions):
        def act(progress, done, *rest):
            step(progress, done, *rest)
            if done in actions:
                actions.pop(done)()

        monkeypatch.setattr(train_progress.TrainProgress, "step", act)

    return set_actions


def steps_of(run, name):
    return [int(row["step"]) for row in records(run / "metrics.csv") if row[name]]


def said(answer):
    return [line for line in answer.err.splitlines() if "mlflow" in line.lower()]


@pytest.mark.faults("T23")
def test_a_server_that_dies_is_one_warning_at_the_end(vit, colors, tmp_path, server, at_step, caplog):
    def die():
        until = time.monotonic() + 60
        while server.steps("lr")[-1:] != [5] and time.monotonic() < until:
            time.sleep(0.1)  # the rows so far arrive
        server.kill()

    at_step({5: die})
    began = time.monotonic()
    answer = vit("train", colors, *SMALL, "--out", tmp_path / "out").ok()
    assert said(answer) == ["MLflow stopped (ConnectionError: no connection to 127.0.0.1); training goes on without it"]
    assert time.monotonic() - began < 100
    (result,) = (tmp_path / "out").glob("*/*/*/result.json")
    assert max(steps_of(result.parent, "lr")) > 8
    written = steps_of(result.parent, "lr")
    assert server.steps("lr") == written[: len(server.steps("lr"))] and server.steps("lr")[-1] == 5
    assert "Retrying" not in caplog.text


@pytest.mark.faults("T24")
def test_a_server_that_comes_back_gets_what_it_lacks_and_a_model(vit, colors, tmp_path, server, at_step):
    at_step({4: server.kill, 7: server.start})
    answer = vit("train", colors, *SMALL, "--out", tmp_path / "out", "--mlflow.register", "colors", drawn=True)
    assert answer.code == 0 and said(answer) == [], answer.err
    (result,) = (tmp_path / "out").glob("*/*/*/result.json")
    for name in ("lr", "val/loss", "train/loss"):
        assert server.steps(name) == steps_of(result.parent, name)
    client, run = client_of(server.uri), (result.parent / "mlflow_run.txt").read_text().strip()
    assert client.get_run(run).info.status == "FINISHED"
    (model,) = client.search_model_versions("name='colors'")
    assert model.run_id == run
    names = {file.path for file in client.list_artifacts(run, "figures")}
    assert "figures/curves.png" in names and "figures/worst.png" not in names
    assert {file.path for file in client.list_artifacts(run, "model")} >= {"model/MLmodel", "model/data"}


@pytest.mark.faults("T25")
def test_a_resumed_training_goes_on_in_the_same_run(vit, colors, tmp_path, server, at_step):
    def die():
        server.start()
        raise RuntimeError("killed")

    at_step({4: server.kill, 7: die})
    answer = vit("train", colors, *SMALL, "--out", tmp_path / "out")
    assert answer.code == 1 and "killed" in answer.err
    (config,) = (tmp_path / "out").glob("*/*/*/config.yaml")
    answer = vit("train", "--resume", config.parent)
    assert answer.code == 0 and said(answer) == [], answer.err
    for name in ("lr", "val/loss", "train/loss"):
        assert server.steps(name) == steps_of(config.parent, name)
    client = client_of(server.uri)
    (run,) = client.search_runs([client.get_experiment_by_name("vit").experiment_id])
    assert run.info.run_id == (config.parent / "mlflow_run.txt").read_text().strip()
    assert run.info.status == "FINISHED"
