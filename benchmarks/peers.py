"""Networks of other libraries, of the size of one of ours: random weights, images (B, 3, S, S) -> logits (B, C)."""

import importlib.util
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from timing import NOT_INSTALLED


@dataclass(frozen=True)
class Size:
    """What a ViT or a ResNet is built from.

    Attributes:
        name: name of the network in our catalog.
        image_size: side of an image in pixels.
        num_classes: number of classes.
        batch: images of a batch.
        patch_size, embed_dim, depth, num_heads: of a ViT; 0 of a ResNet.
    """

    name: str
    image_size: int
    batch: int
    num_classes: int = 10
    patch_size: int = 0
    embed_dim: int = 0
    depth: int = 0
    num_heads: int = 0

    @property
    def mlp_dim(self) -> int:
        """Width of the hidden layer."""
        return 4 * self.embed_dim


TI16 = Size("vit_tiny_patch16_224", 224, 32, patch_size=16, embed_dim=192, depth=12, num_heads=3)
PIXELS_32 = Size("vit_tiny_cifar", 32, 128, patch_size=4, embed_dim=192, depth=12, num_heads=3)
RESNET18 = Size("resnet18", 224, 32)
S16 = Size("vit_small_patch16_224", 224, 32, patch_size=16, embed_dim=384, depth=12, num_heads=6)
B16 = Size("vit_base_patch16_224", 224, 32, patch_size=16, embed_dim=768, depth=12, num_heads=12)
RESNET50 = Size("resnet50", 224, 32)
NANO = Size("vit_nano_patch2_8", 8, 4, patch_size=2, embed_dim=64, depth=4, num_heads=4)  # for a test
SIZES = {
    "ti16": TI16,
    "32px": PIXELS_32,
    "resnet18": RESNET18,
    "nano": NANO,
    "s16": S16,
    "b16": B16,
    "resnet50": RESNET50,
}


def timm(size: Size) -> Any:
    """timm's VisionTransformer or ResNet."""
    from timm import create_model
    from timm.models.vision_transformer import VisionTransformer

    if not size.patch_size:
        return create_model(size.name, num_classes=size.num_classes)
    return VisionTransformer(
        size.image_size, size.patch_size, num_classes=size.num_classes, embed_dim=size.embed_dim, depth=size.depth,
        num_heads=size.num_heads,
    )  # fmt: skip


def torchvision(size: Size) -> Any:
    """torchvision's VisionTransformer or ResNet."""
    from torchvision import models

    if not size.patch_size:
        return models.get_model(size.name, num_classes=size.num_classes)
    return models.VisionTransformer(
        size.image_size, size.patch_size, size.depth, size.num_heads, size.embed_dim, size.mlp_dim,
        num_classes=size.num_classes,
    )  # fmt: skip


def hugging_face(size: Size) -> Any:
    """transformers' ViTForImageClassification, which gives the logits in an object."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=size.embed_dim, num_hidden_layers=size.depth, num_attention_heads=size.num_heads,
        intermediate_size=size.mlp_dim, image_size=size.image_size, patch_size=size.patch_size,
    )  # fmt: skip
    config.num_labels = size.num_classes
    return _FirstOutput(ViTForImageClassification(config))


def vit_pytorch(size: Size) -> Any:
    """vit-pytorch's ViT."""
    from vit_pytorch import ViT

    return ViT(**_lucidrains(size))


def simple_vit(size: Size) -> Any:
    """vit-pytorch's SimpleViT: fixed positions and mean pooling, without a class token."""
    from vit_pytorch import SimpleViT

    return SimpleViT(**_lucidrains(size))


def _lucidrains(size: Size) -> dict[str, int]:
    return {
        "image_size": size.image_size, "patch_size": size.patch_size, "num_classes": size.num_classes,
        "dim": size.embed_dim, "depth": size.depth, "heads": size.num_heads, "mlp_dim": size.mlp_dim,
        "dim_head": size.embed_dim // size.num_heads,
    }  # fmt: skip


def _FirstOutput(network: Any) -> Any:  # noqa: N802  a class that would import torch with this module
    from torch import Tensor, nn

    class FirstOutput(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Tensor) -> Tensor:
            return self.network(images).logits

    return FirstOutput()


Builder = Callable[[Size], Any]
VITS: Mapping[str, tuple[str, Builder]] = {  # side -> package that it needs, network
    "timm": ("timm", timm),
    "Hugging Face": ("transformers", hugging_face),
    "torchvision": ("torchvision", torchvision),
    "vit-pytorch ViT": ("vit_pytorch", vit_pytorch),
    "vit-pytorch SimpleViT": ("vit_pytorch", simple_vit),
}
CNNS: Mapping[str, tuple[str, Builder]] = {"timm": ("timm", timm), "torchvision": ("torchvision", torchvision)}


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def networks(size: Size, wanted: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """The networks of the installed libraries, and why the others are missing, each by its side.

    Args:
        wanted: sides to build; empty: all.
    """
    found, absent = {}, {}
    for side, (package, build) in (VITS if size.patch_size else CNNS).items():
        if wanted and side not in wanted:
            continue
        if is_installed(package):
            found[side] = build(size)
        else:
            absent[side] = NOT_INSTALLED
    return found, absent
