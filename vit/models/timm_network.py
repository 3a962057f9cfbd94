"""timm's models behind the contract of `Network`, which brings in the CNN baselines

`SmallImageResNet` is timm's ResNet with a stem for small images.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import timm
import torch
from timm.models import group_parameters
from timm.models.resnet import BasicBlock, ResNet
from torch import Tensor, nn

from vit.models.network import Network, NetworkConfig


@dataclass(frozen=True, kw_only=True)
class TimmConfig(NetworkConfig):
    """What a TimmNetwork is built from.

    Attributes:
        model: name in timm, for example "convnext_atto".
        image_size: side of an image in pixels, S, which timm gets for models that are built for one size.
        num_classes: number of classes, C.
        drop_rate: dropout before the head.
        drop_path_rate: rate of stochastic depth.
    """

    model: str
    image_size: int = 224
    num_classes: int = 1000
    drop_rate: float = 0.0
    drop_path_rate: float = 0.0


class TimmNetwork(Network):
    """Any image model of timm, from random weights: images (B, 3, S, S) -> logits (B, C).

    Raises:
        ValueError: timm has no such model, or cannot build it with these values.
    """

    config_class = TimmConfig
    config: TimmConfig
    memory_format = torch.channels_last

    def __init__(self, config: TimmConfig) -> None:
        super().__init__(config)
        if not timm.is_model(config.model):
            raise ValueError(f"timm has no model {config.model!r}")
        rates = {"drop_rate": config.drop_rate, "drop_path_rate": config.drop_path_rate}
        options = {"num_classes": config.num_classes, **{name: rate for name, rate in rates.items() if rate}}
        create = partial(timm.create_model, config.model, pretrained=False, **options)
        try:  # only models for one size (ViT, Swin, ...) take img_size; the others raise TypeError
            self.model = cast(nn.Module, create(img_size=config.image_size))
        except TypeError:
            try:
                self.model = cast(nn.Module, create())
            except TypeError as error:
                raise ValueError(f"timm's {config.model} does not take these values: {error}") from error

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        return cast(Tensor, self.model(images))

    def no_weight_decay(self) -> set[str]:
        own: set[str] = getattr(self.model, "no_weight_decay", set)()
        return {f"model.{name}" for name in own}

    def layers_above(self) -> dict[str, int]:
        return _layers_above(self.model)

    def resized(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Resample weights from timm's own image size of this model to `image_size`.

        Returns:
            the weights that change, or {} where timm cannot resize the model, or the weights are for a third size.
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


@dataclass(frozen=True, kw_only=True)
class SmallImageResNetConfig(NetworkConfig):
    """What a SmallImageResNet is built from.

    Attributes:
        image_size: side of an image in pixels, S.
        num_classes: number of classes, C.
        layers: number of basic blocks in each of the four stages. Each of the last three stages halves the side.
        widths: number of channels of each stage.
        zero_init_last: whether the scale of the last normalization in a branch starts at 0 instead of 1.
        drop_rate: dropout before the head.
        drop_path_rate: rate of stochastic depth.
    """

    image_size: int = 32
    num_classes: int = 10
    layers: tuple[int, int, int, int] = (2, 2, 2, 2)
    widths: tuple[int, int, int, int] = (64, 128, 256, 512)
    zero_init_last: bool = False
    drop_rate: float = 0.0
    drop_path_rate: float = 0.0


class SmallImageResNet(Network):
    """timm's ResNet with the stem of CIFAR ResNets (He et al. 2016, section 4.2): 3x3, stride 1, no max-pool.

    The ImageNet stem discards 15 of 16 pixels before the first block. A CNN baseline with this stem is unfairly weak on
    images of 8 to 64 pixels. timm also multiplies each residual branch by zero at the start (Goyal et al. 2017). With
    ten layers and a few hundred steps such a network learns far more slowly (docs/results.md).
    """

    config_class = SmallImageResNetConfig
    config: SmallImageResNetConfig
    memory_format = torch.channels_last

    def __init__(self, config: SmallImageResNetConfig) -> None:
        super().__init__(config)
        self.model = ResNet(
            BasicBlock,
            tuple(config.layers),
            num_classes=config.num_classes,
            channels=tuple(config.widths),
            zero_init_last=config.zero_init_last,
            drop_rate=config.drop_rate,
            drop_path_rate=config.drop_path_rate,
        )
        stem_width = self.model.conv1.out_channels
        self.model.conv1 = nn.Conv2d(3, stem_width, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(self.model.conv1.weight, mode="fan_out", nonlinearity="relu")
        self.model.maxpool = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        return cast(Tensor, self.model(images))

    def no_weight_decay(self) -> set[str]:
        return set()

    def layers_above(self) -> dict[str, int]:
        return _layers_above(self.model)


def _layers_above(model: Any) -> dict[str, int]:
    """Number of layers between each parameter and the head, for a Network with the attribute `model`.

    Layers are those of timm's group_matcher. For the few models without a group_matcher, layers are parts such as
    "stages.0" in their order.
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
    return {f"model.{name}": last - layer for name, layer in layers.items()}
