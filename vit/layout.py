"""File names in the folders that commands write, each of them only here"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

CONFIG = "config.yaml"  # a folder with this file is a run folder
CELLS = "cells"  # folder of a study's runs
FEATURES = "features"  # folder of the features that a study's cells share
OPENVINO_GRAPH = "openvino_model.xml"  # the name that other programs of OpenVINO look for; weights in .bin


@dataclass(frozen=True)
class Folder:
    """A folder whose files have fixed names: `File` in its class gives the path."""

    path: Path  # the folder


class File:
    """The path of a file or folder in a `Folder`, by its name with those of the folders above it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: Folder, kind: type[Folder]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunLayout(Folder):
    """Paths in the folder of one training: of `vit train`, of `vit pretrain`, or of a study's cell."""

    config_path = File(CONFIG)  # the recipe with every value filled in. A folder with this file is a run folder
    backbone_path = File("backbone.safetensors")  # the weights that a finished pretraining leaves, for `--init_from`
    class_names_path = File("classes.json")  # class names in the order of the network's outputs
    splits_path = File("splits.csv")  # path, label and content hash of every image of every split
    metrics_path = File("metrics.csv")  # losses and metrics during training
    best_path = File("checkpoints/best.ckpt")  # of the lowest validation loss, or the best `optim.best_metric`
    last_path = File("checkpoints/last.ckpt")  # the newest checkpoint, from which a training resumes
    previous_path = File("checkpoints/previous.ckpt")  # the one before the newest, until the training is finished
    result_path = File("result.json")  # `RunResult` as JSON, the last file that a training writes
    report_path = File("report.html")  # the page of the run
    predictions_dir = File("predictions")  # folder of `scored_path`
    fold_path = File("predictions/fold.csv")  # all class probabilities of the test images, where the run is a fold
    figures_dir = File("figures")  # folder of `figure_path`
    wandb_id_path = File("wandb_id.txt")  # identifier of the run at Weights & Biases
    tensorboard_dir = File("tensorboard")  # event files of TensorBoard
    mlflow_run_path = File("mlflow_run.txt")  # identifier of the run at MLflow
    log_path = File("log.txt")  # output of the process that trains a study's cell
    failure_path = File("failure.txt")  # reason why a study's cell failed, until the cell is tried again
    lock_path = File(".lock")  # lock of the process that trains into the folder

    @classmethod
    def around(cls, path: Path) -> Self | None:
        """The run of a run folder or of one of its checkpoints, or None for any other path."""
        path = path.expanduser()
        run = cls(path if path.is_dir() else path.parent.parent)
        return run if run.is_run else None  # many a project has a config.yaml of its own

    @property
    def is_run(self) -> bool:
        """Whether the folder is that of a training that has begun."""
        return self.config_path.is_file() and self.splits_path.is_file()

    def scored_path(self, split: str) -> Path:
        """Prediction for every image of a split."""
        return self.predictions_dir / f"{split}.csv"

    def per_class_path(self, split: str) -> Path:
        """Metrics of every class and the confusion matrix of a split."""
        return self.path / f"{split}_classes.json"

    def figure_path(self, name: str) -> Path:
        return self.figures_dir / f"{name}.png"

    def evaluation_dir(self, name: str) -> Path:
        return self.path / "evaluations" / name


def is_of_pretraining(config: str) -> bool:
    """Whether the text of a config.yaml is of `vit pretrain`: its recipe names a method."""
    return any(line.startswith("method:") for line in config.splitlines())


@dataclass(frozen=True)
class EvaluationLayout(Folder):
    """Paths in the folder that one `vit evaluate` writes."""

    metrics_path = File("metrics.json")  # metrics with intervals, also by class
    predictions_path = File("predictions.csv")  # prediction for every image
    report_path = File("report.html")  # page with metrics, figures and pictures

    def figure_path(self, name: str) -> Path:
        return self.path / f"{name}.png"


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
    frozen_dir = File("frozen")  # the preliminary answer of frozen networks, with the files of a study's report
    curve_path = File("curve.png")  # figure of the learning curves


@dataclass(frozen=True)
class CrossvalLayout(CellsLayout):
    """Paths in the folder of a cross-validation."""

    description_path = File("crossval.json")  # data, folds and list of cells. It marks the folder of a cross-validation
    predictions_path = File("predictions.csv")  # all class probabilities of each image, by the fold without the image


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
        return self.folder / f"{self.backbone}-{self.machine}.lock"


@dataclass(frozen=True)
class MlflowLayout(Folder):
    """Paths of a local store of MLflow, which the runs below a folder share: run folders, or a study."""

    database_path = File("mlflow/mlflow.db")  # numbers and options of all runs, in SQLite
    artifacts_dir = File("mlflow/artifacts")  # pictures, tables and models of all runs


@dataclass(frozen=True)
class PartsLayout(Folder):
    """Paths in the folder of predictions in parts."""

    manifest_path = File("manifest.parquet")  # all images, and what decides their rows. It marks such a folder
    lock_path = File("manifest.lock")  # lock of the process that writes the manifest
    listing_lock_path = File("listing.lock")  # held while the process runs that has compared the manifest with IMAGES
    jobs_dir = File("jobs")  # logs of tasks of a cluster

    def part_path(self, number: int) -> Path:
        """The rows of a part, numbered from 0."""
        return self.path / f"part-{number:05}.parquet"

    def part_lock_path(self, number: int) -> Path:
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


def cache_folder(part: str) -> Path:
    """The cache folder of a part of this program: below XDG_CACHE_HOME, or else below ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).expanduser() / "vit-lightning" / part
