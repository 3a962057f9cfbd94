"""Names -> networks. A network is named by its catalog entry, and described by values alone: {"name": ..., ...}.

That description is what configs hold and what checkpoints carry. It is checked against the fields of the network's
config dataclass, so nothing in it can name anything to import or call.
"""

import inspect
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Literal, Union, get_args, get_origin

import torch
from torch.utils.flop_counter import FlopCounterMode

from vit.errors import UsageError, nearest
from vit.models.names import suggestion
from vit.models.network import Network
from vit.models.timm_network import SmallImageResNet, TimmNetwork
from vit.models.vision_transformer import VisionTransformer

Value = bool | int | float | str | tuple[int, ...]
_ZERO_IS_NONE = ("num_registers", "layer_scale")


@dataclass(frozen=True)
class Entry:
    """One line of the catalog: a constructor, its values, and the words that `vit models` prints."""

    network: type[Network]
    values: Mapping[str, Value] = field(default_factory=dict)
    about: str = ""


def _vit(
    image_size: int, patch_size: int, embed_dim: int, depth: int, num_heads: int, about: str, mlp_ratio: float = 4.0
) -> Entry:
    values: dict[str, Value] = {"image_size": image_size, "patch_size": patch_size, "embed_dim": embed_dim}
    values |= {"depth": depth, "num_heads": num_heads, "mlp_ratio": mlp_ratio}
    return Entry(VisionTransformer, values, about)


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
        SmallImageResNet, {"layers": (1, 1, 1, 1), "widths": (32, 64, 128, 256)}, "small CNN for 8 to 32 pixels"
    ),
    "resnet18_cifar": Entry(SmallImageResNet, {}, "ResNet-18 with a 3x3 stem and no max-pool, for 8 to 64 pixels"),
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
        return Entry(TimmNetwork, {"model": name, "image_size": size[-1]}, "timm")
    raise UsageError(f"no network is called {name!r} (--network)", f"{suggestion(name)} 'vit models' lists all")


def resolve(description: Mapping[str, Any], image_size: int | None, num_classes: int) -> dict[str, Any]:
    """A description completed with the catalog's values: {"name", "image_size", "num_classes", every other value}.

    Raises:
        UsageError: an unknown name, an unknown value for this network, or a value of the wrong type.
    """
    given = {key: value for key, value in description.items() if key != "name"}
    name = description["name"]
    chosen = entry(name)
    fixed = {"num_classes", "image_size"} | ({"model"} if chosen.network is TimmNetwork else set())
    accepted = {key: kind for key, kind in _signature(chosen.network).items() if key not in fixed}
    for key, value in given.items():
        if key in fixed and key in ("num_classes", "image_size"):
            raise UsageError(f"model.network.{key} is not set here", "the data and --image_size decide it")
        if key not in accepted:
            raise UsageError(f"{name} has no value {key!r} (model.network.{key})", nearest(key, accepted))
        given[key] = _checked(f"model.network.{key}", value, accepted[key])
    values = {**chosen.values, **given, "num_classes": num_classes}
    if image_size is not None:
        values["image_size"] = _checked("--image_size", image_size, int)
    values.setdefault("image_size", inspect.signature(chosen.network.config_class).parameters["image_size"].default)
    return {"name": name, **values}


def build(resolved: Mapping[str, Any]) -> Network:
    """The network of a description that `resolve` completed; UsageError when its values do not fit together."""
    values = {key: value for key, value in resolved.items() if key != "name"}
    try:
        network = entry(resolved["name"]).network
        return network(network.config_class(**values))
    except (ValueError, AssertionError) as error:
        raise UsageError(f"{resolved['name']}: {error}", "change model.network or --image_size") from error


def create_network(name: str, num_classes: int, image_size: int | None = None, **values: Value) -> Network:
    """A network with random weights by its name in the catalog or in timm.

    >>> create_network("vit_small_patch16_224", num_classes=10)(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """
    return build(resolve({"name": name, **values}, image_size, num_classes))


def cost(resolved: Mapping[str, Any]) -> tuple[int, int]:
    """(parameters, multiply-add FLOPs of one image's forward pass), counted without allocating the network."""
    with torch.device("meta"):
        network = build(resolved).eval()
        side = network.image_size
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(torch.empty(1, 3, side, side))
    return sum(p.numel() for p in network.parameters()), counter.get_total_flops()


def _signature(network: type[Network]) -> dict[str, Any]:
    return typing.get_type_hints(network.config_class)


def _checked(key: str, value: object, kind: Any) -> Value:
    """`value` if it is of the primitive type `kind` and in range; integers pass for floats, lists for tuples."""
    origin = get_origin(kind)
    if origin is Literal:
        if value not in get_args(kind):
            raise UsageError(f"{key} is {value!r}", nearest(str(value), map(str, get_args(kind))))
        return typing.cast(Value, value)
    if origin is tuple:
        length = len(get_args(kind))
        if isinstance(value, list | tuple) and len(value) == length and all(type(v) is int and v > 0 for v in value):
            return tuple(value)
        raise UsageError(f"{key} is {value!r}", f"give {length} whole numbers of 1 or more")
    if origin in (Union, types.UnionType):
        raise TypeError(f"{key}: network values are plain, {kind} is not")
    accepted = (
        (int, float) if kind is float else kind
    )  # isinstance, for option types of the command line are subclasses
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{key} is {value!r}", f"give a value of type {kind.__name__}")
    zero = key.endswith(_ZERO_IS_NONE)
    if kind is int and typing.cast(int, value) < 1 - zero:
        raise UsageError(f"{key} is {value!r}", f"give {1 - zero} or more")
    if kind is float:
        low, high = (0.0, 1.0) if key.endswith("_rate") else (0.0 if zero else math.ulp(0.0), math.inf)
        if not low <= typing.cast(float, value) < high:
            raise UsageError(
                f"{key} is {value!r}", "give a number from 0 to below 1" if high == 1.0 else "give a number above 0"
            )
    return typing.cast(Value, kind(value))


def describe(chosen: Iterable[str]) -> Iterator[tuple[str, int, int, int, str]]:
    """(name, image size, parameters with 1,000 classes, FLOPs, about) of each name; skips what timm cannot build."""
    for name in chosen:
        resolved = resolve({"name": name}, None, 1000)
        try:
            parameters, flops = cost(resolved)
        except Exception:  # noqa: BLE001, S112  timm's models fail in many ways on the meta device; one must not end a list
            continue
        yield name, resolved["image_size"], parameters, flops, entry(name).about
