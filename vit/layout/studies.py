"""File names in folders of many runs: studies and cross-validations"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

CELLS = "cells"  # folder of a study's runs
FEATURES = "features"  # folder of the features that a study's cells share


@dataclass(frozen=True)
class CellsLayout:
    """Paths in a folder of many runs: what a study and a cross-validation share. The runs lie below `cells_dir`.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def cells_dir(self) -> Path:
        """Folder of the runs."""
        return self.path / CELLS

    @property
    def summary_path(self) -> Path:
        """What was found, as JSON."""
        return self.path / "summary.json"

    @property
    def report_path(self) -> Path:
        """The page."""
        return self.path / "report.html"

    @property
    def lock_path(self) -> Path:
        """Lock of the process that writes the report."""
        return self.path / ".lock"

    @property
    def jobs_dir(self) -> Path:
        """Tasks of a cluster: what they do, and their logs."""
        return self.path / "jobs"

    @property
    def submitted_path(self) -> Path:
        """The cells of each task that waits or runs on a cluster."""
        return self.jobs_dir / "submitted.json"

    @property
    def digests_path(self) -> Path:
        """Hashes of the images, for the tasks of a cluster."""
        return self.jobs_dir / "images.json"


@dataclass(frozen=True)
class StudyLayout(CellsLayout):
    """Paths in the folder of a study."""

    @property
    def description_path(self) -> Path:
        """Protocol and list of cells. A folder with this file is a study folder."""
        return self.path / "study.json"

    @property
    def results_path(self) -> Path:
        """One row for each finished run."""
        return self.path / "results.csv"

    @property
    def backbones_path(self) -> Path:
        """One row for each backbone of `vit probe`."""
        return self.path / "backbones.csv"

    @property
    def frozen_dir(self) -> Path:
        """Folder of the preliminary answer of frozen networks, which has the files of a study's report."""
        return self.path / "frozen"

    @property
    def curve_path(self) -> Path:
        """Figure of the learning curves."""
        return self.path / "curve.png"


@dataclass(frozen=True)
class CrossvalLayout(CellsLayout):
    """Paths in the folder of a cross-validation."""

    @property
    def description_path(self) -> Path:
        """Data, folds and list of cells. A folder with this file is that of a cross-validation."""
        return self.path / "crossval.json"

    @property
    def predictions_path(self) -> Path:
        """All class probabilities of every image, from the fold that has not trained on the image."""
        return self.path / "predictions.csv"


@dataclass(frozen=True)
class FeaturesLayout:
    """Paths of the features of one frozen backbone on one kind of machine, which the cells of a study share.

    Attributes:
        folder: folder of the features of all backbones.
        backbone: hash of the backbone and its preprocessing.
        machine: hash of what a machine computes them with.
    """

    folder: Path
    backbone: str
    machine: str

    @classmethod
    def of_backbone(cls, folder: Path, backbone: str) -> list[Self]:
        """The files of a backbone, of every kind of machine that has computed its features."""
        found = sorted(folder.glob(f"{backbone}-*.safetensors"))
        return [cls(folder, *path.stem.split("-")) for path in found]

    @property
    def values_path(self) -> Path:
        """The features, with a content hash for each."""
        return self.folder / f"{self.backbone}-{self.machine}.safetensors"

    @property
    def lock_path(self) -> Path:
        """Lock of the process that computes features."""
        return self.folder / f"{self.backbone}-{self.machine}.lock"
