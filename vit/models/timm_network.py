"""timm's models behind the contract of `Network`; this is how the CNN baselines come in."""

import warnings
from collections.abc import Mapping
from typing import Any, cast

import timm
import torch
from timm.models import group_parameters
from timm.models.resnet import BasicBlock, ResNet
from torch import Tensor, nn

from vit.models.network import Network


class TimmNetwork(Network):
    """Any image model of timm, from random weights: images (B, 3, S, S) -> logits (B, C).

    Args:
        model: the name in timm, for example "convnext_atto".
        image_size: S, in pixels; handed to models that are built for one size.
        num_classes: C.
        drop_rate: dropout before the head.
        drop_path_rate: stochastic depth.

    Raises:
        ValueError: timm has no such model, or cannot build it with these values.
    """

    memory_format = torch.channels_last

    def __init__(
        self,
        model: str,
        image_size: int = 224,
        num_classes: int = 1000,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        if not timm.is_model(model):
            raise ValueError(f"timm has no model {model!r}")
        self.name = model
        self.image_size = image_size
        self.num_classes = num_classes
        options: dict[str, float] = {"num_classes": num_classes}
        options |= {name: rate for name, rate in (("drop_rate", drop_rate), ("drop_path_rate", drop_path_rate)) if rate}
        try:  # only models built for one size (ViT, Swin, ...) take img_size, and timm says so by TypeError alone
            self.model = cast(nn.Module, timm.create_model(model, pretrained=False, img_size=image_size, **options))
        except TypeError:
            try:
                self.model = cast(nn.Module, timm.create_model(model, pretrained=False, **options))
            except TypeError as error:
                raise ValueError(f"timm's {model} does not take these values: {error}") from error

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        return cast(Tensor, self.model(images))

    def no_weight_decay(self) -> set[str]:
        own: set[str] = getattr(self.model, "no_weight_decay", set)()
        return {f"model.{name}" for name in own}

    def layers_above(self) -> dict[str, int]:
        return _layers_above(self.model)

    def resized(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights for the size that timm builds this model for, resampled by timm for ours; those that change.

        {}: timm has no way to resize this model, or the weights are for another size than timm's.
        """
        with torch.device("cpu"), warnings.catch_warnings():  # values are computed, also for a network of shapes alone
            warnings.simplefilter("ignore")  # timm's resampling is told that it could be faster
            native: Any = timm.create_model(self.name, pretrained=False, num_classes=self.num_classes)
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


class SmallImageResNet(Network):
    """timm's ResNet with the stem of CIFAR ResNets (He et al. 2016, section 4.2): 3x3, stride 1, no max-pool.

    The ImageNet stem throws away 15 of 16 pixels before the first block; on images of 8 to 64 pixels that makes a CNN
    baseline a straw man. So does timm's beginning, in which every residual branch is multiplied by zero (Goyal et al.
    2017): with ten layers and few hundred steps it learns far more slowly (docs/results.md).

    Args:
        image_size: S, in pixels.
        num_classes: C.
        layers: basic blocks in each of the four stages; the last three stages halve the side.
        widths: channels of each stage.
        zero_init_last: whether the scale of the last normalization in a branch begins at 0 instead of 1.
        drop_rate: dropout before the head.
        drop_path_rate: stochastic depth.
    """

    memory_format = torch.channels_last

    def __init__(
        self,
        image_size: int = 32,
        num_classes: int = 10,
        layers: tuple[int, int, int, int] = (2, 2, 2, 2),
        widths: tuple[int, int, int, int] = (64, 128, 256, 512),
        zero_init_last: bool = False,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.num_classes = num_classes
        self.model = ResNet(
            BasicBlock,
            tuple(layers),
            num_classes=num_classes,
            channels=tuple(widths),
            zero_init_last=zero_init_last,
            drop_rate=drop_rate,
            drop_path_rate=drop_path_rate,
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
    """How many layers stand above each parameter, named as in a Network that holds the model as `model`.

    Layers are those of timm's group_matcher; of the few models without one, parts as "stages.0" in their order.
    """
    layers: dict[str, int]
    matcher: Any = getattr(model, "group_matcher", None)
    if matcher is not None:
        layers = group_parameters(model, matcher(coarse=False), reverse=True)
    else:
        parts = {name: ".".join(name.split(".")[:2]) for name, _ in model.named_parameters()}
        places = {part: place for place, part in enumerate(dict.fromkeys(parts.values()))}
        layers = {name: places[part] for name, part in parts.items()}
    last = max(layers.values())
    return {f"model.{name}": last - layer for name, layer in layers.items()}
