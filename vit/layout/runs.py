"""File names in the folder of one training, and in the folder of an evaluation"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from vit.layout.folder import File, Folder

CONFIG = "config.yaml"  # a folder with this file is a run folder


def is_of_pretraining(config: str) -> bool:
    """Whether the text of a config.yaml is of `vit pretrain`: its recipe names a method."""
    return any(line.startswith("method:") for line in config.splitlines())


@dataclass(frozen=True)
class RunLayout(Folder):
    """Paths in the folder of one training: of `vit train`, of `vit pretrain`, or of a study's cell."""

    config_path = File(CONFIG)  # the recipe with every value filled in. A folder with this file is a run folder
    backbone_path = File("backbone.safetensors")  # the weights that a finished pretraining leaves, for `--init_from`
    class_names_path = File("classes.json")  # class names in the order of the network's outputs
    splits_path = File("splits.csv")  # path, label and content hash of every image of every split
    metrics_path = File("metrics.csv")  # losses and metrics during training
    # the checkpoint with the lowest validation loss, or the highest value of `optim.best_metric`
    best_path = File("checkpoints/best.ckpt")
    last_path = File("checkpoints/last.ckpt")  # the newest checkpoint, from which a training resumes
    # the checkpoint before the newest one, until the training is finished
    previous_path = File("checkpoints/previous.ckpt")
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
        return run if run.config_path.is_file() else None

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
        """A figure, such as `curves`."""
        return self.figures_dir / f"{name}.png"

    def evaluation_dir(self, name: str) -> Path:
        """Folder of one `vit evaluate` of this run."""
        return self.path / "evaluations" / name


@dataclass(frozen=True)
class EvaluationLayout(Folder):
    """Paths in the folder that one `vit evaluate` writes."""

    metrics_path = File("metrics.json")  # metrics with intervals, also by class
    predictions_path = File("predictions.csv")  # prediction for every image
    report_path = File("report.html")  # page with metrics, figures and pictures
    confusion_matrix_path = File("confusion_matrix.png")  # figure of the confusion matrix
    # figure of precision against recall, of a model that gives several labels
    precision_recall_path = File("precision_recall.png")
    reliability_path = File("reliability.png")  # figure of confidence against accuracy
