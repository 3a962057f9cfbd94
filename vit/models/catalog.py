"""The catalog of networks: class, options and image size for each name; imports neither torch nor timm"""

import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatch
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vit.errors import UsageError, nearest
from vit.models.network_names import import_timm, timm_names, undivided
from vit.options import read_value
from vit.own_code import VARIABLE, is_path, load, trusted

if TYPE_CHECKING:
    from vit.models.network import Network, NetworkConfig

Value = bool | int | float | str | tuple[int, ...]
Options = Mapping[str, Value]  # of a network; a checked one can name nothing to import or to call
_DECIDED = ("image_size", "num_classes", "in_chans")  # by the images and the classes
_SIMILAR, _SIMILAR_BEGINNING = 0.75, 0.85  # similarity from which our names are suggested before those of timm
_NEARLY_THE_SAME = 0.93  # similarity from which a name of timm is also suggested


@dataclass(frozen=True)
class CatalogEntry:
    """One line of the catalog."""

    place: str  # import path of the network's class
    image_size: int  # side of the images that the network is made for, in pixels
    options: Options = field(default_factory=dict)  # options that differ from the defaults of the network's config
    about: str = ""  # one line for `vit models`
    model: str = ""  # name in timm; "": the network is ours, or yours

    @property
    def network(self) -> "type[Network]":
        module, _, name = self.place.partition(":")
        return typing.cast("type[Network]", getattr(import_module(module), name))

    @property
    def kinds(self) -> dict[str, object]:
        """Type of every option that may be set."""
        hints = typing.get_type_hints(self.network.config_class, include_extras=True)
        return {name: kind for name, kind in hints.items() if name not in (*_DECIDED, "model")}

    def checked(self, network: str, given: Mapping[str, object]) -> dict[str, Value]:
        """The options of a network, each of its type in `kinds`; UsageError for any other."""
        kinds = self.kinds
        for name in given:
            if name in _DECIDED:
                fix = "the data, --image_size and --model.preprocess.channels decide it"
                raise UsageError(f"model.network.{name} is not set here", fix)
            if name not in kinds:
                raise UsageError(f"{network} has no option {name!r} (model.network.{name})", nearest(name, kinds))
        return {name: read_value(kinds[name], value, f"model.network.{name}") for name, value in given.items()}

    def config(self, image_size: int, num_classes: int, in_chans: int, options: Mapping[str, Any]) -> "NetworkConfig":
        """The values that the network is built from; ValueError where they do not fit together."""
        sizes: dict[str, Any] = {"image_size": image_size, "num_classes": num_classes, "in_chans": in_chans}
        model: dict[str, Any] = {"model": self.model} if self.model else {}
        return self.network.config_class(**sizes, **model, **options)


def _vit(
    image_size: int, patch_size: int, embed_dim: int, depth: int, num_heads: int, about: str, **others: Value
) -> CatalogEntry:
    options: dict[str, Value] = {"patch_size": patch_size, "embed_dim": embed_dim, "depth": depth}
    options |= {"num_heads": num_heads, "mlp_ratio": 4.0, **others}
    return CatalogEntry("vit.models.vision_transformer:VisionTransformer", image_size, options, about)


_NANO = _vit(8, 2, 64, 4, 4, "ViT for 8 to 16 pixels", mlp_ratio=2.0)
_RESNET = "vit.models.timm_network:SmallImageResNet"
CATALOG: dict[str, CatalogEntry] = {
    "vit": _vit(224, 16, 768, 12, 12, "a ViT of any size, by its values; as it stands ViT-B/16"),
    "vit_nano_patch2_8": _NANO,
    "vit_mini_patch4_28": _vit(28, 4, 128, 6, 4, "ViT for 16 to 64 pixels, of a small CNN's size"),
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
        "vit.models.ablations:AblatedTransformer", 8, _NANO.options,
        "vit_nano_patch2_8 that can lack its parts, for teaching",
    ),
    "resnet10_small": CatalogEntry(
        _RESNET, 32, {"layers": (1, 1, 1, 1), "widths": (32, 64, 128, 256)}, "small CNN for 8 to 64 pixels"
    ),
    "resnet18_cifar": CatalogEntry(_RESNET, 32, {}, "ResNet-18 with a 3x3 stem and no max-pool, for 8 to 64 pixels"),
}  # fmt: skip


