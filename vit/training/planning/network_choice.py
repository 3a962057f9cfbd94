"""The network of a training: named by the recipe, by the weights to start from, or by the size of the images"""

from dataclasses import dataclass, field, replace

import torch

from vit.data.core.samples import Samples, Source
from vit.data.pixels.images import measured_window
from vit.data.pixels.preprocess import COLORS, Preprocess, Window, is_window
from vit.errors import UsageError
from vit.models.catalog import CATALOG, Options
from vit.models.network import Network
from vit.models.spec import Cost, NetworkSpec, count, plain_options
from vit.own_code import is_path, running
from vit.training.lora import layers_to_adapt
from vit.training.planning.images import automatic_network
from vit.training.recipes.image_options import PreprocessConfig
from vit.training.recipes.recipe import ModelConfig
from vit.weights.open import open_pretrained
from vit.weights.preprocess_config import PreprocessValues
from vit.weights.pretrained import PretrainedWeights

AUTO = "auto"


@dataclass(frozen=True)
class WantedNetwork:
    """The network as a recipe and its weights state it, before images are read."""

    spec: NetworkSpec | None  # the network, for one class; None: the size of the images decides
    image_size: int | None  # side of its images in pixels; None: undecided
    options: Options = field(default_factory=dict)  # options that the user or the weights set
    pretrained: PretrainedWeights | None = None  # weights to start from, where they still decide something

    @property
    def name(self) -> str | None:
        return None if self.spec is None else self.spec.name


@dataclass(frozen=True)
class ChosenNetwork:
    """The network of a training."""

    spec: NetworkSpec  # its description
    options: Options  # options that differ from the catalog's, as the recipe holds them
    preprocess: Preprocess  # how an image becomes its input
    cost: Cost  # parameters and FLOPs
    shapes: Network  # the network on the meta device
    has_new_head: bool = True  # whether the first weights have no last layer for these classes, as far as is known
    kept_rows: str = ""  # which rows a last layer for other classes keeps, in words; "" for none


def wanted_network(model: ModelConfig) -> WantedNetwork:
    """The network that a recipe names, checked as far as is possible without images.

    CheckpointError: the weights to start from cannot be used.
    UsageError: the network or an option is unknown, a value is not of the option's type, or LoRA cannot adapt it.
    """
    options: Options = plain_options({name: value for name, value in model.network.items() if name != "name"})
    name, image_size = str(model.network.get("name", AUTO)), model.preprocess.image_size
    pretrained = None
    not_of_weights = ("window", "channels", "color_profiles")
    is_open = any(value is None for key, value in vars(model.preprocess).items() if key not in not_of_weights)
    if model.init_from is not None and (name == AUTO or is_open):
        pretrained = open_pretrained(model.init_from, network_of_weights(model))  # config.yaml has all values filled in
    if model.init_from is None:
        _check_lengths(model.preprocess, model.preprocess.channels or COLORS)
    if name == AUTO:
        if pretrained is None:
            return WantedNetwork(None, image_size, options)
        its_spec = pretrained.own_network(options)
        name, image_size, options = its_spec.name, image_size or its_spec.image_size, its_spec.options
    spec = NetworkSpec.named(name, 1, options)
    side = image_size or spec.default_image_size
    spec.config(side)
    if model.lora is not None:
        layers_to_adapt(spec.build_empty(side), model.lora)
    return WantedNetwork(spec, image_size, options, pretrained)


def network_of_weights(model: ModelConfig) -> str | None:
    """The network of timm that a recipe names, for files of weights that name none. Our own ViTs show by shapes."""
    name = str(model.network.get("name", AUTO))
    return None if name == AUTO or name in CATALOG else name


