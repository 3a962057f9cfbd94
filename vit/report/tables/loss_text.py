"""What the losses of a training are, in words: the axis of the curves, and the sentence below them"""

from dataclasses import dataclass
from typing import Any

from vit.plain_files import parse_yaml
from vit.tasks.task import Task


@dataclass(frozen=True)
class LossText:
    """What the losses of metrics.csv are.

    Attributes:
        axis: name of both losses; "loss" where they are not the same.
        caption: what the training loss includes, and the validation loss does not.
    """

    axis: str
    caption: str

    @classmethod
    def of(cls, config: str, task: Task) -> "LossText":
        """The losses of a run, from the text of its config.yaml."""
        options = parse_yaml(config)
        is_asymmetric = _option(options, "optim", "multilabel_loss") == "asymmetric"
        plain = task.plain_loss
        others = []
        if _option(options, "optim", "class_weights") not in (None, "none"):
            others.append("weights of the classes")
        if _option(options, "optim", "logit_adjustment"):
            others.append("logits adjusted to the frequencies of the classes")
        if _option(options, "distill", "teacher"):
            others.append("the teacher's part")
        own_loss = _option(options, "optim", "loss")
        axis = "loss" if is_asymmetric or own_loss or others else f"{plain} (nats)"
        included = [*others]
        if _option(options, "model", "freeze") != "backbone":
            smoothed = _option(options, "optim", "label_smoothing")
            is_smoothed = bool(smoothed) and not own_loss
            included = ["augmentation"] * _varies(options) + ["label smoothing"] * is_smoothed + others
        kind = own_loss or ("asymmetric loss" if is_asymmetric else plain)
        with_what = f" with {' and '.join(included)}" if included else ""
        what = f"The training loss is the {kind}{with_what}."
        return cls(axis, f"{what} The validation loss is the {plain} of the labels alone.")


def _varies(options: Any) -> bool:
    """Whether the training varied its images."""
    augment = options.get("augment") or {}
    kinds = {name: value for name, value in augment.items() if name not in ("name", "crop", "magnitude")}
    return augment.get("crop", 1.0) != 1.0 or any(kinds.values())


def _option(options: Any, part: str, name: str) -> Any:
    return (options.get(part) or {}).get(name)