def names(pattern: str = "*") -> list[str]:
    """Names that match a shell pattern: ours first, then timm's."""
    theirs = import_timm().list_models(pattern)
    return [name for name in CATALOG if fnmatch(name, pattern)] + [name for name in theirs if name not in CATALOG]


def entry(name: str) -> CatalogEntry:
    """The entry of the catalog, of an import path or of timm; UsageError with the nearest name when there is none."""
    if name in CATALOG:
        return CATALOG[name]
    if is_path(name):
        return _own_entry(name)
    timm = import_timm()
    if not timm.is_model(name):
        raise UsageError(f"no network is called {name!r} (--network)", f"{suggestion(name)} 'vit models' lists all")
    size = timm.models.get_pretrained_cfg_value(name, "input_size") or (3, 224, 224)
    return CatalogEntry("vit.models.timm_network:TimmNetwork", size[-1], about="timm", model=name)


def _own_entry(path: str) -> CatalogEntry:
    """The entry of a network of the user's; its config says the image size by its default."""
    network = load(path, "--network")
    if not _is_network(network):
        problem = f"--network {path} is not a network: {network!r}"
        raise UsageError(problem, "give a subclass of vit.models.network.Network with a config_class")
    size = getattr(network.config_class, "image_size", None)
    return CatalogEntry(path, size if isinstance(size, int) else 224, about="your own network")


def own_networks() -> tuple[list[str], list[str]]:
    """(the networks among the import paths that the user has named, what fails in the import of others)."""
    paths, problems = list[str](), list[str]()
    for path in trusted():
        try:
            paths += [path] * _is_network(load(path, VARIABLE))
        except UsageError as error:
            problems.append(error.problem)
    return paths, problems


def _is_network(found: object) -> bool:
    from vit.models.network import Network

    return isinstance(found, type) and issubclass(found, Network) and hasattr(found, "config_class")


def check_network(name: str, recipes: Iterable[str] = (), option: str = "--network") -> None:
    """Raise UsageError, with a suggestion, unless a name is of ours, of timm's, an import path, or one of `recipes`."""
    known = (*recipes, *CATALOG)
    if name in known or is_path(name) or name.partition(".")[0] in timm_names() or not timm_names():
        return
    fix = f"{suggestion(name, known)} 'vit models' lists all networks"
    raise UsageError(f"no network is called {name!r} ({option})", fix)


def check_image_size(network: Mapping[str, object], image_size: int | None) -> None:
    """Raise UsageError where the patches of one of our ViTs, as its name or an option says, do not divide an image."""
    name = str(network["name"])
    of_name = re.search(r"_patch(\d+)_", name) if name in CATALOG else None
    patch_size = network.get("patch_size", of_name and int(of_name[1]))
    if isinstance(patch_size, int) and patch_size > 0 and image_size is not None and image_size % patch_size:
        raise UsageError(f"{name}: {undivided(image_size, patch_size)}", "change model.network or --image_size")


def suggestion(name: str, own: Iterable[str] = CATALOG) -> str:
    """'did you mean X?' with our names that begin like this or are similar, else with the nearest name of timm."""
    own, name = list(own), name.removeprefix("timm:").partition(".")[0]  # as weights are named
    completions = [known for known in own if known.startswith(name)] if len(name) > 2 else []
    beginnings = {known[: len(name) + more]: None for known in own for more in (0, 1)}
    similar_beginnings = get_close_matches(name, beginnings, n=1, cutoff=_SIMILAR_BEGINNING) if len(name) > 2 else []
    similar = (
        completions
        or get_close_matches(name, own, n=1, cutoff=_SIMILAR)
        or [known for known in own if similar_beginnings and known.startswith(similar_beginnings[0])]
    )
    if not similar:
        return nearest(name, {*own, *timm_names()})
    if not completions:
        similar += get_close_matches(name, timm_names() - {*own}, n=1, cutoff=_NEARLY_THE_SAME)
    return f"did you mean {' or '.join(map(repr, similar[:3]))}?"
