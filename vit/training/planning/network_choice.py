"""The network of a training: named by the recipe, by the weights to start from, or by the size of the images"""

from dataclasses import dataclass, field, replace

from vit.data.gray_window import measured_window
from vit.data.preprocess import Preprocess
from vit.data.samples import Samples, Source
from vit.errors import UsageError
from vit.models.network import Network
from vit.models.options import Options, plain_options
from vit.models.spec import Cost, NetworkSpec, count
from vit.training.lora import layers_to_adapt
from vit.training.planning.automatic_network import automatic_network
from vit.training.recipes.recipe import ModelConfig
from vit.weights.open import open_pretrained
from vit.weights.preprocess_config import PreprocessValues
from vit.weights.pretrained import Pretrained

AUTO = "auto"


@dataclass(frozen=True)
class WantedNetwork:
    """The network as a recipe and its weights state it, before images are read.

    Attributes:
        spec: the network, for one class; None: the size of the images decides.
        image_size: side of its images in pixels; None: undecided.
        options: options that the user or the weights set.
        pretrained: weights to start from, where they still decide something.
    """

    spec: NetworkSpec | None
    image_size: int | None
    options: Options = field(default_factory=dict)
    pretrained: Pretrained | None = None

    @property
    def name(self) -> str | None:
        """Name in the catalog or in timm."""
        return None if self.spec is None else self.spec.name


@dataclass(frozen=True)
class ChosenNetwork:
    """The network of a training.

    Attributes:
        spec: its description.
        options: options that differ from the catalog's, as the recipe holds them.
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
        UsageError: the network or an option is unknown, a value is not of the option's type, or LoRA cannot adapt it.
    """
    options = plain_options({name: value for name, value in model.network.items() if name != "name"})
    name, image_size = str(model.network.get("name", AUTO)), model.preprocess.image_size
    pretrained = None
    is_open = any(value is None for key, value in vars(model.preprocess).items() if key != "window")
    if model.init_from is not None and (name == AUTO or is_open):
        pretrained = open_pretrained(model.init_from)  # a run's config.yaml has everything filled in
    if name != AUTO:
        return WantedNetwork(_checked(name, options, image_size, model.lora), image_size, options, pretrained)
    if pretrained is None:
        return WantedNetwork(None, image_size, options)
    own = pretrained.own_network(options)
    image_size = image_size or own.image_size
    spec = _checked(own.name, own.options, image_size, model.lora)
    return WantedNetwork(spec, image_size, own.options, pretrained)


def _checked(name: str, options: Options, image_size: int | None, lora: int | None) -> NetworkSpec:
    """A network for one class. Its options, and the rank of LoRA, are checked before any image is read."""
    spec = NetworkSpec.named(name, 1, options)
    image_size = image_size or spec.default_image_size
    spec.config(image_size)
    if lora is not None:
        layers_to_adapt(spec.build_empty(image_size), lora)
    return spec


def choose_network(model: ModelConfig, wanted: WantedNetwork, images: Source, num_classes: int) -> ChosenNetwork:
    """The network for a number of classes, and for the size of these images where the recipe leaves it open.

    Raises:
        CheckpointError: the weights to start from do not fit.
        UsageError: its options do not fit together.
    """
    spec, image_size = wanted.spec, wanted.image_size
    if spec is None:
        name, side = automatic_network(images.splits["train"])
        spec, image_size = NetworkSpec.named(name, 1, wanted.options), image_size or side
    spec = replace(spec, num_classes=num_classes)
    told: PreprocessValues = {} if wanted.pretrained is None else wanted.pretrained.preprocess
    given = {key: value for key, value in vars(model.preprocess).items() if value is not None}
    if model.preprocess.window is not None and not model.preprocess.window[0] < model.preprocess.window[1]:
        low, high = model.preprocess.window
        raise UsageError(f"--model.preprocess.window [{low:g}, {high:g}] is empty", "give a low and a higher value")
    preprocess = Preprocess(**{**told, **given, "image_size": image_size or spec.default_image_size})
    shapes = spec.build_empty(preprocess.image_size)
    if wanted.pretrained is not None:
        wanted.pretrained.check_fit(shapes, wanted.options)
    return ChosenNetwork(spec, wanted.options, preprocess, count(shapes), shapes)


def windowed(network: ChosenNetwork, train: Samples) -> ChosenNetwork:
    """The same network with the window that training images of more than 8 bits need, if the recipe leaves it open."""
    if network.preprocess.window is not None:
        return network
    return replace(network, preprocess=replace(network.preprocess, window=measured_window(train)))
