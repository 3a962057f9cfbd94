"""What all pages share: escaping templates, pictures inside the page, summaries, writing"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from vit.atomic_files import atomic_write
from vit.console import harmless

templates = Environment(
    loader=PackageLoader("vit.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    # every name passes through here, so that none can be forgotten
    finalize=lambda value: harmless(value) if type(value) is str else value,
)


def write_page(path: Path, template: str, content: Mapping[str, object]) -> None:
    """Write a page whole or not at all. Letters that cannot be encoded become question marks."""
    html = templates.get_template(template).render(content)
    with atomic_write(path) as partial:
        partial.write_text(html, encoding="utf-8", errors="replace")


def inline(content: bytes, kind: str) -> Markup:
    """The source of an <img> that needs no other file; `kind` is a media type."""
    return Markup("data:%s;base64,%s") % (kind, base64.b64encode(content).decode("ascii"))


def with_next_steps(lines: Sequence[str], steps: Sequence[str]) -> list[str]:
    """The lines of a summary with its advice below."""
    return [*lines, "What to do next:", *(f"- {step}" for step in steps)] if steps else list(lines)
