"""The model card: a README.md in the format of the Hugging Face hub, made of recorded facts alone

The header is YAML that the hub reads (license, library, task, results). The text below is for people. A number that was
not measured, and a fact that is not recorded, is said to be unknown. No path, user or machine is named.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.checkpoints.format import Description
from vit.checkpoints.validation_scores import fitted_split, fitted_text
from vit.errors import some_of
from vit.inference.scores.image_groups import count_text
from vit.inference.scores.intervals import Metric
from vit.weights.hubs import license_text, restricts

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

_MARKS = re.compile(r"([\\`*_\[\]|#<>])")
UNKNOWN = "unknown"
_METRICS = {  # of result.json -> the hub's type, and the name in the text
    "acc1": ("accuracy", "accuracy"),
    "acc5": ("top_5_accuracy", "top-5 accuracy"),
    "balanced_accuracy": ("balanced_accuracy", "balanced accuracy"),
    "macro_f1": ("f1", "macro F1"),
    "map": ("mean_average_precision", "mAP"),
    "micro_f1": ("micro_f1", "micro F1"),
    "exact_match": ("exact_match", "exact match"),
}


@dataclass(frozen=True)
class Origin:
    """Where a model comes from, as far as its run folder or its source says."""

    start: str | None = None  # weights that the training started from, or were converted, in words; None: unknown
    data: str | None = None  # name of the data set; None: unknown
    hub_data: str | None = None  # name of the data set on the hub; None: elsewhere, or unknown
    num_images: Mapping[str, int] = field(default_factory=dict)  # number of images in each split
    # test metrics: {name: {value, low, high}}; {} where none were measured
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # number of groups of the test images, which the intervals take for independent; None: all images are
    test_groups: int | None = None
    # whether the first weights, the teacher or, by copies, the training knew validation or test images
    has_seen: bool = False


@dataclass(frozen=True)
class MeasuredImages:
    """The labeled images that a number was measured on."""

    words: str  # the images, in words
    data: str  # name of their data set
    hub_data: str | None  # name of the data set on the hub; None: elsewhere
    split: str  # their split


@dataclass(frozen=True)
class Int8Cost:
    """What int8 costs, measured on labeled images."""

    images: MeasuredImages  # the images
    num_images: int  # their number
    accuracy: Metric  # accuracy of the file; of several labels, how often all are right
    reference: Metric  # accuracy of the checkpoint on the same images
    loss: Metric  # paired loss of accuracy
    is_calibrated: bool = False  # whether the temperature of the file was fitted on these images
    # number of their groups, which the intervals take for independent; None: all images are
    num_groups: int | None = None

    @property
    def measured_on(self) -> str:
        """How many images these are, of how many groups, and which."""
        groups = "" if self.num_groups is None else f", of {self.num_groups:,} groups"
        return f"{self.num_images:,} {self.images.words}{groups}"


@dataclass(frozen=True)
class CardFacts:
    """Everything that a card says."""

    title: str  # name of the model
    description: Description  # what the file says about itself
    parameters: int  # number of parameters
    library: str  # library of the file in the words of the hub
    code: str  # Python code that loads the file
    origin: Origin  # where the model comes from
    int8: Int8Cost | None = None  # what int8 costs; None: the file holds float32


def card_text(facts: CardFacts) -> str:
    """The content of README.md, from the template card.md."""
    from huggingface_hub import ModelCard

    description, origin, cost = facts.description, facts.origin, facts.int8
    num_test, split = origin.num_images.get("test"), fitted_split(origin.num_images)
    fitted_on = "images that are not recorded" if split is None else f"the {fitted_text(split)}"
    card = ModelCard.from_template(
        _header(facts),
        template_path=str(Path(__file__).with_name("card.md")),
        facts=facts,
        description=description,
        origin=origin,
        int8=cost,
        classes=some_of(map(_plain, description.class_names), 100),
        rows=[(_METRICS[key][1], metric) for key, metric in origin.metrics.items() if key in _METRICS],
        test_images=count_text(num_test, origin.test_groups, "test image") if num_test else "test images",
        accuracy_name=_METRICS[description.task.accuracy_metric][1],
        fitted_on=_plain(cost.measured_on) if cost is not None and cost.is_calibrated else fitted_on,
        plain=_plain,
        license_text=license_text,
        vars=vars,
    )
    return str(card)


def _header(facts: CardFacts) -> "ModelCardData":
    """The part that the hub reads."""
    from huggingface_hub import EvalResult, ModelCardData

    description, origin = facts.description, facts.origin
    images = MeasuredImages("", origin.data or UNKNOWN, origin.hub_data, "test")
    measured = {key: float(metric["value"]) for key, metric in origin.metrics.items()}
    if facts.int8 is not None:
        images, measured = facts.int8.images, {description.task.accuracy_metric: facts.int8.accuracy.value}
    results = [
        EvalResult(
            task_type="image-classification",
            dataset_type=images.hub_data or images.data,
            dataset_name=images.data,
            dataset_split=images.split,
            metric_type=_METRICS[key][0],
            metric_name=_METRICS[key][1],
            metric_value=round(value, 6),
        )
        for key, value in measured.items()
        if key in _METRICS
    ]
    return ModelCardData(
        library_name=facts.library,
        pipeline_tag="image-classification",
        tags=["image-classification", "vision", "vit-lightning", *(["int8"] if facts.int8 else [])],
        datasets=None if origin.hub_data is None else [origin.hub_data],
        model_name=facts.title,
        eval_results=results or None,
        **_license_keys(description.license),
    )


def _license_keys(license: str | None) -> dict[str, Any]:
    """The header's keys of a license. The hub has a word for an unknown one."""
    if license is None:
        return {"license": UNKNOWN}
    names = license.split(", ")
    if len(names) == 1 and restricts(license):
        return {"license": "other", "license_name": license}
    return {"license": names[0] if len(names) == 1 else names}


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    shown = "".join(letter if letter.isprintable() else " " for letter in html.escape(text, quote=False))
    return _MARKS.sub(r"\\\1", shown)
