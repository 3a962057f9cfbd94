"""The rows of `make bench`: what is measured by which script, and how far ahead of whom it should be."""

from dataclasses import dataclass
from statistics import median
from typing import Literal

from timing import Measurement

Measure = Literal["ratio", "share", "time"]


@dataclass(frozen=True)
class Goal:
    """What a row should reach against one side.

    Attributes:
        peer: the other side.
        limit: value to reach.
        measure: meaning of the value. ratio: how many times as fast. share: the part of our time that the other side
            does not need. time: our time as a multiple of the other's.
        ours: our side; "" for the first one.
        title: words that stand for the row and this goal in the table; "" for the row's.
    """

    peer: str
    limit: float
    measure: Measure = "ratio"
    ours: str = ""
    title: str = ""

    @property
    def wanted(self) -> str:
        """The goal in words."""
        sign = ">=" if self.measure == "ratio" else "<="
        return f"{sign} {self.written(self.limit)}"

    def written(self, value: float) -> str:
        """A value in the unit of the measure."""
        if self.measure == "share":
            return f"{100 * value:.0f} %"
        return f"{value:.2f}"

    def values(self, measurement: Measurement) -> list[float]:
        """The value in each turn."""
        ours = self.ours or next(iter(measurement.speeds))
        pairs = zip(measurement.speeds[ours], measurement.speeds[self.peer], strict=True)
        if self.measure == "ratio":
            return [own / other for own, other in pairs]
        if self.measure == "share":
            return [1 - own / other for own, other in pairs]
        return [other / own for own, other in pairs]

    def is_met(self, values: list[float]) -> bool:
        """Whether the median reaches the goal."""
        return median(values) >= self.limit if self.measure == "ratio" else median(values) <= self.limit


@dataclass(frozen=True)
class Row:
    """One call of a script.

    Attributes:
        name: name of its JSON file.
        title: words that stand for it in the table.
        script: file beside this one.
        arguments: arguments of the script.
        goals: goals of the row; other sides are shown without a goal.
        needs: variable of the environment with the folder of its data; "" for none.
    """

    name: str
    title: str
    script: str
    arguments: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()
    needs: str = ""


PEER = "timm"
PREDICTS = "import torch, torchvision"  # what a prediction cannot do without
SCORES = f"{PREDICTS}, sklearn.metrics, matplotlib.figure"
TRAINS = f"{PREDICTS}, lightning.pytorch"
ROWS = (
    Row("infer_ti16", "inference ViT-Ti/16, 224 px, batch 32", "inference.py", ("--size", "ti16"),
        (Goal(PEER, 1.8), Goal("OpenVINO", 1.0))),
    Row("infer_32px", "inference 32 px, patch 4, batch 128", "inference.py", ("--size", "32px"), (Goal(PEER, 1.6),)),
    Row("infer_resnet18", "inference ResNet-18, 224 px, batch 32", "inference.py", ("--size", "resnet18"),
        (Goal(PEER, 2.0),)),
    Row("step_ti16", "training step ViT-Ti/16, 224 px, batch 32", "training_step.py", ("--size", "ti16"),
        (Goal(PEER, 1.8), Goal("vit-pytorch SimpleViT", 1.0))),
    Row("step_32px", "training step 32 px, patch 4, batch 128", "training_step.py", ("--size", "32px"),
        (Goal(PEER, 2.4), Goal("vit-pytorch SimpleViT", 1.0))),
    Row("step_resnet18", "training step ResNet-18, 224 px, batch 32", "training_step.py", ("--size", "resnet18"),
        (Goal(PEER, 1.5),)),
    Row("muon", "Muon's share of a training step, 28 px, patch 4, batch 128", "muon_share.py", (),
        (Goal("without an optimizer", 0.06, "share"),)),
    Row("predict_folder", "a folder of JPEGs to rows, ViT-Ti/16", "predict_folder.py", ("--images", "1000"),
        (Goal("timm float32", 5.0), Goal("timm bfloat16 autocast", 2.5))),
    Row("fashion_mnist", "steps of Fashion-MNIST from files, against timm + Lightning", "train_fashion_mnist.py",
        ("--steps", "40"), (Goal(PEER, 2.5),), needs="FASHION_MNIST_ROOT"),
    Row("photos", "training from JPEG folders", "train_photos.py", (), (
        Goal(PEER, 1.6, "ratio", "uncached", "training from JPEG folders, read in every epoch"),
        Goal(PEER, 3.0, "ratio", "cached", "training from JPEG folders, kept in memory"),
    )),
    Row("startup", "CPU time to start a command", "startup.py", (), (
        Goal(PREDICTS, 1.5, "time", "vit predict", "`vit predict` of one image"),
        Goal(SCORES, 1.5, "time", "vit evaluate", "`vit evaluate`"),
        Goal(PREDICTS, 1.5, "time", "vit explain", "`vit explain` of one image"),
        Goal(PREDICTS, 1.5, "time", "vit compare", "`vit compare`"),
        Goal(SCORES, 1.5, "time", "vit report", "`vit report`"),
        Goal(TRAINS, 1.5, "time", "vit train", "`vit train digits` to the first step"),
        Goal(TRAINS, 1.5, "time", "vit study", "`vit study digits` to the first step of a cell"),
    )),
)  # fmt: skip
