"""Names of files and folders that commands write beside runs: caches, conversions, parts, and pictures"""

import os
from dataclasses import dataclass
from pathlib import Path

from vit.layout.folder import File, Folder


def cache_folder(part: str) -> Path:
    """The cache folder of a part of this program: below XDG_CACHE_HOME, or else below ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).expanduser() / "vit-lightning" / part


OPENVINO_GRAPH = "openvino_model.xml"  # the name that other programs of OpenVINO look for; weights in .bin


@dataclass(frozen=True)
class MlflowLayout:
    """Paths of a local store of MLflow, which the runs below a folder share."""

    out: Path  # parent folder of run folders, or the folder of a study

    @property
    def database_path(self) -> Path:
        """Numbers and options of all runs, in SQLite."""
        return self.out / "mlflow" / "mlflow.db"

    @property
    def artifacts_dir(self) -> Path:
        """Pictures, tables and models of all runs."""
        return self.out / "mlflow" / "artifacts"


@dataclass(frozen=True)
class PartsLayout(Folder):
    """Paths in the folder of predictions in parts."""

    # all images, and what decides their rows. A folder with this file is one of predictions in parts
    manifest_path = File("manifest.parquet")
    lock_path = File("manifest.lock")  # lock of the process that writes the manifest
    # lock of the process that has compared the manifest with IMAGES, for as long as the process runs
    listing_lock_path = File("listing.lock")
    jobs_dir = File("jobs")  # logs of tasks of a cluster

    def part_path(self, number: int) -> Path:
        """The rows of a part, numbered from 0."""
        return self.path / f"part-{number:05}.parquet"

    def part_lock_path(self, number: int) -> Path:
        """Lock of the process that computes a part."""
        return self.path / f"part-{number:05}.lock"

    def finished(self) -> set[str]:
        """Names of the parts that are there."""
        return {path.name for path in self.path.glob("part-*.parquet")}


@dataclass(frozen=True)
class ExplanationsLayout(Folder):
    """Paths in the folder of explanations. Pictures of the images lie beside."""

    table_path = File("explanations.csv")  # rows of each image
    page_path = File("explanations.html")  # page with all pictures


@dataclass(frozen=True)
class InspectionLayout(Folder):
    """Paths in the folder of an inspection. Its figures lie beside."""

    page_path = File("inspection.html")  # page with all figures
