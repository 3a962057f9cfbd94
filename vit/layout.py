"""File names of run, evaluation and study folders, each of them only here"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

CELLS = "cells"  # folder of a study's runs
FEATURES = "features"  # folder of the features that a study's cells share
CONFIG = "config.yaml"  # a folder with this file is a run folder
OPENVINO_GRAPH = "openvino_model.xml"  # the name that other programs of OpenVINO look for; weights in .bin


def is_of_pretraining(config: str) -> bool:
    """Whether the text of a config.yaml is of `vit pretrain`: its recipe names a method."""
    return any(line.startswith("method:") for line in config.splitlines())


@dataclass(frozen=True)
class RunLayout:
    """Paths in the folder of one training: of `vit train`, of `vit pretrain`, or of a study's cell.

    Attributes:
        path: the folder.
    """

    path: Path

    @classmethod
    def around(cls, path: Path) -> Self | None:
        """The run of a run folder or of one of its checkpoints, or None for any other path."""
        path = path.expanduser()
        run = cls(path if path.is_dir() else path.parent.parent)
        return run if run.config_path.is_file() else None

    @property
    def config_path(self) -> Path:
        """The recipe with every value filled in. A folder with this file is a run folder."""
        return self.path / CONFIG

    @property
    def backbone_path(self) -> Path:
        """The weights that a finished pretraining leaves, for `--init_from`."""
        return self.path / "backbone.safetensors"

    @property
    def class_names_path(self) -> Path:
        """Class names in the order of the network's outputs."""
        return self.path / "classes.json"

    @property
    def splits_path(self) -> Path:
        """Path, label and content hash of every image of every split."""
        return self.path / "splits.csv"

    @property
    def metrics_path(self) -> Path:
        """Losses and metrics during training."""
        return self.path / "metrics.csv"

    @property
    def range_test_path(self) -> Path:
        """Losses of a learning-rate range test before the training, if one was asked for."""
        return self.path / "range_test.json"

    @property
    def best_path(self) -> Path:
        """The checkpoint with the lowest validation loss, or the highest value of `optim.best_metric`."""
        return self.path / "checkpoints" / "best.ckpt"

    @property
    def last_path(self) -> Path:
        """The newest checkpoint, from which a training resumes."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def previous_path(self) -> Path:
        """The checkpoint before the newest one, until the training is finished."""
        return self.path / "checkpoints" / "previous.ckpt"

    @property
    def result_path(self) -> Path:
        """`RunResult` as JSON, the last file that a training writes."""
        return self.path / "result.json"

    @property
    def report_path(self) -> Path:
        """The page of the run."""
        return self.path / "report.html"

    @property
    def predictions_dir(self) -> Path:
        """Folder of `scored_path`."""
        return self.path / "predictions"

    def scored_path(self, split: str) -> Path:
        """Prediction for every image of a split."""
        return self.predictions_dir / f"{split}.csv"

    @property
    def fold_path(self) -> Path:
        """All class probabilities of the test images, where the run is a fold."""
        return self.predictions_dir / "fold.csv"

    def per_class_path(self, split: str) -> Path:
        """Metrics of every class and the confusion matrix of a split."""
        return self.path / f"{split}_classes.json"

    @property
    def figures_dir(self) -> Path:
        """Folder of `figure_path`."""
        return self.path / "figures"

    def figure_path(self, name: str) -> Path:
        """A figure, such as `curves`."""
        return self.figures_dir / f"{name}.png"

    def evaluation_dir(self, name: str) -> Path:
        """Folder of one `vit evaluate` of this run."""
        return self.path / "evaluations" / name

    @property
    def wandb_id_path(self) -> Path:
        """Identifier of the run at Weights & Biases."""
        return self.path / "wandb_id.txt"

    @property
    def tensorboard_dir(self) -> Path:
        """Event files of TensorBoard."""
        return self.path / "tensorboard"

    @property
    def mlflow_run_path(self) -> Path:
        """Identifier of the run at MLflow."""
        return self.path / "mlflow_run.txt"

    @property
    def log_path(self) -> Path:
        """Output of the process that trains a study's cell."""
        return self.path / "log.txt"

    @property
    def failure_path(self) -> Path:
        """Reason why a study's cell failed, until the cell is tried again."""
        return self.path / "failure.txt"

    @property
    def lock_path(self) -> Path:
        """Lock of the process that trains into the folder."""
        return self.path / ".lock"


def tta_path(checkpoint: Path, tta: str) -> Path:
    """What `vit evaluate --tta` fitted for a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}.tta-{tta}.json")


@dataclass(frozen=True)
class EvaluationLayout:
    """Paths in the folder that one `vit evaluate` writes.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def metrics_path(self) -> Path:
        """Metrics with intervals, also by class."""
        return self.path / "metrics.json"

    @property
    def predictions_path(self) -> Path:
        """Prediction for every image."""
        return self.path / "predictions.csv"

    @property
    def report_path(self) -> Path:
        """Page with metrics, figures and pictures."""
        return self.path / "report.html"

    @property
    def confusion_matrix_path(self) -> Path:
        """Figure of the confusion matrix."""
        return self.path / "confusion_matrix.png"

    @property
    def precision_recall_path(self) -> Path:
        """Figure of precision against recall, of a model that gives several labels."""
        return self.path / "precision_recall.png"

    @property
    def reliability_path(self) -> Path:
        """Figure of confidence against accuracy."""
        return self.path / "reliability.png"


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


@dataclass(frozen=True)
class PartsLayout:
    """Paths in the folder of predictions in parts.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def manifest_path(self) -> Path:
        """All images, and what decides their rows. A folder with this file is one of predictions in parts."""
        return self.path / "manifest.parquet"

    @property
    def lock_path(self) -> Path:
        """Lock of the process that writes the manifest."""
        return self.path / "manifest.lock"

    @property
    def jobs_dir(self) -> Path:
        """Logs of tasks of a cluster."""
        return self.path / "jobs"

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
