"""Local stores of MLflow, whose tables take seconds to make: once for all tests."""

import shutil
import warnings
from pathlib import Path

import pytest


def client_of(uri):
    """A client of MLflow, whose tables exist then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of SQLAlchemy, about MLflow's own tables
        from mlflow import MlflowClient

        client = MlflowClient(uri)
        client.search_experiments()
    return client


@pytest.fixture(scope="session")
def mlflow_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        file = tmp_path_factory.mktemp("store") / "mlflow.db"
        client_of(f"sqlite:///{file}")
    return file


@pytest.fixture
def mlflow_out(tmp_path: Path, mlflow_tables: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for runs whose local store has its tables. The variables of MLflow are as before after the test."""
    from vit.extras.mlflow.tracker import VARIABLES

    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", *VARIABLES):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    out = tmp_path / "50%25 of it?" / "runs"
    (out / "mlflow").mkdir(parents=True)
    shutil.copy(mlflow_tables, out / "mlflow" / "mlflow.db")
    return out
