"""The network of a training: named by the recipe, by the weights to start from, or by the size of the images"""

from dataclasses import dataclass, field

from vit.data.preprocess import Preprocess
from vit.data.samples import Source
from vit.models.network import Network
from vit.models.options import Options, plain_options
from vit.models.spec import Cost, NetworkSpec, count
from vit.training.automatic_network import automatic_network
from vit.training.lora import layers_to_adapt
from vit.training.recipe import ModelConfig
from vit.weights.open import open_pretrained
from vit.weights.preprocess_config import PreprocessValues
from vit.weights.pretrained import Pretrained

AUTO = "auto"


@dataclass(frozen=True)
class WantedNetwork:
    """What a recipe and its weights say of the network, before images are read.

    Attributes:
        name: name in the catalog or in timm; None: the size of the images decides.
        image_size: side of its images in pixels; None: undecided.
        options: options that the user or the weights set.
        pretrained: weights to start from, where they still decide something.
    """

    name: str | None
    image_size: int | None
    options: Options = field(default_factory=dict)
    pretrained: Pretrained | None = None


@dataclass(frozen=True)
class ChosenNetwork:
    """The network of a training.

    Attributes:
        spec: its description.
        options: options that differ from the catalog's: what the recipe holds.
        preprocess: how an image becomes its input.
        cost: parameters and FLOPs.
        shapes: the network on the meta device.
    """

    spec: NetworkSpec
    options: Options
    preprocess: Preprocess
    cost: Cost
    shapes: Network


def wanted_network(model: ModelConfig) -> WantedNetwork:
    """The network that a recipe names, checked as far as is possible without images.

    Raises:
        CheckpointError: the weights to start from cannot be used.
        UsageError: there is no such network, it has no such option, or a value is not of the option's type.
    """
    options = plain_options({name: value for name, value in model.network.items() if name != "name"})
    name, image_size = str(model.network.get("name", AUTO)), model.preprocess.image_size
    pretrained = None
    if model.init_from is not None and (name == AUTO or None in vars(model.preprocess).values()):
        pretrained = open_pretrained(model.init_from)  # a run's config.yaml has everything filled in
    if name != AUTO:
        _check(name, options, image_size)
        return WantedNetwork(name, image_size, options, pretrained)
    if pretrained is None:
        return WantedNetwork(None, image_size, options)
    own = pretrained.own_network(options)
    _check(own.name, own.options, image_size or own.image_size)
    return WantedNetwork(own.name, image_size or own.image_size, own.options, pretrained)


def _check(name: str, options: Options, image_size: int | None) -> None:
    """Raise UsageError if options of a network are wrong or do not fit together."""
    spec = NetworkSpec.named(name, 1, options)
    spec.config(image_size or spec.default_image_size)


def choose_network(model: ModelConfig, wanted: WantedNetwork, images: Source) -> ChosenNetwork:
    """The network for the classes, and where nothing else decides for the size, of these images.

    Raises:
        CheckpointError: the weights to start from do not fit.
        UsageError: its options do not fit together, or do not go with LoRA.
    """
    name, image_size = wanted.name, wanted.image_size
    if name is None:
        name, side = automatic_network(images.splits["train"])
        image_size = image_size or side
    spec = NetworkSpec.named(name, len(images.class_names), wanted.options)
    told: PreprocessValues = {} if wanted.pretrained is None else wanted.pretrained.preprocess
    given = {key: value for key, value in vars(model.preprocess).items() if value is not None}
    preprocess = Preprocess(**{**told, **given, "image_size": image_size or spec.default_image_size})
    shapes = spec.build_empty(preprocess.image_size)
    if wanted.pretrained is not None:
        wanted.pretrained.check_fit(shapes)
    if model.lora is not None:
        layers_to_adapt(shapes, model.lora)
    return ChosenNetwork(spec, wanted.options, preprocess, count(shapes), shapes)
