"""Names of networks, without heavy imports: a wrong name is an error before torch is imported."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from vit.errors import UsageError, nearest
from vit.own_code import is_path

OWN = (  # networks of the catalog
    "vit",
    "vit_nano_patch2_8",
    "vit_mini_patch4_28",
    "vit_tiny_cifar",
    "vitc_mini_patch4_28",
    "vitc_tiny_cifar",
    "vitc_tiny_patch16_224",
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_small_patch32_224",
    "vit_base_patch16_224",
    "vit_base_patch32_224",
    "vit_large_patch16_224",
    "vit_huge_patch14_224",
    "vit_nano_ablated",
    "resnet10_small",
    "resnet18_cifar",
)
_SIMILAR, _SIMILAR_BEGINNING = 0.75, 0.85  # similarity from which our names are suggested before those of timm
_NEARLY_THE_SAME = 0.93  # similarity from which a name of timm is also suggested
_REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)\(", re.MULTILINE)
_DEPRECATED = re.compile(r"register_model_deprecations\(__name__, \{(.*?)\}\)", re.DOTALL)
_KEY = re.compile(r"^\s*['\"](\w+)['\"]\s*:", re.MULTILINE)


@cache
def timm_names() -> frozenset[str]:
    """Names of the models of the installed timm, read from its source; empty if timm is not installed."""
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        return frozenset()
    found: set[str] = set()
    for path in Path(spec.origin).with_name("models").glob("*.py"):
        source = path.read_text(encoding="utf-8", errors="replace")
        found.update(_REGISTERED.findall(source))
        for block in _DEPRECATED.findall(source):
            found.update(_KEY.findall(block))
    return frozenset(found)


def check_network(name: str, recipes: Iterable[str] = ()) -> None:
    """Raise UsageError, with a suggestion, if no network of ours or timm's has this name, and it is not an import path.

    `recipes` are names of configs that are valid here too.
    """
    own = (*recipes, *OWN)
    if name in own or is_path(name) or name.partition(".")[0] in timm_names() or not timm_names():
        return
    raise UsageError(
        f"no network is called {name!r} (--network)", f"{suggestion(name, own)} 'vit models' lists all networks"
    )


def check_image_size(network: Mapping[str, object], image_size: int | None) -> None:
    """Raise UsageError where the patches of one of our ViTs, as its name or an option says, do not divide an image."""
    name = str(network["name"])
    of_name = re.search(r"_patch(\d+)_", name) if name in OWN else None
    patch_size = network.get("patch_size", of_name and int(of_name[1]))
    if isinstance(patch_size, int) and patch_size > 0 and image_size is not None and image_size % patch_size:
        raise UsageError(f"{name}: {undivided(image_size, patch_size)}", "change model.network or --image_size")


def undivided(image_size: int, patch_size: int) -> str:
    """What is wrong with an image size that patches do not divide, and the sizes beside it that they divide."""
    below = image_size // patch_size * patch_size
    sizes = " and ".join(str(size) for size in (below, below + patch_size) if size)
    return f"image_size {image_size} is not divisible by patch_size {patch_size}, as {sizes} would be"


def suggestion(name: str, own: Iterable[str] = OWN) -> str:
    """'did you mean X?' with our names that begin like this or are similar, else with the nearest name of timm."""
    own = list(own)
    completions = [known for known in own if known.startswith(name)] if len(name) > 2 else []
    beginnings = {known[: len(name) + more]: None for known in own for more in (0, 1)}
    similar_beginnings = get_close_matches(name, beginnings, n=1, cutoff=_SIMILAR_BEGINNING) if len(name) > 2 else []
    found = (
        completions
        or get_close_matches(name, own, n=1, cutoff=_SIMILAR)
        or [known for known in own if similar_beginnings and known.startswith(similar_beginnings[0])]
    )
    if not found:
        return nearest(name, {*own, *timm_names()})
    if not completions:
        found += get_close_matches(name, timm_names() - {*own}, n=1, cutoff=_NEARLY_THE_SAME)
    return f"did you mean {' or '.join(map(repr, found[:3]))}?"
