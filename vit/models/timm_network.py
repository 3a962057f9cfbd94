"""Networks that timm computes, behind the contract of `Network`: its models, and small CNN baselines of its layers

Source: timm 1.0. timm is imported when such a network is built.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from vit.errors import first_line
from vit.models.memory_format import memory_format_of
from vit.models.network import Network, NetworkConfig, Undrawn
from vit.models.network_names import import_timm
from vit.ranges import PositiveInt, Share

Stages = tuple[PositiveInt, PositiveInt, PositiveInt, PositiveInt]


class NetworkOfTimm(Network):
    """Images (B, K, S, S) -> logits (B, C), by a module of timm."""

    model: Any

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        return cast(Tensor, self.model(images.contiguous(memory_format=self.memory_format)))

    def memory_format_on(self, device: torch.device) -> torch.memory_format:
        return memory_format_of(self.model, device)

    def no_weight_decay(self) -> set[str]:
        names: set[str] = getattr(self.model, "no_weight_decay", set)()
        return {f"model.{name}" for name in names}

    def layers_above(self) -> dict[str, int]:
        """Number of layers between each parameter and the head.

        Layers are those of timm's group_matcher. For the few models without a group_matcher, layers are parts such as
        "stages.0" in their order. A group_matcher puts parameters that it forgets beside the head. Those that stand
        before the blocks, such as rotary frequencies that all blocks share, belong to the first block that follows.
        """
        names = [name for name, _ in self.model.named_parameters()]
        matcher: Any = getattr(self.model, "group_matcher", None)
        layers: dict[str, int]
        if matcher is not None:
            layers = import_timm().models.group_parameters(self.model, matcher(coarse=False), reverse=True)
        else:
            parts = {name: ".".join(name.split(".")[:2]) for name in names}
            numbers = {part: number for number, part in enumerate(dict.fromkeys(parts.values()))}
            layers = {name: numbers[part] for name, part in parts.items()}
        following = last = max(layers.values())
        for name in reversed(names):
            if layers[name] == last:
                layers[name] = following
            following = min(following, layers[name])
        return {f"model.{name}": last - layer for name, layer in layers.items()}


@dataclass(frozen=True, kw_only=True)
class TimmConfig(NetworkConfig):
    """What a TimmNetwork is built from."""

    model: str  # name in timm, for example "convnext_atto"
    image_size: int = 224  # side of an image in pixels, S, which timm gets for models that are built for one size
    num_classes: int = 1000  # number of classes, C
    drop_rate: Share = 0.0  # dropout before the head
    drop_path_rate: Share = 0.0  # rate of stochastic depth


class TimmNetwork(NetworkOfTimm):
    """Any image model of timm, from random weights; ValueError where timm cannot build it with these values."""

    config_class = TimmConfig
    config: TimmConfig

    def __init__(self, config: TimmConfig) -> None:
        timm = import_timm()
        super().__init__(config)
        if not timm.is_model(config.model):
            raise ValueError(f"timm has no model {config.model!r}")
        rates = {"drop_rate": config.drop_rate, "drop_path_rate": config.drop_path_rate}
        options: dict[str, Any] = {name: rate for name, rate in rates.items() if rate}
        if config.in_chans != 3:
            options["in_chans"] = config.in_chans
        create = partial(timm.create_model, config.model, pretrained=False, num_classes=config.num_classes, **options)
        try:
            self.model = sized(create, config.image_size)
        except TypeError as error:
            raise ValueError(f"timm's {config.model} does not take these values: {error}") from error
        native = timm.models.get_pretrained_cfg_value(config.model, "input_size")
        if native is not None and config.image_size != native[-1]:
            _check_size(create, config, native[-1])

    def first_kernels(self) -> tuple[str, ...]:
        named: Any = import_timm().models.get_pretrained_cfg_value(self.config.model, "first_conv") or ()
        names = (named,) if isinstance(named, str) else tuple(named)
        return tuple(f"model.{name}.weight" for name in names)

    def resized(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights of timm's own image size, resampled to `image_size`: those that change, {} where timm cannot."""
        with torch.device("cpu"), warnings.catch_warnings():  # resampling needs values, also for a network on "meta"
            warnings.simplefilter("ignore")  # PyTorch warns that timm's resampling could be faster
            native = import_timm().create_model(self.config.model, pretrained=False, num_classes=self.num_classes)
            expected, built = self.model.state_dict(), native.state_dict()
            tensors = {name.removeprefix("model."): value for name, value in weights.items()}
            changed = {name for name in tensors.keys() & expected.keys() if tensors[name].shape != expected[name].shape}
            changed = {name for name in changed if name in built and tensors[name].shape == built[name].shape}
            if not changed or not hasattr(native, "set_input_size"):
                return {}
            native.load_state_dict({name: value for name, value in tensors.items() if name in changed}, strict=False)
            try:
                native.set_input_size(img_size=(self.image_size, self.image_size))
            except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError):
                return {}
        sized = native.state_dict()
        return {f"model.{name}": sized[name] for name in changed if sized[name].shape == expected[name].shape}


