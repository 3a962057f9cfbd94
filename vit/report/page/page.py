"""What all pages share: escaping templates, pictures inside the page, scripts, links, summaries, writing"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from vit.atomic_files import atomic_write
from vit.console import harmless, percent
from vit.data.core.dataset_names import is_far
from vit.errors import ResourceError, explained

templates = Environment(
    loader=PackageLoader("vit.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    # every name passes through here, so that none can be forgotten
    finalize=lambda value: harmless(value) if type(value) is str else value,
)
templates.filters["percent"] = percent


def write_page(path: Path, template: str, content: Mapping[str, object], is_new: bool = False) -> None:
    """Write a page whole or not at all. Letters that cannot be encoded become question marks."""
    html = templates.get_template(template).render(content)
    with atomic_write(path, is_new) as partial:
        partial.write_text(html, encoding="utf-8", errors="replace")


def write_new_page(path: Path, template: str, content: Mapping[str, object]) -> None:
    """Write a page whose name was free, making its folder. ResourceError: it cannot be written, or is there now."""
    with explained(ResourceError, f"cannot write {path}", "give another name"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, template, content, is_new=True)


def inline(content: bytes, kind: str) -> Markup:
    """The source of an <img> that needs no other file; `kind` is a media type."""
    return Markup("data:%s;base64,%s") % (kind, base64.b64encode(content).decode("ascii"))


def with_next_steps(lines: Sequence[str], steps: Sequence[str]) -> list[str]:
    """The lines of a summary with its advice below."""
    return [*lines, "What to do next:", *(f"- {step}" for step in steps)] if steps else list(lines)


def scripts(*names: str) -> dict[str, object]:
    """What a template needs for its scripts: their text, and its hash for the policy of the page.

    "table.js" sorts and filters tables, "copy.js" copies a text.
    """
    folder = files("vit.report") / "templates"
    text = "".join((folder / name).read_text(encoding="utf-8") for name in names)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return {"script": Markup(text), "script_hash": f"sha256-{digest}"}  # noqa: S704  our own files


def link_to(path: str | Path, page: Path) -> str | None:
    """The address of a file, seen from a page; None where there is none.

    Every part of a path is quoted, so that none is a scheme.
    """
    if is_far(os.fspath(path)):
        return quote(os.fspath(path), safe=":/?=&%") if os.fspath(path).startswith("https://") else None
    try:
        return quote(os.fsencode(os.path.relpath(path, page.parent)))
    except ValueError:  # on another drive, or no path at all
        return None
