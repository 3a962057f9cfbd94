"""File names of conversions: graphs of OpenVINO, and a local store of MLflow"""

from dataclasses import dataclass
from pathlib import Path

OPENVINO_GRAPH = "openvino_model.xml"  # the name that other programs of OpenVINO look for; weights in .bin


@dataclass(frozen=True)
class MlflowLayout:
    """Paths of a local store of MLflow, which the runs below a folder share.

    Attributes:
        out: parent folder of run folders, or the folder of a study.
    """

    out: Path

    @property
    def database_path(self) -> Path:
        """Numbers and options of all runs, in SQLite."""
        return self.out / "mlflow" / "mlflow.db"

    @property
    def artifacts_dir(self) -> Path:
        """Pictures, tables and models of all runs."""
        return self.out / "mlflow" / "artifacts"
