"""MLflow with a store on this machine: what was logged is read back by its own client."""

import socket
import time

import pytest
from PIL import Image

from tests.installed import skip_without
from tests.mlflow_store import client_of
from vit.csv_files import new_table, read_table
from vit.extras.mlflow import tracker
from vit.extras.mlflow.tracker import MlflowAddress
from vit.inference.predictor import load
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.open import open_trackers
from vit.training.tracking.tracker import NUMBERS_ALONE, Sharing, Tracking

skip_without("mlflow", "the extra 'mlflow' is not installed")
skip_without("sqlalchemy", "the extra 'mlflow' is not installed")

EVERYTHING = Sharing(media=True, model=True)


@pytest.fixture(autouse=True)
def run_folder(tmp_path):
    (tmp_path / "run").mkdir()


@pytest.fixture
def begin(mlflow_out, tmp_path):
    """`begin(config, sharing, register)` -> a tracker of the run in the folder `run`."""

    def make(config=None, sharing=EVERYTHING, register=None):
        run = Tracking(tmp_path / "run", mlflow_out, "first", "study", config or {"seed": 0}, sharing)
        return tracker.MlflowTracker(run, register)

    return make


def read(mlflow_out, tmp_path):
    client = client_of(MlflowAddress.below(mlflow_out).uri)
    run = client.get_run((tmp_path / "run" / "mlflow_run.txt").read_text().strip())
    return client, run


def points(client, run, name):
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]


def write_metrics(path, rows):
    with new_table(path, ("step", "train/loss", "val/acc1")) as table:
        for row in rows:
            table.row(row)


def test_what_is_logged_can_be_read(begin, mlflow_out, tmp_path):
    picture, checkpoint = tmp_path / "curves.png", tmp_path / "best.ckpt"
    Image.new("RGB", (8, 8), "red").save(picture)
    checkpoint.write_bytes(b"weights")
    weights = {"=cat (ill)": 2.0}
    config = {
        "optim": {"lr": 0.001, "steps": None, "class_weights": weights},
        "data": {"source": "/home/somebody/clinic", "hub_token": "hush"},
    }
    tracker = begin(config, Sharing(media=True))
    for step in (1, 2):
        tracker.log({"train/loss": 1.0 / step, "val/acc1": float("nan")}, step)
    tracker.figure("figures/curves", picture)
    tracker.table("results", ["series", "error"], [["=vit", 0.25], ["cnn", None]])
    tracker.confusion_matrix("test/confusion", [0, 1, 1, -1], [0, 0, 1, 1], ["cat", "dog"])
    tracker.summary({"test/acc1": 0.75, "test/acc1_low": 0.5})
    tracker.artifact(checkpoint, "best", {})  # not asked for
    tracker.finish()
    client, run = read(mlflow_out, tmp_path)
    assert run.info.status == "FINISHED" and run.info.run_name == "first" and run.data.tags["study"] == "study"
    assert run.info.user_id == "unknown" and not [tag for tag in run.data.tags if "source" in tag or "user" in tag]
    assert points(client, run, "train/loss") == [(1, 1.0), (2, 0.5)]
    assert points(client, run, "test/acc1") == [(2, 0.75)] and points(client, run, "test/acc1_low") == [(2, 0.5)]
    assert run.data.params == {
        "optim.lr": "0.001", "optim.steps": "null", "optim.class_weights._cat _ill_": "2.0",
        "data.source": ".../clinic", "data.hub_token": "(not uploaded)",
    }  # fmt: skip
    (artifacts,) = (mlflow_out / "mlflow" / "artifacts").glob("*/artifacts")
    assert artifacts.parent.name == run.info.run_id
    files = {path.relative_to(artifacts).as_posix() for path in artifacts.rglob("*") if path.is_file()}
    assert files == {
        "figures/curves.png", "results.csv", "test/confusion.csv", "config.yaml",
    }  # fmt: skip
    assert read_table(artifacts / "results.csv")[1] == [["=vit", "0.25"], ["cnn", ""]]
    assert [row[1:] for row in read_table(artifacts / "test" / "confusion.csv")[1]] == [["1", "0"], ["1", "1"]]
    everything = b"".join(path.read_bytes() for path in (mlflow_out / "mlflow").rglob("*") if path.is_file())
    assert b"hush" not in everything and b"somebody" not in everything


@pytest.mark.faults("T25")
def test_a_resumed_training_is_the_same_run_without_a_gap_or_a_repeated_step(begin, mlflow_out, tmp_path):
    metrics = tmp_path / "run" / "metrics.csv"
    first = begin()
    for step in (10, 20):
        first.log({"train/loss": float(step)}, step)
    first.interrupt()  # killed after step 40, but the server was away since step 20; the checkpoint is of step 30
    client, run = read(mlflow_out, tmp_path)
    assert run.info.status == "KILLED"
    write_metrics(metrics, [(10, 10.0, None), (20, 20.0, None), (20, 19.0, 0.5), (30, 30.0, None), (40, 40.0, None)])
    second = begin({"seed": 0, "optim": {"accumulate": 2}})
    second.log({"train/loss": 40.0}, 40)
    second.log({"train/loss": 50.0, "val/acc1": 0.75}, 50)
    second.configure({"seed": 1, "optim": {"accumulate": 4}})
    second.finish()
    assert len(client.search_runs([run.info.experiment_id])) == 1
    run = client.get_run(run.info.run_id)
    assert run.info.status == "FINISHED"
    assert points(client, run, "train/loss") == [(step, float(step)) for step in (10, 20, 30, 40, 50)]
    assert points(client, run, "val/acc1") == [(20, 0.5), (50, 0.75)]
    assert run.data.params == {"seed": "0", "optim.accumulate": "2"}
    (config,) = (mlflow_out / "mlflow" / "artifacts").glob("*/artifacts/config.yaml")
    assert "accumulate: 4" in config.read_text()


