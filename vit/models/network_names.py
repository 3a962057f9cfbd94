"""Names of timm's networks without timm, and timm itself, which takes seconds, where it is needed"""

import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

_REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)\(", re.MULTILINE)
_DEPRECATED = re.compile(r"register_model_deprecations\(__name__, \{(.*?)\}\)", re.DOTALL)
_KEY = re.compile(r"^\s*['\"](\w+)['\"]\s*:", re.MULTILINE)


@cache
def timm_names() -> frozenset[str]:
    """Names of the models of the installed timm, read from its source; empty if timm is not installed."""
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        return frozenset()
    names: set[str] = set()
    for path in Path(spec.origin).with_name("models").glob("*.py"):
        source = path.read_text(encoding="utf-8", errors="replace")
        names.update(_REGISTERED.findall(source))
        for block in _DEPRECATED.findall(source):
            names.update(_KEY.findall(block))
    return frozenset(names)


def import_timm() -> Any:
    """timm, imported without Weights & Biases: two fifths of the time are for a summary that is never written here."""
    if "timm" in sys.modules or "wandb" in sys.modules:
        return import_module("timm")
    modules = cast(dict[str, object], sys.modules)
    modules["wandb"] = None  # `import wandb` is an ImportError, which timm.utils.summary expects
    try:
        return import_module("timm")
    finally:
        del modules["wandb"]


def undivided(image_size: int, patch_size: int) -> str:
    """What is wrong with an image size that patches do not divide, and the sizes beside it that they divide."""
    below = image_size // patch_size * patch_size
    sizes = " and ".join(str(size) for size in (below, below + patch_size) if size)
    return f"image_size {image_size} is not divisible by patch_size {patch_size}, as {sizes} would be"
