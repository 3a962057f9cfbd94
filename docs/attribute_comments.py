"""An extension of Griffe: the comment beside a field, or above it, is the field's text in the API reference."""

import ast
from pathlib import Path
from typing import Any

from griffe import Attribute, Docstring, Extension

OF_TOOLS = ("fmt:", "noqa", "type:")  # comments for programs


class AttributeComments(Extension):
    """Fields of `vit` have comments in the place of docstrings: `steps: int  # optimizer steps`."""

    def on_attribute_instance(self, *, node: Any, attr: Attribute, **_: Any) -> None:
        """Give the attribute its comment, unless it has a docstring."""
        if attr.docstring is None and isinstance(node, ast.AnnAssign | ast.Assign):
            assert isinstance(attr.filepath, Path)  # of several where a package has no file
            lines = attr.lines_collection[attr.filepath]
            if (text := comment(lines, node)) and not text.startswith(OF_TOOLS):
                attr.docstring = Docstring(text, parent=attr)


def comment(lines: list[str], node: ast.stmt) -> str:
    """The comment at the end of a statement, or else the lines of comment directly above it."""
    assert node.end_lineno is not None
    beside = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()
    if beside.startswith("#"):
        return beside.removeprefix("#").strip()
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith("#"):
            break
        above.append(line.strip().removeprefix("#").strip())
    return " ".join(reversed(above))
