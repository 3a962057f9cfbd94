"""The facts of a model card: recorded values alone; what is not recorded is None or absent"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vit.checkpoints.format import Description
from vit.inference.scores.intervals import Metric


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
