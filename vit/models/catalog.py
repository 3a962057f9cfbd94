"""The catalog of networks: class, options and image size for each name"""

from dataclasses import fields
from fnmatch import fnmatch

from vit.errors import UsageError
from vit.models.ablations import AblatedTransformer
from vit.models.network import CatalogEntry, Network
from vit.models.network_names import suggestion
from vit.models.options import Value
from vit.models.outside.timm_import import import_timm
from vit.models.resnet import SmallImageResNet
from vit.models.vision_transformer import VisionTransformer
from vit.own_code import is_path, load


def _vit(
    image_size: int, patch_size: int, embed_dim: int, depth: int, num_heads: int, about: str, **others: Value
) -> CatalogEntry:
    options: dict[str, Value] = {"patch_size": patch_size, "embed_dim": embed_dim, "depth": depth}
    return CatalogEntry(
        VisionTransformer, image_size, {**options, "num_heads": num_heads, "mlp_ratio": 4.0, **others}, about
    )


CATALOG: dict[str, CatalogEntry] = {
    "vit": _vit(224, 16, 768, 12, 12, "a ViT of any size, by its values; as it stands ViT-B/16"),
    "vit_nano_patch2_8": _vit(8, 2, 64, 4, 4, "ViT for 8 to 16 pixels", mlp_ratio=2.0),
    "vit_mini_patch4_28": _vit(28, 4, 128, 6, 4, "ViT for 28 to 32 pixels, of a small CNN's size"),
    "vit_tiny_cifar": _vit(32, 4, 192, 12, 3, "ViT-Ti with patches of 4 pixels, for 32 to 64 pixels"),
    "vitc_mini_patch4_28": _vit(28, 4, 128, 5, 4, "vit_mini_patch4_28 with a convolutional stem", stem="conv"),
    "vitc_tiny_cifar": _vit(32, 4, 192, 11, 3, "vit_tiny_cifar with a convolutional stem", stem="conv"),
    "vitc_tiny_patch16_224": _vit(
        224, 16, 192, 11, 3, "ViT-Ti/16 with a convolutional stem (Xiao et al. 2021)", stem="conv"
    ),
    "vit_tiny_patch16_224": _vit(224, 16, 192, 12, 3, "ViT-Ti/16 (Touvron et al. 2021)"),
    "vit_small_patch16_224": _vit(224, 16, 384, 12, 6, "ViT-S/16 (Touvron et al. 2021)"),
    "vit_small_patch32_224": _vit(224, 32, 384, 12, 6, "ViT-S/32"),
    "vit_base_patch16_224": _vit(224, 16, 768, 12, 12, "ViT-B/16 (Dosovitskiy et al. 2021)"),
    "vit_base_patch32_224": _vit(224, 32, 768, 12, 12, "ViT-B/32 (Dosovitskiy et al. 2021)"),
    "vit_large_patch16_224": _vit(224, 16, 1024, 24, 16, "ViT-L/16 (Dosovitskiy et al. 2021)"),
    "vit_huge_patch14_224": _vit(224, 14, 1280, 32, 16, "ViT-H/14 (Dosovitskiy et al. 2021)"),
    "vit_nano_ablated": CatalogEntry(
        AblatedTransformer,
        8,
        {"patch_size": 2, "embed_dim": 64, "depth": 4, "num_heads": 4, "mlp_ratio": 2.0},
        "vit_nano_patch2_8 that can lack its parts, for teaching",
    ),
    "resnet10_small": CatalogEntry(
        SmallImageResNet, 32, {"layers": (1, 1, 1, 1), "widths": (32, 64, 128, 256)}, "small CNN for 8 to 32 pixels"
    ),
    "resnet18_cifar": CatalogEntry(
        SmallImageResNet, 32, {}, "ResNet-18 with a 3x3 stem and no max-pool, for 8 to 64 pixels"
    ),
}


def names(pattern: str = "*") -> list[str]:
    """Names that match a shell pattern: ours first, then timm's."""
    import_timm()  # not above: timm takes seconds
    from vit.models.outside import timm_network

    return [name for name in CATALOG if fnmatch(name, pattern)] + [
        name for name in timm_network.names(pattern) if name not in CATALOG
    ]


def entry(name: str) -> CatalogEntry:
    """The entry of the catalog, of an import path or of timm; UsageError with the nearest name when there is none."""
    if name in CATALOG:
        return CATALOG[name]
    if is_path(name):
        return _own_entry(name)
    import_timm()  # not above: timm takes seconds
    from vit.models.outside import timm_network

    found = timm_network.entry(name)
    if found is None:
        raise UsageError(f"no network is called {name!r} (--network)", f"{suggestion(name)} 'vit models' lists all")
    return found


def _own_entry(path: str) -> CatalogEntry:
    """The entry of a network of the user's; its config says the image size by its default."""
    network = load(path, "--network")
    if not (isinstance(network, type) and issubclass(network, Network) and hasattr(network, "config_class")):
        raise UsageError(
            f"--network {path} is not a network: {network!r}",
            "give a subclass of vit.models.network.Network with a config_class",
        )
    size = next(field.default for field in fields(network.config_class) if field.name == "image_size")
    return CatalogEntry(network, size if isinstance(size, int) else 224, about=f"your own network, {path}")