def choose_network(model: ModelConfig, wanted: WantedNetwork, images: Source, num_classes: int) -> ChosenNetwork:
    """The network for a number of classes, and for the size of these images where the recipe leaves it open.

    CheckpointError: the weights to start from do not fit. UsageError: its options do not fit together.
    """
    spec, image_size = wanted.spec, wanted.image_size
    if spec is None:
        name, side = automatic_network(images.splits["train"])
        spec, image_size = NetworkSpec.named(name, 1, wanted.options), image_size or side
    spec = replace(spec, num_classes=num_classes)
    of_weights: PreprocessValues = {} if wanted.pretrained is None else wanted.pretrained.preprocess
    of_recipe = {key: value for key, value in vars(model.preprocess).items() if value is not None}
    if model.preprocess.resize_mode == "pad" and of_recipe.setdefault("crop_fraction", 1.0) != 1:
        problem = f"--model.preprocess.crop_fraction {of_recipe['crop_fraction']:g} with --resize_mode pad"
        raise UsageError(f"{problem}, which shows the whole picture", "leave one out")
    image_size = image_size or spec.default_image_size
    preprocess = Preprocess(**{**of_weights, **of_recipe, "image_size": image_size})
    channels, window = preprocess.channels, preprocess.window
    _check_lengths(model.preprocess, channels)
    if window is not None and not is_window(window, channels):
        if model.preprocess.window is not None:
            shown = ", ".join(f"{value:g}" for value in window)
            fix = "give a low and a higher value" + (", or two for each channel" if channels > 1 else "")
            raise UsageError(f"--model.preprocess.window [{shown}] is empty or of the wrong length", fix)
        preprocess = replace(preprocess, window=None)  # of weights for other channels
    mean, std = (
        values if len(values) == channels else (round(sum(values) / len(values), 6),) * channels
        for values in (preprocess.mean, preprocess.std)
    )
    preprocess = replace(preprocess, mean=mean, std=std)
    spec = replace(spec, in_chans=channels)
    shapes = spec.build_empty(preprocess.image_size)
    if is_path(spec.name):
        _check_own(spec, shapes)
    has_new_head, kept_rows = True, ""
    if wanted.pretrained is not None:
        keeps = keeps_rows(model, images)
        report = wanted.pretrained.check_fit(shapes, wanted.options, images.class_names, keeps)
        has_new_head, kept_rows = bool(report.initialized), report.describe_rows()
    return ChosenNetwork(spec, wanted.options, preprocess, count(shapes), shapes, has_new_head, kept_rows)


def _check_own(spec: NetworkSpec, shapes: Network) -> None:
    """Raise UsageError where a network of the user's fails, has other outputs than logits, or no weights to train."""
    with running(spec.name, "--network", "map images (B, K, S, S) to logits (B, C)"), torch.no_grad():
        images = torch.empty(2, spec.in_chans, shapes.image_size, shapes.image_size, device="meta")
        logits, expected = shapes(images), (len(images), spec.num_classes)
        if not isinstance(logits, torch.Tensor) or logits.shape != expected:
            shown = f"a tensor {tuple(logits.shape)}" if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise TypeError(f"it gives {shown} for 2 images and {spec.num_classes} classes")
        if not any(weight.requires_grad for weight in shapes.parameters()):
            raise TypeError("it has no weights to train")


def keeps_rows(model: ModelConfig, images: Source) -> bool:
    """Whether a last layer for other classes keeps the rows of classes that the first weights know by name."""
    return model.init_head == "auto" and model.freeze != "backbone" and images.task.is_exclusive


def _check_lengths(config: PreprocessConfig, channels: int) -> None:
    for name, values in (("mean", config.mean), ("std", config.std)):
        if values is not None and len(values) != channels:
            problem = f"--model.preprocess.{name} has {len(values):,} values for {channels} channels"
            raise UsageError(problem, "give one for each")


def windowed(network: ChosenNetwork, train: Samples, taught: Window | None = None) -> ChosenNetwork:
    """The same network with the window that training images of more than 8 bits need, if the recipe leaves it open.

    A teacher sees the pixels of this network, so that its window `taught` counts.
    """
    if network.preprocess.window is not None:
        return network
    measured = measured_window(train, network.preprocess.channels)
    window = taught if measured is not None and taught is not None else measured
    return replace(network, preprocess=replace(network.preprocess, window=window))
