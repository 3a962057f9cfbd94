"""The small CNN baselines: timm's ResNets with a stem for small images"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from vit.models.memory_format import memory_format_of
from vit.models.network import Network, NetworkConfig
from vit.models.outside.timm_import import import_timm


@dataclass(frozen=True, kw_only=True)
class SmallImageResNetConfig(NetworkConfig):
    """What a SmallImageResNet is built from.

    Attributes:
        layers: number of basic blocks in each of the four stages. Each of the last three stages halves the side.
        widths: number of channels of each stage.
        zero_init_last: whether the scale of the last normalization in a branch starts at 0 instead of 1.
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
    ten layers and a few hundred steps such a network learns far more slowly (docs/measurements.md).
    """

    config_class = SmallImageResNetConfig
    config: SmallImageResNetConfig

    def __init__(self, config: SmallImageResNetConfig) -> None:
        import_timm()  # not above: timm takes seconds, which a ViT need not wait for
        from timm.models.resnet import BasicBlock, ResNet

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
        self.model.conv1 = nn.Conv2d(config.in_chans, stem_width, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(self.model.conv1.weight, mode="fan_out", nonlinearity="relu")
        self.model.maxpool = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        return cast(Tensor, self.model(images.contiguous(memory_format=self.memory_format)))

    def memory_format_on(self, device: torch.device) -> torch.memory_format:
        return memory_format_of(self.model, device)

    def first_kernels(self) -> tuple[str, ...]:
        return ("model.conv1.weight",)

    def no_weight_decay(self) -> set[str]:
        return set()

    def layers_above(self) -> dict[str, int]:
        from vit.models.outside.timm_network import layers_above

        return layers_above(self.model)
