"""The small CNN baselines: ResNets with a stem for small images"""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import StochasticDepth

from vit.models.network import Network, NetworkConfig

_STEM_WIDTH = 64


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
    """A ResNet with the stem of CIFAR ResNets (He et al. 2016, section 4.2): 3x3, stride 1, no max-pool.

    The ImageNet stem discards 15 of 16 pixels before the first block. A CNN baseline with this stem is unfairly weak on
    images of 8 to 64 pixels. timm also multiplies each residual branch by zero at the start (Goyal et al. 2017). With
    ten layers and a few hundred steps such a network learns far more slowly (docs/results.md).
    """

    config_class = SmallImageResNetConfig
    config: SmallImageResNetConfig
    memory_format = torch.channels_last

    def __init__(self, config: SmallImageResNetConfig) -> None:
        super().__init__(config)
        self.model = ResNet(config)

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        logits: Tensor = self.model(images)
        return logits

    def no_weight_decay(self) -> set[str]:
        return set()

    def layers_above(self) -> dict[str, int]:
        blocks = [f"layer{stage}.{block}" for stage, n in enumerate(self.config.layers, 1) for block in range(n)]
        numbers = {"conv1": 0, "bn1": 0, **{name: number for number, name in enumerate(blocks, 1)}}
        last = len(blocks) + 1  # the head
        layers = {}
        for name, _ in self.model.named_parameters():
            first, second, *_ = name.split(".")
            layers[f"model.{name}"] = last - numbers.get(first, numbers.get(f"{first}.{second}", last))
        return layers


class ResNet(nn.Module):
    """Four stages of basic blocks. Names of the parameters, initial weights and results are those of timm's ResNet."""

    def __init__(self, config: SmallImageResNetConfig) -> None:
        super().__init__()
        self.drop_rate = config.drop_rate
        self.conv1 = nn.Conv2d(3, _STEM_WIDTH, kernel_size=7, bias=False)  # timm's, replaced last: its draws come first
        self.bn1 = nn.BatchNorm2d(_STEM_WIDTH)
        self.act1 = nn.ReLU(inplace=True)
        self.layer1, self.layer2, self.layer3, self.layer4 = _stages(config)
        self.global_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1))
        self.fc = nn.Linear(config.widths[-1], config.num_classes)
        self._initialize(config.zero_init_last)

    def _initialize(self, zero_init_last: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, BasicBlock) and zero_init_last:
                nn.init.zeros_(module.bn2.weight)
        self.conv1 = nn.Conv2d(3, _STEM_WIDTH, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(self.conv1.weight, mode="fan_out", nonlinearity="relu")

    def forward_features(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) -> features (B, channels, S / 8, S / 8)."""
        stem = self.act1(self.bn1(self.conv1(images)))
        features: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(stem))))
        return features

    def forward(self, images: Tensor) -> Tensor:
        pooled = self.global_pool(self.forward_features(images))
        logits: Tensor = self.fc(F.dropout(pooled, p=self.drop_rate, training=self.training))
        return logits


def _stages(config: SmallImageResNetConfig) -> list[nn.Sequential]:
    last = sum(config.layers) - 1
    rates = iter([config.drop_path_rate * block / last for block in range(last + 1)])
    stages = []
    for stage, (width_in, width) in enumerate(pairwise((_STEM_WIDTH, *config.widths))):
        first = BasicBlock(width_in, width, 2 if stage else 1, next(rates))
        others = [BasicBlock(width, width, 1, next(rates)) for _ in range(config.layers[stage] - 1)]
        stages.append(nn.Sequential(first, *others))
    return stages


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2016, arXiv 1512.03385)."""

    def __init__(self, width_in: int, width: int, stride: int, drop_path_rate: float) -> None:
        super().__init__()
        downsample = None
        if stride != 1 or width_in != width:  # first, because its weights are drawn first in timm
            downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.conv1 = nn.Conv2d(width_in, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.drop_path = StochasticDepth(drop_path_rate, mode="row") if drop_path_rate > 0 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        branch = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        branch = self.drop_path(branch)
        branch += x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.act2(branch)
        return activated
