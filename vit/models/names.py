"""Names of networks, without the libraries that build them: a misspelt one is refused before torch is imported."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from vit.errors import UsageError, nearest

OWN = (  # the entries of the catalog
    "vit",
    "vit_nano_patch2_8",
    "vit_mini_patch4_28",
    "vit_tiny_cifar",
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_small_patch32_224",
    "vit_base_patch16_224",
    "vit_base_patch32_224",
    "vit_large_patch16_224",
    "vit_huge_patch14_224",
    "resnet10_small",
    "resnet18_cifar",
)
_SIMILAR, _SIMILAR_BEGINNING = 0.75, 0.85  # of a name of ours, to be suggested before one of timm's
_NEARLY_THE_SAME = 0.93  # of one of timm's, to be suggested as well
_REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)\(", re.MULTILINE)
_DEPRECATED = re.compile(r"register_model_deprecations\(__name__, \{(.*?)\}\)", re.DOTALL)
_KEY = re.compile(r"^\s*['\"](\w+)['\"]\s*:", re.MULTILINE)


@cache
def timm_names() -> frozenset[str]:
    """The models of the installed timm, read from its source; empty where there is none to read."""
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
    """Raise UsageError, with the nearest name, if no network is called so.

    Args:
        recipes: names that may stand in its place here.
    """
    own = (*recipes, *OWN)
    if name in own or name.partition(".")[0] in timm_names() or not timm_names():
        return
    raise UsageError(
        f"no network is called {name!r} (--network)", f"{suggestion(name, own)} 'vit models' lists all networks"
    )


def suggestion(name: str, own: Iterable[str] = OWN) -> str:
    """'did you mean X?': names of ours that begin so or are similar, else the nearest of timm's."""
    own = list(own)
    begin_so = [known for known in own if known.startswith(name)] if len(name) > 2 else []
    beginnings = {known[: len(name) + more]: None for known in own for more in (0, 1)}
    meant = get_close_matches(name, beginnings, n=1, cutoff=_SIMILAR_BEGINNING) if len(name) > 2 else []
    found = (
        begin_so
        or get_close_matches(name, own, n=1, cutoff=_SIMILAR)
        or [known for known in own if meant and known.startswith(meant[0])]
    )
    if not found:
        return nearest(name, {*own, *timm_names()})
    if not begin_so:
        found += get_close_matches(name, timm_names() - {*own}, n=1, cutoff=_NEARLY_THE_SAME)
    return f"did you mean {' or '.join(map(repr, found[:3]))}?"
