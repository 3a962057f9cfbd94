"""File names in the folder of one training, and in the folder of an evaluation"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

CONFIG = "config.yaml"  # a folder with this file is a run folder


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
    def is_run(self) -> bool:
        """Whether the folder is that of a training that has begun."""
        return self.config_path.is_file() and self.splits_path.is_file()

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
