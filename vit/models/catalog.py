"""The catalog: a network, its options and the size of its images for each name; models of timm by their own names"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from vit.errors import UsageError
from vit.models.names import suggestion
from vit.models.network import Network, NetworkConfig
from vit.models.options import Options, Value
from vit.models.timm_network import SmallImageResNet, TimmNetwork
from vit.models.vision_transformer import VisionTransformer

_DECIDED = ("image_size", "num_classes", "model")  # by the images, the classes and the name


@dataclass(frozen=True)
class Entry:
    """One line of the catalog.

    Attributes:
        network: class of the network.
        image_size: side of the images that the network is made for, in pixels.
        options: options that differ from the defaults of the network's config.
        about: one line for `vit models`.
    """

    network: type[Network]
    image_size: int
    options: Options = field(default_factory=dict)
    about: str = ""

    @property
    def kinds(self) -> dict[str, object]:
        """Type of every option that may be set."""
        hints = typing.get_type_hints(self.network.config_class)
        return {name: kind for name, kind in hints.items() if name not in _DECIDED}

    def config(self, image_size: int, num_classes: int, options: Mapping[str, Any]) -> NetworkConfig:
        """The values that the network is built from; ValueError where they do not fit together."""
        return self.network.config_class(image_size=image_size, num_classes=num_classes, **options)


@dataclass(frozen=True)
class TimmEntry(Entry):
    """A model of timm.

    Attributes:
        model: name in timm.
    """

    model: str = ""

    def config(self, image_size: int, num_classes: int, options: Mapping[str, Any]) -> NetworkConfig:
        return super().config(image_size, num_classes, {"model": self.model, **options})


def _vit(
    image_size: int, patch_size: int, embed_dim: int, depth: int, num_heads: int, about: str, mlp_ratio: float = 4.0
) -> Entry:
    options: dict[str, Value] = {"patch_size": patch_size, "embed_dim": embed_dim, "depth": depth}
    return Entry(VisionTransformer, image_size, {**options, "num_heads": num_heads, "mlp_ratio": mlp_ratio}, about)


CATALOG: dict[str, Entry] = {
    "vit": _vit(224, 16, 768, 12, 12, "a ViT of any size, by its values; as it stands ViT-B/16"),
    "vit_nano_patch2_8": _vit(8, 2, 64, 4, 4, "ViT for 8 to 16 pixels", mlp_ratio=2.0),
    "vit_mini_patch4_28": _vit(28, 4, 128, 6, 4, "ViT for 28 to 32 pixels, of a small CNN's size"),
    "vit_tiny_cifar": _vit(32, 4, 192, 12, 3, "ViT-Ti with patches of 4 pixels, for 32 to 64 pixels"),
    "vit_tiny_patch16_224": _vit(224, 16, 192, 12, 3, "ViT-Ti/16 (Touvron et al. 2021)"),
    "vit_small_patch16_224": _vit(224, 16, 384, 12, 6, "ViT-S/16 (Touvron et al. 2021)"),
    "vit_small_patch32_224": _vit(224, 32, 384, 12, 6, "ViT-S/32"),
    "vit_base_patch16_224": _vit(224, 16, 768, 12, 12, "ViT-B/16 (Dosovitskiy et al. 2021)"),
    "vit_base_patch32_224": _vit(224, 32, 768, 12, 12, "ViT-B/32 (Dosovitskiy et al. 2021)"),
    "vit_large_patch16_224": _vit(224, 16, 1024, 24, 16, "ViT-L/16 (Dosovitskiy et al. 2021)"),
    "vit_huge_patch14_224": _vit(224, 14, 1280, 32, 16, "ViT-H/14 (Dosovitskiy et al. 2021)"),
    "resnet10_small": Entry(
        SmallImageResNet, 32, {"layers": (1, 1, 1, 1), "widths": (32, 64, 128, 256)}, "small CNN for 8 to 32 pixels"
    ),
    "resnet18_cifar": Entry(SmallImageResNet, 32, {}, "ResNet-18 with a 3x3 stem and no max-pool, for 8 to 64 pixels"),
}


def names(pattern: str = "*") -> list[str]:
    """Names that match a shell pattern: ours first, then timm's."""
    import timm

    return [n for n in CATALOG if fnmatch(n, pattern)] + [n for n in timm.list_models(pattern) if n not in CATALOG]


def entry(name: str) -> Entry:
    """The catalog's entry, or timm's model of that name; UsageError with the nearest name when there is neither."""
    if name in CATALOG:
        return CATALOG[name]
    import timm

    if timm.is_model(name):
        size = timm.models.get_pretrained_cfg_value(name, "input_size") or (3, 224, 224)
        return TimmEntry(TimmNetwork, size[-1], about="timm", model=name)
    raise UsageError(f"no network is called {name!r} (--network)", f"{suggestion(name)} 'vit models' lists all")
