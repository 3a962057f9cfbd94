"""File names of conversions: graphs of OpenVINO beside a checkpoint, and a local store of MLflow"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

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


@dataclass(frozen=True)
class ConvertedLayout:
    """Paths in the folder that keeps a checkpoint as a model of OpenVINO. It may be removed at any time.

    Attributes:
        path: the folder.
    """

    path: Path

    @classmethod
    def beside(cls, checkpoint: Path, key: str) -> Self:
        """The folder beside a checkpoint with a content."""
        return cls(checkpoint.with_name(f"{checkpoint.name}.openvino-{key}"))

    def earlier(self) -> list[Path]:
        """Folders of other contents of the same checkpoint; none in the cache of the user."""
        name, mark, _ = self.path.name.partition(".openvino-")
        found = self.path.parent.glob("*.openvino-*") if mark else ()
        return [path for path in found if path.name.startswith(f"{name}{mark}") and path != self.path]

    @property
    def graph_path(self) -> Path:
        """The graph."""
        return self.path / OPENVINO_GRAPH

    @property
    def weights_path(self) -> Path:
        """The weights of the graph."""
        return self.graph_path.with_suffix(".bin")

    @property
    def sums_path(self) -> Path:
        """Hashes of both files."""
        return self.path / "sha256.json"

    @property
    def speeds_path(self) -> Path:
        """Seconds of each engine, by the kind of CPU."""
        return self.path / "seconds.json"
