"""The checkpoint format: one file that is enough to predict

A checkpoint is Lightning's dictionary, with our description under the key "vit":

    vit: {format: 3, classes: [name, ...], network: {name, option: value, ...},
          preprocess: {image_size, crop_fraction, mean, std, interpolation, resize_mode, window, channels,
                       color_profiles},
          precision: "32-true" | "bf16-mixed" | "16-mixed", temperature: float,
          metrics: {name: float}, versions: {package: version},
          validation_scores: {labels, own, above, highest, groups: base64, split: text, levels: [scores]},
                                      (optional; groups where images have some, levels where class names have some)
          license: text,                                              (optional: of the weights that it started from)
          unfinished: text,                                     (optional: what the training lacks; "7 of 60 epochs")
          multilabel: {temperatures: [K numbers], thresholds: [K numbers]}}   (several labels for an image)
    state_dict: {"network.<key>": tensor}            the weights (averaged ones, if the recipe averages)
    progress: {train_loss: [[sum, batches], ...], skipped: int, ...}   of an unfinished epoch, for resuming
    novelty: {features: (n, D) float16, neighbor: int, validation: (m,) float32}   (optional)
    lora: {"network.<key>": tensor}                  with LoRA: the parts that state_dict has the sums of, for resuming
    optimizer_states, lr_schedulers, loops, ...      Lightning's, for resuming

Each fact stands once: the number of classes is the length of `classes`, and the image size is in `preprocess`.
`temperature` divides the logits before the softmax. It is 1 during training. At the end, the fitted temperature is
written into best.ckpt, with the scores of the validation images and with features of training images (`Novelty`). With
`multilabel`, probabilities are sigmoids of the logits over the temperature of each label, and `temperature` stays 1.

A checkpoint holds plain values and tensors only. It loads with `weights_only=True`, and nothing in it is imported,
called or used as a path. The files of `vit export` carry the same description.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from torch import Tensor

from vit.checkpoints.label_rules import MAX_TEMPERATURE, MIN_TEMPERATURE, LabelRules
from vit.checkpoints.model_path import FIX
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.pixels.preprocess import MAX_CHANNELS, ColorProfiles, Interpolation, Preprocess, ResizeMode, is_window
from vit.errors import CheckpointError, explained
from vit.models.network import Network
from vit.models.spec import NetworkSpec
from vit.tasks.task import Task, task_with

FORMAT = 3
KEY = "vit"
NOVELTY_KEY = "novelty"
STATE = "state_dict"
PREFIX = "network."
MAX_SIDE = 4096
_TEXTS = ("license", "unfinished", "made_of")  # attributes of a description that a file may lack
_MAX_TEXT = 1000

Content = dict[str, Any]  # Lightning's dictionary
_STATED = {item.name for item in fields(Preprocess)} - {"window", "channels"}  # values of every preprocess
_PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")


@dataclass(frozen=True)
class Description:
    """Everything that a checkpoint says beside its weights."""

    class_names: tuple[str, ...]  # name of each class; () for a backbone of a pretraining
    spec: NetworkSpec  # the network
    preprocess: Preprocess  # how an image becomes the network's input
    precision: str = "32-true"  # precision of the training
    temperature: float = 1.0  # divisor of the logits
    metrics: dict[str, float] = field(default_factory=dict)  # validation metrics of these weights
    versions: dict[str, str] = field(default_factory=dict)  # version of each package that decides a number
    validation_scores: ValidationScores | None = None  # what the network gave the validation images; None: unknown
    multilabel: LabelRules | None = None  # rules of several labels for an image; None: one class for an image
    license: str | None = None  # of the weights that the training started from; None: random, or not stated
    unfinished: str | None = None  # what the training lacks: "7 of 60 epochs, no temperature"; None: it is finished
    made_of: str | None = None  # the runs whose weights are averaged here; None: the weights are of one training

    def build(self) -> Network:
        """The network with random weights, for images of this preprocessing."""
        return self.spec.build(self.preprocess.image_size)

    @property
    def task(self) -> Task:
        """Whether an image has one class, or any number of labels."""
        return task_with(self.multilabel)

    def to_dict(self) -> Content:
        """Plain values. A round trip through JSON proves it, and turns tuples into lists."""
        plain = {
            "format": FORMAT,
            "classes": self.class_names,
            "network": self.spec.to_plain(),
            "preprocess": self.preprocess.to_dict(),
            "precision": self.precision,
            "temperature": self.temperature,
            "metrics": self.metrics,
            "versions": self.versions,
        }
        if self.validation_scores is not None:
            plain["validation_scores"] = self.validation_scores.to_plain()
        if self.multilabel is not None:
            plain["multilabel"] = self.multilabel.to_plain()
        plain |= {name: text for name in _TEXTS if (text := getattr(self, name)) is not None}
        result: Content = json.loads(json.dumps(plain))
        return result

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Description":
        """The description that `to_dict` wrote, each value checked. KeyError, TypeError, ValueError: it is not one."""
        class_names = tuple(plain["classes"])
        if not all(isinstance(name, str) and len(name) <= 1000 for name in class_names):
            raise ValueError("class names must be text")
        first: dict[str, int] = {}
        for number, name in enumerate(class_names):  # rows and labels name classes, and must tell them apart
            if first.setdefault(name, number) != number:
                pair, fix = f"classes {first[name]} and {number}", "vit convert now gives such classes different names"
                raise ValueError(f"{pair} are both called {name[:80]!r} ({fix})")
        if plain["precision"] not in _PRECISIONS:
            raise ValueError(f"unknown precision {plain['precision']!r}")
        temperature = float(plain["temperature"])
        if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
            raise ValueError(f"temperature is {temperature}")
        preprocess = _preprocess(plain["preprocess"])
        scores, rules = plain.get("validation_scores"), plain.get("multilabel")
        if rules is not None and temperature != 1:
            raise ValueError("several labels have a temperature each, and none for all")
        texts = {name: plain.get(name) for name in _TEXTS}
        for name, text in texts.items():
            if text is not None and not (isinstance(text, str) and 0 < len(text) <= _MAX_TEXT):
                raise ValueError(f"{name} is {str(text)[:80]!r}")
        return cls(
            class_names,
            NetworkSpec.from_plain(plain["network"], len(class_names), preprocess.channels),
            preprocess,
            str(plain["precision"]),
            temperature,
            {str(key): float(value) for key, value in plain["metrics"].items()},
            {str(key): str(value) for key, value in plain["versions"].items()},
            None if scores is None else ValidationScores.from_plain(scores, len(class_names), class_names),
            None if rules is None else LabelRules.from_plain(rules, len(class_names)),
            **texts,
        )


def _preprocess(plain: Mapping[str, Any]) -> Preprocess:
    """The preprocessing of a description, each value checked: the decoder and the resizer trust it."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    missing = _STATED - values.keys()
    if missing:
        raise ValueError(f"preprocess lacks {', '.join(sorted(missing))}")
    made = Preprocess(**values)
    choices = {"interpolation": Interpolation, "resize_mode": ResizeMode, "color_profiles": ColorProfiles}
    is_right = {
        "image_size": type(made.image_size) is int and 0 < made.image_size <= MAX_SIDE,
        "crop_fraction": isinstance(made.crop_fraction, float | int) and 1 / MAX_SIDE <= made.crop_fraction <= 1,
        "channels": type(made.channels) is int and 0 < made.channels <= MAX_CHANNELS,
        "mean": len(made.mean) == made.channels and all(-math.inf < float(number) < math.inf for number in made.mean),
        "std": len(made.std) == made.channels and all(0 < float(number) < math.inf for number in made.std),
        "window": made.window is None or is_window(made.window, made.channels),
        **{name: getattr(made, name) in get_args(kind) for name, kind in choices.items()},
    }
    for name, right in is_right.items():
        if not right:
            raise ValueError(f"{name} is {getattr(made, name)!r}")
    return made


def read_description(plain: Any, path: Path, fix: str = FIX) -> Description:
    """The description that an untrusted file holds; CheckpointError with `fix` where it is none, or newer."""
    with explained(CheckpointError, f"{path} has no readable description", fix, Exception):
        version = int(plain["format"])
    if version != FORMAT:
        newer = "upgrade vit-lightning" if version > FORMAT else "train or export it again"
        raise CheckpointError(f"{path} has format {version}, this program reads {FORMAT}", newer)
    # an untrusted file may hold a tensor, or anything else, wherever a value is expected
    with explained(CheckpointError, f"{path} has a broken description", fix, Exception):
        return Description.from_dict(plain)


def checkpoint_content(description: Description, weights: Mapping[str, Tensor]) -> Content:
    """The least that a checkpoint holds: a description, and the weights of its network."""
    return {KEY: description.to_dict(), STATE: {f"{PREFIX}{name}": value for name, value in weights.items()}}


def weights_of(content: Content) -> dict[str, Tensor]:
    """The weights in a checkpoint's content, by the network's own names."""
    state: dict[str, Tensor] = content[STATE]
    return {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
