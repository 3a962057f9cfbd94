"""The model card: a README.md in the format of the Hugging Face hub, made of recorded facts alone

The header is YAML that the hub reads (license, library, task, results). The text below is for people. A number that was
not measured, and a fact that is not recorded, is said to be unknown. No path, user or machine is named.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vit.checkpoints.format import Description
from vit.checkpoints.validation_scores import fitted_split, fitted_text
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
_SHOWN_CLASSES = 100
_HAS_SEEN = (
    "The starting weights, the teacher, or the training by copies had seen validation or test images, so that these "
    "values are too good. "
)
_TEMPLATE = """---
{{ card_data }}
---

# {{ title }}

An image classifier: {{ network }}, {{ parameters }} parameters, {{ num_classes }} {{ kind }}, images of
{{ side }} x {{ side }} pixels. Made with vit-lightning {{ version }}.{{ unfinished }}

## Use

```python
{{ code }}
```

## Data

{{ data }}

Classes: {{ classes }}.

## Results

{{ results }}

## Starting weights

{{ start }}

## Limits

- The model knows the classes above and no others. {{ answers }}
- Results hold for images like those of the data above. Other cameras, places or times can lower them.
- {{ calibration }}
- {{ fairness }}

## License

{{ license }}
"""


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
    """The content of README.md."""
    from huggingface_hub import ModelCard

    description, origin = facts.description, facts.origin
    names = description.class_names
    shown = ", ".join(map(_plain, names[:_SHOWN_CLASSES]))
    several = description.multilabel is not None
    card = ModelCard.from_template(
        _header(facts),
        template_str=_TEMPLATE,
        title=_plain(facts.title),
        network=_plain(description.spec.name),
        parameters=f"{facts.parameters:,}",
        num_classes=f"{len(names):,}",
        kind=description.task.kinds_text,
        answers="It may give an image several of them or none, and it may give some to an image of something else."
        if several
        else "It gives every image one of them, also an image of something else.",
        side=description.preprocess.image_size,
        version=_plain(description.versions.get("vit-lightning", UNKNOWN)),
        code=facts.code,
        classes=shown + (f", and {len(names) - _SHOWN_CLASSES:,} more" if len(names) > _SHOWN_CLASSES else ""),
        unfinished=("" if description.made_of is None else f" The weights are {_plain(description.made_of)}.")
        + (
            ""
            if description.unfinished is None
            else f"\n\n**The training is not finished: {_plain(description.unfinished)}.**"
        ),
        data=_data(origin),
        results="\n\n".join(filter(None, (_results(origin), _int8(facts)))),
        start="Unknown: neither this file nor its folder says what the training started from."
        if origin.start is None
        else f"{_plain(origin.start)}.",
        calibration=_calibration(facts),
        fairness="It was not examined for fairness between groups of people, nor against images made to deceive it.",
        license=_license(description.license),
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
    words = license.split(", ")
    if len(words) == 1 and restricts(license):
        return {"license": "other", "license_name": license}
    return {"license": words[0] if len(words) == 1 else words}


def _license(license: str | None) -> str:
    if license is None:
        return (
            "Unknown. No license of the starting weights is recorded, and none was stated for this model. "
            "Choose one before you publish it, and look at the terms of the data."
        )
    return f"The training started from weights under this license: {_plain(license_text(license))}."


def _data(origin: Origin) -> str:
    if origin.data is None:
        return "Unknown: this file does not say which images the model was trained on."
    rows = "".join(f"| {_plain(split)} | {count:,} |\n" for split, count in origin.num_images.items())
    return f"Data set: {_plain(origin.data)}.\n\n| split | images |\n|---|---|\n{rows}".rstrip()


def _results(origin: Origin) -> str:
    rows = [_row(_METRICS[key][1], metric) for key, metric in origin.metrics.items() if key in _METRICS]
    if not rows:
        return "Unknown: no accuracy on test images is recorded."
    count = origin.num_images.get("test")
    images = count_text(count, origin.test_groups, "test image") if count else "test images"
    unseen = " that were not trained on" * (count is not None and not origin.has_seen)
    units = "images" if origin.test_groups is None else "groups"
    head = f"{_HAS_SEEN * origin.has_seen}On {images}{unseen}, with 95 % intervals over {units}"
    return "\n".join([f"{head}:\n", "| metric | value | interval |", "|---|---|---|", *rows])


def _row(name: str, metric: Mapping[str, float]) -> str:
    within = f"{metric['low']:.4f} to {metric['high']:.4f}" if {"low", "high"} <= metric.keys() else UNKNOWN
    return f"| {name} | {metric['value']:.4f} | {within} |"


def _int8(facts: CardFacts) -> str:
    cost = facts.int8
    if cost is None:
        return ""
    name = _METRICS[facts.description.task.accuracy_metric][1]
    points = "{:.2f} points ({:.2f} to {:.2f})".format(*(100 * value for value in vars(cost.loss).values()))
    return (
        "The results above are of the float32 checkpoint. This file holds int8. "
        f"On {_plain(cost.measured_on)}:\n\n"
        f"| | {name} | 95 % interval |\n|---|---|---|\n"
        f"{_row('float32', vars(cost.reference))}\n{_row('int8', vars(cost.accuracy))}\n\n"
        f"int8 loses {points}, paired over the same images."
    )


def _calibration(facts: CardFacts) -> str:
    description, cost = facts.description, facts.int8
    split = fitted_split(facts.origin.num_images)
    images = "images that are not recorded" if split is None else f"the {fitted_text(split)}"
    if cost is not None and cost.is_calibrated:
        images = _plain(cost.measured_on)
    rules, without = description.multilabel, "a temperature"
    if rules is not None:
        if (rules.temperatures != 1).any():
            return f"Probabilities are calibrated by a temperature for each label, where {images} told one."
        without = "a temperature for any label"
    elif description.temperature != 1:
        return f"Probabilities are calibrated by a temperature of {description.temperature:.3f}, fitted on {images}."
    return f"Probabilities are not calibrated by {without}, or {images} did not tell one from 1."


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    shown = "".join(letter if letter.isprintable() else " " for letter in html.escape(text, quote=False))
    return _MARKS.sub(r"\\\1", shown)