def test_a_run_that_the_server_does_not_have_is_a_new_one_with_all_rows(begin, mlflow_out, tmp_path):
    (tmp_path / "run" / "mlflow_run.txt").write_text("0123456789abcdef0123456789abcdef\n")
    write_metrics(tmp_path / "run" / "metrics.csv", [(10, 10.0, None), (20, 20.0, 0.5)])
    tracker = begin()
    tracker.log({"train/loss": 20.0, "val/acc1": 0.5}, 20)
    tracker.finish()
    client, run = read(mlflow_out, tmp_path)
    assert points(client, run, "train/loss") == [(10, 10.0), (20, 20.0)]


@pytest.mark.parametrize(("is_local", "sharing"), [(True, NUMBERS_ALONE), (False, NUMBERS_ALONE), (False, EVERYTHING)])
def test_pictures_of_images_leave_the_machine_only_if_asked(
    begin, mlflow_out, tmp_path, monkeypatch, is_local, sharing
):
    picture = tmp_path / "worst.png"
    Image.new("RGB", (8, 8), "red").save(picture)
    monkeypatch.setattr(MlflowAddress, "is_local", is_local)
    tracker = begin(sharing=sharing)
    tracker.figure("figures/worst", picture, has_images=True)
    tracker.table("validation/worst", ["path"], [["patient-1.png"]], has_images=True)
    tracker.artifact(picture, "best", {})
    tracker.finish()
    found = {path.name for path in (mlflow_out / "mlflow" / "artifacts").rglob("*") if path.is_file()}
    pictures = {"worst.png", "worst.csv"}
    assert found & pictures == (pictures if is_local or sharing.media else set())
    assert any(path.parent.name == "checkpoints" for path in mlflow_out.rglob("worst.png")) == sharing.model


def test_an_address_has_no_password_on_the_terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://somebody:hush@mlflow.example.org:5000/base")
    address = MlflowAddress.below(tmp_path)
    assert address.describe() == "https://mlflow.example.org:5000/base"
    assert not address.is_local


@pytest.mark.faults("T22")
@pytest.mark.parametrize("problem", ["ConnectionError: no connection to 127.0.0.1", "TimeoutError: no answer in 1 s"])
def test_a_server_that_cannot_be_reached_is_one_warning_within_seconds(mlflow_out, tmp_path, monkeypatch, problem):
    monkeypatch.setattr(tracker, "START_SECONDS", 1.0)
    notices, began = [], time.monotonic()
    told = Tracking(tmp_path / "run", mlflow_out, "first", None, {}, NUMBERS_ALONE)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if problem.startswith("Timeout") else 9
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        assert open_trackers(Recipe(tracker="mlflow"), told, notices.append).trackers == {}
    assert time.monotonic() - began < 10
    assert notices == [f"MLflow cannot be used ({problem}); training goes on without it"]


@pytest.mark.filterwarnings("ignore")  # of MLflow, about its own types
@pytest.mark.slow
def test_a_registered_model_predicts_what_the_checkpoint_predicts(begin, mlflow_out, tmp_path, digits_run):
    import pandas as pd
    from mlflow import pyfunc

    for version in (1, 2):
        tracker = begin(sharing=NUMBERS_ALONE, register="digits")
        tracker.artifact(digits_run.best, "digits-vit", {})
        tracker.finish()
        client, run = read(mlflow_out, tmp_path)
        (newest, *_) = client.search_model_versions("name='digits'")
        assert (int(newest.version), newest.run_id) == (version, run.info.run_id)
    (folder,) = (mlflow_out / "mlflow" / "artifacts").glob("*/artifacts/model")
    assert newest.source.endswith(f"{run.info.run_id}/artifacts/model")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert "data/best.ckpt" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".py"))]

    model = pyfunc.load_model(str(folder.rename(tmp_path / "model")))  # MLflow takes a path for an address
    assert [(column.name, column.type.name) for column in model.metadata.get_input_schema()] == [("image", "binary")]
    images = []
    for shade in (0, 200):
        picture = tmp_path / f"{shade}.png"
        Image.new("L", (20, 20), shade).save(picture)
        images.append(picture)
    table = pd.DataFrame({"image": [*(picture.read_bytes() for picture in images), b"no image"]})
    found = model.predict(table)
    expected = list(load(digits_run.path).predict(images))
    assert found["label"].tolist() == [*(one.label for one in expected), ""]
    assert found["probability"].tolist()[:2] == pytest.approx([one.probability for one in expected], abs=1e-6)
    assert found["status"].tolist() == ["ok", "ok", "not_image"]