def sized(create: Callable[..., Any], image_size: int | None) -> nn.Module:
    """A model built for one image size (ViT, Swin, ...), or one for any size, which does not take img_size."""
    try:
        return cast(nn.Module, create(img_size=image_size))
    except TypeError:
        return cast(nn.Module, create())


def _check_size(create: Callable[..., Any], config: TimmConfig, native_size: int) -> None:
    """Raise ValueError if a model cannot compute images of the config's size, by a forward pass of shapes alone."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Undrawn():
            model = sized(create, config.image_size).eval()
        try:
            model(torch.empty(1, config.in_chans, config.image_size, config.image_size))
        except NotImplementedError:  # an operation that the meta device does not have
            return
        except (AssertionError, RuntimeError, ValueError) as error:
            why = f": {first_line(error)}" if str(error) else ""
            raise ValueError(
                f"it is made for images of {native_size} pixels, and cannot compute {config.image_size} pixels{why}"
            ) from error


@dataclass(frozen=True, kw_only=True)
class SmallImageResNetConfig(NetworkConfig):
    """What a SmallImageResNet is built from."""

    image_size: int = 32  # side of an image in pixels, S
    num_classes: int = 10  # number of classes, C
    layers: Stages = (2, 2, 2, 2)  # number of basic blocks in each stage; all but one halve the side
    widths: Stages = (64, 128, 256, 512)  # number of channels of each stage
    zero_init_last: bool = False  # whether the scale of the last norm in a branch starts at 0 instead of 1
    drop_rate: Share = 0.0  # dropout before the head
    drop_path_rate: Share = 0.0  # rate of stochastic depth


class SmallImageResNet(NetworkOfTimm):
    """timm's ResNet with the stem of CIFAR ResNets (He et al. 2016, section 4.2): 3x3, stride 1, no max-pool.

    The ImageNet stem discards 15 of 16 pixels before the first block. A CNN baseline with this stem is unfairly weak on
    images of 8 to 64 pixels. timm also multiplies each residual branch by zero at the start (Goyal et al. 2017). With
    ten layers and a few hundred steps such a network learns far more slowly (docs/measurements.md).
    """

    config_class = SmallImageResNetConfig
    config: SmallImageResNetConfig

    def __init__(self, config: SmallImageResNetConfig) -> None:
        resnet = import_timm().models.resnet
        super().__init__(config)
        model: Any = resnet.ResNet(
            resnet.BasicBlock,
            tuple(config.layers),
            num_classes=config.num_classes,
            channels=tuple(config.widths),
            zero_init_last=config.zero_init_last,
            drop_rate=config.drop_rate,
            drop_path_rate=config.drop_path_rate,
        )
        model.conv1 = nn.Conv2d(config.in_chans, model.conv1.out_channels, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = nn.Identity()
        self.model = model

    def first_kernels(self) -> tuple[str, ...]:
        return ("model.conv1.weight",)
