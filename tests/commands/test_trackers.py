"""`--tracker` of trainings and studies: what TensorBoard and MLflow have afterwards equals metrics.csv."""

import math
from pathlib import Path

import pytest

from tests.extras.test_tensorboard_tracker import read, text  # which skips where TensorBoard is not installed
from tests.installed import skip_without
from tests.mlflow_store import client_of
from vit.csv_files import read_table, records
from vit.extras.mlflow.tracker import MlflowAddress

skip_without("mlflow", "the extra 'mlflow' is not installed")
skip_without("sqlalchemy", "the extra 'mlflow' is not installed")

SMALL = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--data.num_workers", 0)


def recorded(run):
    """{name: [(step, value)]} of metrics.csv."""
    found = {}
    for row in records(run / "metrics.csv"):
        for name, value in row.items():
            if name != "step" and value:
                found.setdefault(name, []).append((int(row["step"]), float(value)))
    return found


def near(one, other):
    return [step for step, _ in one] == [step for step, _ in other] and all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-7)  # TensorBoard keeps 32 bits
        for (_, a), (_, b) in zip(one, other, strict=True)
    )


@pytest.mark.slow
def test_trackers_have_the_rows_of_metrics_csv(vit, colors, mlflow_out):
    answer = vit(
        "train", colors, *SMALL, "--epochs", 2, "--tracker", "tensorboard,mlflow", "--out", mlflow_out, drawn=True
    )
    assert answer.code == 0 and not any(name in answer.err for name in ("TensorBoard", "MLflow", "mlflow")), answer.err
    assert [line.split()[1] for line in answer.out.splitlines() if line.startswith("  W&B")] == ["off"]
    (config,) = mlflow_out.glob("*/*/*/config.yaml")
    rows, client = recorded(config.parent), client_of(MlflowAddress.below(mlflow_out).uri)
    run = (config.parent / "mlflow_run.txt").read_text().strip()
    events = read(config.parent / "tensorboard")
    assert len(rows["val/loss"]) == 2
    for name, expected in rows.items():
        scalars = [(point.step, point.value) for point in events.Scalars(name)]
        assert near(scalars, expected), name
        assert near([(point.step, point.value) for point in client.get_metric_history(run, name)], expected), name
    result = client.get_run(run)
    assert result.info.status == "FINISHED"
    final = result.data.metrics
    assert final["test/acc1_low"] <= final["test/acc1"] <= final["test/acc1_high"]
    assert events.Scalars("test/acc1")[0].value == pytest.approx(final["test/acc1"])
    figures = {path.stem for path in (config.parent / "figures").glob("*.png")}
    assert {"curves", "confusion_matrix", "worst"} <= figures
    assert {name.removeprefix("figures/") for name in events.Tags()["images"]} == figures
    assert {Path(file.path).stem for file in client.list_artifacts(run, "figures")} == figures
    assert "| path | label |" in text(events, "validation/worst")[0]


@pytest.mark.slow
def test_a_study_has_its_tables_in_its_trackers(vit, colors, mlflow_out):
    vit(
        "study", colors, "--networks", "vit_nano_patch2_8", "--sizes", "all", "--seeds", 2, "--budget", "steps:2",
        "--set", "model.network.depth=1", "--set", "model.preprocess.image_size=8", "--jobs", 1,
        "--tracker", "tensorboard,mlflow", "--out", mlflow_out.parent, "--name", mlflow_out.name,
    ).ok()  # fmt: skip
    client = client_of(MlflowAddress.below(mlflow_out).uri)
    runs = client.search_runs([client.get_experiment_by_name("vit").experiment_id])
    assert {run.data.tags["study"] for run in runs} == {mlflow_out.name} and len(runs) == 3
    assert {run.info.status for run in runs} == {"FINISHED"}
    cells = [file.parent for file in mlflow_out.glob("cells/*/*/*/mlflow_run.txt")]
    assert len(cells) == 2 and all(list((cell / "tensorboard").iterdir()) for cell in cells)
    own = (mlflow_out / "mlflow_run.txt").read_text().strip()
    tables = mlflow_out / "mlflow" / "artifacts" / own / "artifacts" / "study"
    assert read_table(tables / "results.csv") == read_table(mlflow_out / "results.csv")
    columns, ((name, images, error, low, high, seeds),) = read_table(tables / "errors.csv")
    assert columns[0] == "series" and (name, seeds) == ("vit_nano_patch2_8", "2")
    assert float(low) <= float(error) <= float(high) and int(images) > 0
    assert (tables / "curve.png").is_file()
    assert "study/curve" in read(mlflow_out / "tensorboard").Tags()["images"]
