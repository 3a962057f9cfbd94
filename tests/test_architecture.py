"""docs/architecture.md shows the tree as it is: its table follows from the first line of each module's docstring."""

import sys

import pytest

from tests.processes import ROOT


@pytest.fixture(scope="module")
def generator():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_architecture
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return make_architecture


def test_the_page_shows_the_tree(generator):
    text = generator.PAGE.read_text(encoding="utf-8")
    assert generator.page(text) == text, 'run "python docs/make_architecture.py"'


def test_every_room_is_a_package(generator):
    folders = {path.parent for path in generator.PACKAGE.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").is_file()]


def test_a_module_that_is_missing_from_the_page_is_found(generator):
    text = generator.PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.split(generator.BEGIN)[1].splitlines() if line.startswith("- `")]
    assert len(rows) > 100
    assert generator.page(text.replace(f"{rows[7]}\n", "")) == text
