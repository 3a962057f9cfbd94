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

Each fact stands once. The number of classes is the length of `classes`, and the image size is in `preprocess`.
`temperature` divides the logits before the softmax. It is 1 during training. At the end, the temperature that was
fitted on the validation images is written into best.ckpt, with the scores of these images, and with features of
training images (`Novelty`).

`multilabel` is there if the network gives several labels for an image, and only then. Probabilities are then sigmoids
of the logits over the temperature of each label, and `temperature` stays 1.

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
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.pixels.preprocess import MAX_CHANNELS, ColorProfiles, Interpolation, Preprocess, ResizeMode, is_window
from vit.errors import CheckpointError, first_line
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
FIX = "give a run folder or a checkpoint that 'vit train' wrote"

Content = dict[str, Any]  # Lightning's dictionary
_STATED = {item.name for item in fields(Preprocess)} - {"window", "channels"}  # values of every preprocess
_PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")


@dataclass(frozen=True)
class Description:
    """Everything that a checkpoint says beside its weights.

    Attributes:
        class_names: name of each class; () for a backbone of a pretraining, which has no layer for classes.
        spec: the network.
        preprocess: how an image becomes the network's input.
        precision: precision of the training.
        temperature: divisor of the logits.
        metrics: validation metrics of these weights.
        versions: version of each package that decides a number.
        validation_scores: what the network gave the validation images; None where it has none.
        multilabel: rules of the labels if the network gives several labels for an image; None: one class for an image.
        license: license of the weights that the training started from; None: random weights, or not stated.
        unfinished: what the training lacks, such as "7 of 60 epochs, no temperature"; None: it is finished.
        made_of: the runs whose weights are averaged here; None: the weights are of one training.
    """

    class_names: tuple[str, ...]
    spec: NetworkSpec
    preprocess: Preprocess
    precision: str = "32-true"
    temperature: float = 1.0
    metrics: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    validation_scores: ValidationScores | None = None
    multilabel: LabelRules | None = None
    license: str | None = None
    unfinished: str | None = None
    made_of: str | None = None

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
        _check_different(class_names)
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


def _check_different(class_names: tuple[str, ...]) -> None:
    """ValueError where two classes have one name: rows and labels name classes, so they could not be told apart."""
    first: dict[str, int] = {}
    for number, name in enumerate(class_names):
        if first.setdefault(name, number) != number:
            raise ValueError(
                f"classes {first[name]} and {number} are both called {name[:80]!r} "
                "(vit convert now gives such classes different names)"
            )


def _preprocess(plain: Mapping[str, Any]) -> Preprocess:
    """The preprocessing of a description, each value checked: the decoder and the resizer trust it."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    missing = _STATED - values.keys()
    if missing:
        raise ValueError(f"preprocess lacks {', '.join(sorted(missing))}")
    made = Preprocess(**values)
    if type(made.image_size) is not int or not 0 < made.image_size <= MAX_SIDE:
        raise ValueError(f"image_size is {made.image_size!r}")
    if not isinstance(made.crop_fraction, float | int) or not 1 / MAX_SIDE <= made.crop_fraction <= 1:
        raise ValueError(f"crop_fraction is {made.crop_fraction!r}")
    if type(made.channels) is not int or not 0 < made.channels <= MAX_CHANNELS:
        raise ValueError(f"channels is {made.channels!r}")
    for name, numbers, lowest in (("mean", made.mean, -math.inf), ("std", made.std, 0.0)):
        if len(numbers) != made.channels or not all(lowest < float(number) < math.inf for number in numbers):
            raise ValueError(f"{name} is {numbers!r}")
    if made.window is not None and not is_window(made.window, made.channels):
        raise ValueError(f"window is {made.window!r}")
    if made.interpolation not in get_args(Interpolation):
        raise ValueError(f"interpolation is {made.interpolation!r}")
    if made.resize_mode not in get_args(ResizeMode):
        raise ValueError(f"resize_mode is {made.resize_mode!r}")
    if made.color_profiles not in get_args(ColorProfiles):
        raise ValueError(f"color_profiles is {made.color_profiles!r}")
    return made


def read_description(plain: Any, path: Path, fix: str = FIX) -> Description:
    """The description that an untrusted file holds; CheckpointError with `fix` where it is none, or newer."""
    try:
        version = int(plain["format"])
    except Exception as error:  # as below
        raise CheckpointError(f"{path} has no readable description", fix) from error
    if version != FORMAT:
        newer = "upgrade vit-lightning" if version > FORMAT else "train or export it again"
        raise CheckpointError(f"{path} has format {version}, this program reads {FORMAT}", newer)
    try:
        return Description.from_dict(plain)
    except Exception as error:  # an untrusted file may hold a tensor, or anything else, wherever a value is expected
        raise CheckpointError(f"{path} has a broken description: {first_line(error)}", fix) from error


def checkpoint_content(description: Description, weights: Mapping[str, Tensor]) -> Content:
    """The least that a checkpoint holds: a description, and the weights of its network."""
    return {KEY: description.to_dict(), STATE: {f"{PREFIX}{name}": value for name, value in weights.items()}}


def weights_of(content: Content) -> dict[str, Tensor]:
    """The weights in a checkpoint's content, by the network's own names."""
    state: dict[str, Tensor] = content[STATE]
    return {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
