"""File names in folders of many runs: studies and cross-validations"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from vit.layout.folder import File, Folder

CELLS = "cells"  # folder of a study's runs
FEATURES = "features"  # folder of the features that a study's cells share


@dataclass(frozen=True)
class CellsLayout(Folder):
    """Paths in a folder of many runs: what a study and a cross-validation share. The runs lie below `cells_dir`."""

    cells_dir = File(CELLS)  # folder of the runs
    summary_path = File("summary.json")  # what was found, as JSON
    report_path = File("report.html")  # the page
    lock_path = File(".lock")  # lock of the process that writes the report
    jobs_dir = File("jobs")  # tasks of a cluster: what they do, and their logs
    submitted_path = File("jobs/submitted.json")  # the cells of each task that waits or runs on a cluster
    digests_path = File("jobs/images.json")  # hashes of the images, for the tasks of a cluster


@dataclass(frozen=True)
class StudyLayout(CellsLayout):
    """Paths in the folder of a study."""

    description_path = File("study.json")  # protocol and list of cells. A folder with this file is a study folder
    results_path = File("results.csv")  # one row for each finished run
    backbones_path = File("backbones.csv")  # one row for each backbone of `vit probe`
    # folder of the preliminary answer of frozen networks, which has the files of a study's report
    frozen_dir = File("frozen")
    curve_path = File("curve.png")  # figure of the learning curves


@dataclass(frozen=True)
class CrossvalLayout(CellsLayout):
    """Paths in the folder of a cross-validation."""

    # data, folds and list of cells. A folder with this file is that of a cross-validation
    description_path = File("crossval.json")
    # all class probabilities of every image, from the fold that has not trained on the image
    predictions_path = File("predictions.csv")


@dataclass(frozen=True)
class FeaturesLayout:
    """Paths of the features of one frozen backbone on one kind of machine, which the cells of a study share."""

    folder: Path  # folder of the features of all backbones
    backbone: str  # hash of the backbone and its preprocessing
    machine: str  # hash of what a machine computes them with

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
