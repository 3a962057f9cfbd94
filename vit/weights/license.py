"""The license of pretrained weights, as far as timm's configuration or a model card states it"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.plain_files import parse_yaml

if TYPE_CHECKING:
    from vit.weights.formats.weight_format import TimmModel

PERMISSIVE = ("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc-by-4.0", "cc0-1.0", "unlicense")
UNKNOWN = "not stated"
CARD = "README.md"
_MAX_CARD = 1 << 20
_HEADER = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[\w.+-]{1,80}")  # the hub's identifiers of licenses
_NOT_COMMERCIAL = re.compile(r"(^|[-_])(nc|non-?commercial)($|[-_])", re.IGNORECASE)


def license_of(model: "TimmModel | None") -> str:
    """The license of a model's weights; "not stated" where timm does not know them."""
    return _stated(None if model is None else model.config.get("license"))


def license_of_card(folder: Path) -> str:
    """The license in the YAML header of a folder's card: a word, a list, or "other" beside `license_name`."""
    card = folder / CARD
    try:
        if not card.is_file() or card.stat().st_size > _MAX_CARD:
            return UNKNOWN
        header = _HEADER.match(card.read_text(encoding="utf-8"))
        plain: Any = parse_yaml(header[1]) if header else None
    except Exception:  # noqa: BLE001  an untrusted card never keeps weights from loading
        return UNKNOWN
    if not isinstance(plain, Mapping):
        return UNKNOWN
    found = plain.get("license")
    words = found if isinstance(found, list) else [found]
    named = [plain.get("license_name") if word == "other" and plain.get("license_name") else word for word in words]
    stated = [word for word in map(_stated, named) if word != UNKNOWN]
    return ", ".join(dict.fromkeys(stated)) or UNKNOWN


def _stated(word: object) -> str:
    """A license as a word; "not stated" for anything else."""
    is_word = isinstance(word, str) and _WORD.fullmatch(word) is not None and word != "unknown"
    return str(word) if is_word else UNKNOWN


def restricts(license: str) -> bool:
    """Whether a license is stated that is not one of the usual permissive licenses."""
    return license != UNKNOWN and any(word not in PERMISSIVE for word in license.split(", "))


def license_text(license: str) -> str:
    """A license with a warning where it is not one of the usual permissive licenses."""
    if not restricts(license):
        return license
    if any(_NOT_COMMERCIAL.search(word) for word in license.split(", ")):
        return f"{license}: its name excludes commercial use, so read it before you publish or sell a model"
    return f"{license}: it may restrict some uses, so read it before you publish or sell a model"
