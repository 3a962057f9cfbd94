"""timm's models behind the contract of `Network`, and their entries of the catalog"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import timm
import torch
from timm.models import group_parameters
from torch import Tensor, nn

from vit.errors import first_line
from vit.models.memory_format import memory_format_of
from vit.models.network import CatalogEntry, Network, NetworkConfig


@dataclass(frozen=True, kw_only=True)
class TimmConfig(NetworkConfig):
    """What a TimmNetwork is built from."""

    model: str  # name in timm, for example "convnext_atto"
    image_size: int = 224  # side of an image in pixels, S, which timm gets for models that are built for one size
    num_classes: int = 1000  # number of classes, C
    drop_rate: float = 0.0  # dropout before the head
    drop_path_rate: float = 0.0  # rate of stochastic depth


class TimmNetwork(Network):
    """Any image model of timm, from random weights: images (B, K, S, S) -> logits (B, C).

    Raises:
        ValueError: timm has no such model, or cannot build it with these values, or for images of this size.
    """

    config_class = TimmConfig
    config: TimmConfig

    def __init__(self, config: TimmConfig) -> None:
        super().__init__(config)
        if not timm.is_model(config.model):
            raise ValueError(f"timm has no model {config.model!r}")
        rates = {"drop_rate": config.drop_rate, "drop_path_rate": config.drop_path_rate}
        channels = {} if config.in_chans == 3 else {"in_chans": config.in_chans}
        options = {
            "num_classes": config.num_classes,
            **channels,
            **{name: rate for name, rate in rates.items() if rate},
        }
        create = partial(timm.create_model, config.model, pretrained=False, **options)
        try:  # only models for one size (ViT, Swin, ...) take img_size; the others raise TypeError
            self.model = cast(nn.Module, create(img_size=config.image_size))
        except TypeError:
            try:
                self.model = cast(nn.Module, create())
            except TypeError as error:
                raise ValueError(f"timm's {config.model} does not take these values: {error}") from error
        native = timm.models.get_pretrained_cfg_value(config.model, "input_size")
        if native is not None and config.image_size != native[-1]:
            _check_size(create, config, native[-1])

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        return cast(Tensor, self.model(images.contiguous(memory_format=self.memory_format)))

    def memory_format_on(self, device: torch.device) -> torch.memory_format:
        return memory_format_of(self.model, device)

    def first_kernels(self) -> tuple[str, ...]:
        named: Any = timm.models.get_pretrained_cfg_value(self.config.model, "first_conv") or ()
        names = (named,) if isinstance(named, str) else tuple(named)
        return tuple(f"model.{name}.weight" for name in names)

    def no_weight_decay(self) -> set[str]:
        own: set[str] = getattr(self.model, "no_weight_decay", set)()
        return {f"model.{name}" for name in own}

    def layers_above(self) -> dict[str, int]:
        return layers_above(self.model)

    def resized(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Resample weights from timm's own image size of this model to `image_size`: those that change.

        {} where timm cannot resize the model, or the weights are for a third size.
        """
        with torch.device("cpu"), warnings.catch_warnings():  # resampling needs values, also for a network on "meta"
            warnings.simplefilter("ignore")  # PyTorch warns that timm's resampling could be faster
            native: Any = timm.create_model(self.config.model, pretrained=False, num_classes=self.num_classes)
            expected, built = self.model.state_dict(), native.state_dict()
            own = {name.removeprefix("model."): value for name, value in weights.items()}
            changed = {name for name in own.keys() & expected.keys() if own[name].shape != expected[name].shape}
            changed = {name for name in changed if name in built and own[name].shape == built[name].shape}
            if not changed or not hasattr(native, "set_input_size"):
                return {}
            native.load_state_dict({name: value for name, value in own.items() if name in changed}, strict=False)
            try:
                native.set_input_size(img_size=(self.image_size, self.image_size))
            except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError):
                return {}
        sized = native.state_dict()
        return {f"model.{name}": sized[name] for name in changed if sized[name].shape == expected[name].shape}


def _check_size(create: Callable[..., Any], config: TimmConfig, native_size: int) -> None:
    """Raise ValueError if a model cannot compute images of the config's size, by a forward pass of shapes (meta
    device).
    """
    with torch.device("meta"), torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = create(img_size=config.image_size)
        except TypeError:
            model = create()
        try:
            model.eval()(torch.empty(1, config.in_chans, config.image_size, config.image_size))
        except NotImplementedError:  # an operation that the meta device does not have
            return
        except (AssertionError, RuntimeError, ValueError) as error:
            why = f": {first_line(error)}" if str(error) else ""
            raise ValueError(
                f"it is made for images of {native_size} pixels, and cannot compute {config.image_size} pixels{why}"
            ) from error


def layers_above(model: Any) -> dict[str, int]:
    """Number of layers between each parameter and the head, for a Network with the attribute `model`.

    Layers are those of timm's group_matcher. For the few models without a group_matcher, layers are parts such as
    "stages.0" in their order. A group_matcher puts parameters that it forgets beside the head. Those that stand before
    the blocks, such as rotary frequencies that all blocks share, belong to the first block that follows them.
    """
    layers: dict[str, int]
    matcher: Any = getattr(model, "group_matcher", None)
    if matcher is not None:
        layers = group_parameters(model, matcher(coarse=False), reverse=True)
    else:
        parts = {name: ".".join(name.split(".")[:2]) for name, _ in model.named_parameters()}
        numbers = {part: number for number, part in enumerate(dict.fromkeys(parts.values()))}
        layers = {name: numbers[part] for name, part in parts.items()}
    last = max(layers.values())
    following = last
    for name, _ in reversed(list(model.named_parameters())):
        if layers[name] == last:
            layers[name] = following
        following = min(following, layers[name])
    return {f"model.{name}": last - layer for name, layer in layers.items()}


@dataclass(frozen=True)
class TimmEntry(CatalogEntry):
    """A model of timm."""

    model: str = ""  # name in timm

    def config(self, image_size: int, num_classes: int, in_chans: int, options: Mapping[str, Any]) -> NetworkConfig:
        return super().config(image_size, num_classes, in_chans, {"model": self.model, **options})


def names(pattern: str) -> list[str]:
    """Names of timm's models that match a shell pattern."""
    found: list[str] = timm.list_models(pattern)
    return found


def entry(name: str) -> TimmEntry | None:
    """The entry of timm's model of that name; None if timm has no such model."""
    if not timm.is_model(name):
        return None
    size = timm.models.get_pretrained_cfg_value(name, "input_size") or (3, 224, 224)
    return TimmEntry(TimmNetwork, size[-1], about="timm", model=name)
