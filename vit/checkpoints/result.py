"""What a finished run found: the content of result.json, with its one writer and its one reader

Imports neither torch nor timm: reports and comparisons read results of many runs.
"""

import base64
import platform
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt

from vit.atomic_files import write_json
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.validation_scores import fitted_split, fitted_text
from vit.console import percent
from vit.errors import DAMAGE, DataError, UsageError, explained
from vit.models.spec import NetworkSpec
from vit.options import read_value
from vit.plain_files import read_json
from vit.tasks.task import Task, task_with
from vit.version import __version__

_KEYS = {"num_images": "images"}  # attribute -> key of result.json, where they differ
_IN_NETWORK = ("spec", "image_size")  # attributes that the key "network" holds
SHOWN_WAIT = 0.1  # the smallest `image_wait` that is worth a word
_REPEATED = ("image_size", "num_classes")  # keys of "network" that are not options
_version = cache(version)  # which reads the metadata of a package at every call: 6 % of a small training


def versions() -> dict[str, str]:
    """Versions of all packages that decide a number."""
    packages = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "numpy", "pillow")
    ours = {"python": platform.python_version(), "vit-lightning": __version__}
    return {**ours, **{name: _version(name) for name in packages}}


@dataclass(frozen=True)
class RunResult:
    """What a finished run found. A study's result is many of these and nothing else."""

    spec: NetworkSpec  # network that was trained
    image_size: int  # side of its input, in pixels
    parameters: int  # number of its parameters
    flops: int  # floating-point operations of one image's forward pass
    data: str  # name of the data set
    num_images: dict[str, int]  # number of images in each split; of validation and test, those that were measured
    fingerprints: dict[str, str]  # fingerprint of each split's images
    seed: int  # seed of the training
    epochs: float  # passes over the training images (steps of a linear probe); a fraction where the length is in steps
    steps: int  # number of optimizer steps
    batch_size: int  # images of one optimizer step
    seconds: float  # duration of the whole training, all parts of an interrupted one together
    images_per_second: float  # training images per second, without validation and saving
    device: str  # device that trained
    precision: str  # precision of the training
    best_epoch: int  # validation that the best checkpoint was chosen at, counted from 0
    validation: dict[str, float]  # metrics of the best checkpoint during training, at temperature 1 and threshold 0.5
    metrics: dict[str, dict[str, float]]  # test metrics of the best checkpoint: {name: {value, low, high}} at 95 %
    versions: dict[str, str]  # version of each package that decides a number
    best_metric: str = "loss"  # `optim.best_metric`, the validation metric that chose the best checkpoint
    last_validation: dict[str, float] = field(default_factory=dict)  # of the last weights; {} if not chosen by epoch
    temperature: float = 1.0  # temperature fitted on the images of `fitted_on`; `metrics` are with it
    uncalibrated: dict[str, dict[str, float]] = field(default_factory=dict)  # test nll and ece without temperature
    correct: dict[str, str] = field(default_factory=dict)  # whether each image of a split is right: bits for `unpack`
    skipped_steps: int = 0  # number of optimizer steps left out because a loss or gradient was NaN or infinite
    unreadable_images: int = 0  # number of training images that could not be read and were replaced by others
    answers: dict[str, Any] = field(default_factory=dict)  # of the test images: the values of `MeasuredAnswers`
    levels: list[dict[str, Any]] | None = None  # accuracy above the classes: the values of `LevelAccuracy`
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)  # images not measured: {split: {path: reason}}
    mfu: float | None = None  # FLOP/s of the training steps over the measured matrix peak; None: not measured
    # temperatures and thresholds of the labels, as `LabelRules` has them; None where an image has one class.
    # `temperature` is then 1, and an image is right (`correct`) where all its known labels are.
    multilabel: dict[str, list[float]] | None = None
    license: str | None = None  # of the weights that the training started from; None: random, or not stated
    teacher: str | None = None  # network and file of the teacher; None where the labels alone taught
    seen_before: list[str] | None = None  # sentences about measured images that the teacher or first weights know
    method: str | None = None  # of a pretraining, which has no classes and no test; None: trained on labels
    rounds: int | None = None  # number of validations; None: not known
    test_groups: int | None = None  # groups of test images that are independent; None: all images are
    tested_classes: int | None = None  # classes or labels with test images, which metrics are about; None: all
    image_wait: float | None = None  # fraction of the time of the steps that waited for images or made them
    validation_name: str = "epoch"  # what precedes a validation: "epoch", "validation", or "penalty" of a linear probe

    @property
    def task(self) -> Task:
        """Whether an image has one class, or any number of labels."""
        return task_with(self.multilabel)

    @property
    def rules(self) -> LabelRules | None:
        """The rules of the labels; None where an image has one class. ValueError where they are damaged."""
        rules = self.multilabel
        return None if rules is None else LabelRules.from_plain(rules, self.spec.num_classes)

    @property
    def speed_text(self) -> str:
        """The speed of the training steps, and how much of their time the images took, if that is worth a word."""
        speed = f"{self.images_per_second:,.0f} training images/s"
        if self.image_wait is None or self.image_wait < SHOWN_WAIT:
            return speed
        return f"{speed}, {percent(self.image_wait, 0)} of the steps' time spent on waiting for images or making them"

    @property
    def accuracy(self) -> float:
        """The fraction of the test images that are right; with several labels for an image the exact match."""
        return self.metrics[self.accuracy_metric]["value"]

    @property
    def accuracy_metric(self) -> str:
        return self.task.accuracy_metric

    @property
    def measured_split(self) -> str:
        """The split that the page of the run shows: the test images, or else the validation images."""
        return "test" if "test" in self.num_images else "validation"

    @property
    def tested_text(self) -> str:
        """How many classes the test is about, where these are not all: "5 of 30 classes have test images"."""
        if self.tested_classes is None:
            return ""
        return f"{self.tested_classes:,} of {self.spec.num_classes:,} {self.task.kinds} have test images"

    @property
    def fitted_split(self) -> str | None:
        """The split that temperatures and thresholds were fitted to."""
        return fitted_split(self.num_images)

    @property
    def is_chosen(self) -> bool:
        """Whether the validation images chose the best checkpoint among several."""
        return self.best_metric != "last" and self.rounds != 1

    @property
    def fitted_on(self) -> str:
        """The images of `fitted_split` in words: "validation images"."""
        return fitted_text(self.fitted_split)

    @property
    def validation_rank(self) -> tuple[float, float]:
        """Larger where the validation images say better: by `best_metric`, and by the loss where that is equal."""
        loss = self.validation["val/loss"]
        by_loss = self.best_metric in ("loss", "last")
        return -loss if by_loss else self.validation[f"val/{self.best_metric}"], -loss

    @property
    def last_is_better(self) -> bool:
        """Whether the last weights are clearly more accurate on the validation images than the best checkpoint.

        Clearly: beyond the 95 % interval of a difference between independent images, which is wider than that of the
        same images. A `best_metric` with another aim, such as the balanced accuracy, is not judged.
        """
        name, count = f"val/{self.accuracy_metric}", self.num_images.get("validation", 0)
        if name not in self.last_validation or not count or self.best_metric not in ("loss", self.accuracy_metric):
            return False
        best, last = self.validation[name], self.last_validation[name]
        error = ((best * (1 - best) + last * (1 - last)) / count) ** 0.5
        return last - best > max(1.96 * error, 1 / count)

    def write(self, path: Path) -> None:
        """Write result.json whole or not at all."""
        values = {_KEYS.get(name, name): value for name, value in vars(self).items() if name not in _IN_NETWORK}
        values = {name: value for name, value in values.items() if value is not None}
        network = {
            "name": self.spec.name,
            "image_size": self.image_size,
            **self.spec.options,
            "num_classes": self.spec.num_classes,
        }
        write_json(path, {"network": network, "classes": self.spec.num_classes, **values})

    @classmethod
    def read(cls, path: Path) -> "RunResult":
        """The result that `write` wrote. DataError where the file is damaged."""
        with explained(DataError, f"{path} is damaged", "restore the file, or train again", (*DAMAGE, UsageError)):
            plain = read_json(path)
            network = plain["network"]
            options = {key: value for key, value in network.items() if key not in _REPEATED}
            keys = {item.name: _KEYS.get(item.name, item.name) for item in fields(cls) if item.name not in _IN_NETWORK}
            kinds = get_type_hints(cls)
            values = {name: read_value(kinds[name], plain[key], key) for name, key in keys.items() if key in plain}
            spec = NetworkSpec.from_plain(options, int(network["num_classes"]))
            return cls(spec=spec, image_size=int(network["image_size"]), **values)


def rule_text(metric: str) -> str:
    """What `optim.best_metric` chooses: "lowest val/loss", "highest val/acc1", "last weights"."""
    if metric == "last":
        return "last weights"
    return f"{'lowest' if metric == 'loss' else 'highest'} val/{metric}"


def pack(correct: npt.NDArray[np.bool_]) -> str:
    """(n,) truth values as text, eight to a byte."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def unpack(text: str, count: int) -> npt.NDArray[np.bool_]:
    """The truth values of a text that `pack` made; ValueError when it holds fewer."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8))
    if len(bits) < count:
        raise ValueError(f"{len(bits):,} bits for {count} images")
    return bits[:count].astype(np.bool_)
