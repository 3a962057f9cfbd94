"""The facts of a model card: recorded values alone; what is not recorded is None or absent"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vit.checkpoints.format import Description
from vit.inference.scores.intervals import Metric


@dataclass(frozen=True)
class Origin:
    """Where a model comes from, as far as its run folder or its source says.

    Attributes:
        start: weights that the training started from, or were converted, in words; None: unknown.
        data: name of the data set; None: unknown.
        hub_data: name of the data set on the hub; None: elsewhere, or unknown.
        num_images: number of images in each split.
        metrics: test metrics: {name: {value, low, high}}; {} where none were measured.
        test_groups: number of groups of the test images, which the intervals take for independent; None: all images
            are.
        has_seen: whether the first weights, the teacher or, by copies, the training knew validation or test images.
    """

    start: str | None = None
    data: str | None = None
    hub_data: str | None = None
    num_images: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    test_groups: int | None = None
    has_seen: bool = False


@dataclass(frozen=True)
class MeasuredImages:
    """The labeled images that a number was measured on.

    Attributes:
        words: the images, in words.
        data: name of their data set.
        hub_data: name of the data set on the hub; None: elsewhere.
        split: their split.
    """

    words: str
    data: str
    hub_data: str | None
    split: str


@dataclass(frozen=True)
class Int8Cost:
    """What int8 costs, measured on labeled images.

    Attributes:
        images: the images.
        num_images: their number.
        accuracy: accuracy of the file; of several labels, how often all are right.
        reference: accuracy of the checkpoint on the same images.
        loss: paired loss of accuracy.
        is_calibrated: whether the temperature of the file was fitted on these images.
        num_groups: number of their groups, which the intervals take for independent; None: all images are.
    """

    images: MeasuredImages
    num_images: int
    accuracy: Metric
    reference: Metric
    loss: Metric
    is_calibrated: bool = False
    num_groups: int | None = None

    @property
    def measured_on(self) -> str:
        """How many images these are, of how many groups, and which."""
        groups = "" if self.num_groups is None else f", of {self.num_groups:,} groups"
        return f"{self.num_images:,} {self.images.words}{groups}"


@dataclass(frozen=True)
class CardFacts:
    """Everything that a card says.

    Attributes:
        title: name of the model.
        description: what the file says about itself.
        parameters: number of parameters.
        library: library of the file in the words of the hub.
        code: Python code that loads the file.
        origin: where the model comes from.
        int8: what int8 costs; None: the file holds float32.
    """

    title: str
    description: Description
    parameters: int
    library: str
    code: str
    origin: Origin
    int8: Int8Cost | None = None
