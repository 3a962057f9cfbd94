"""Writes the list of modules in docs/architecture.md from the first line of each module's docstring.

    python docs/make_architecture.py

The rest of the page is written by hand. tests/test_architecture.py fails where the table is not the tree's.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vit"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: python docs/make_architecture.py -->", "<!-- end of rooms -->"


def first_line(path: Path) -> str:
    """The first line of a module's docstring, without its period."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring")
    return text.splitlines()[0].rstrip(".")


def section(folder: Path) -> str:
    """The list of one room: what it is, its modules, then those of the rooms inside."""
    rows = [f"### `{folder.relative_to(ROOT)}/`", "", first_line(folder / "__init__.py") + ".", ""]
    files = sorted(path for path in folder.rglob("*.py") if path != folder / "__init__.py")
    files.sort(key=lambda path: (path.parent != folder, path.parent))  # a room's own modules before its inner rooms
    for path in files:
        name = path.parent if path.stem == "__init__" else path
        shown = f"{name.relative_to(folder)}{'/' if name is path.parent else ''}"
        rows.append(f"- `{shown}`: {first_line(path)}")
    return "\n".join(rows)


def table() -> str:
    """All rooms, and the modules beside them."""
    rooms = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
    beside = sorted(path for path in PACKAGE.glob("*.py"))
    rows = ["### Beside the rooms", ""]
    rows += [f"- `{path.relative_to(ROOT)}`: {first_line(path)}" for path in beside]
    return "\n\n".join([*map(section, rooms), "\n".join(rows)])


def page(text: str) -> str:
    """The page with the tree's table between the two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
