"""A measured number on a page has a source beside it: a command that measures it again, or evidence that is kept."""

import re

import pytest

from tests.processes import ROOT

DOCS = ROOT / "docs"
KEPT = {name: DOCS / f"{name}.md" for name in ("atlas", "claims", "leaderboard", "results")}  # by scripts
GENERATED = {*KEPT.values(), DOCS / "architecture.md", DOCS / "faults.md"}
NUMBER = re.compile(r"(?<![\w.,-])[+-]?\d[\d,]*\.\d+(?=(?: to [+-]?[\d,.]+)?(?: %| points| times| s\b| ms\b| hours))")
COMMAND = re.compile(r"`(?:python (benchmarks/[\w/]+\.py)|pytest [^`]*?(tests/[\w/]+(?:\.py)?)|make (\w+))")
FILE = re.compile(r"(?:\b|\()((?:\.\./)*(?:evidence|notebooks|benchmarks)/[\w./]+\w)")
LINK = re.compile(r"\]\([^)#]*?(\w+)\.md(?:#[^)]*)?\)")


def sections(page):
    """(heading, text without code blocks) of each section of a page that has measured numbers."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for section in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        if NUMBER.search(section):
            yield section.partition("\n")[0], section


def unfounded(section):
    """The numbers of a section without a source: all, unless it names a command or a file; else those no page has."""
    files = [name for found in COMMAND.findall(section) for name in found[:2] if name]
    files += [re.sub(r"^(\.\./)+", "", name) for name in FILE.findall(section)]
    missing = [name for name in files if not (ROOT / name).exists()]
    assert not missing, f"a source that does not exist: {missing}"
    makes = [name for *_, name in COMMAND.findall(section) if name]
    if files or any(f"\n{name}:" in (ROOT / "Makefile").read_text(encoding="utf-8") for name in makes):
        return []
    kept = " ".join(KEPT[name].read_text(encoding="utf-8") for name in LINK.findall(section) if name in KEPT)
    return [number for number in NUMBER.findall(section) if number.lstrip("+-") not in kept]


@pytest.mark.parametrize(
    ("page", "heading", "section"),
    [
        (page.relative_to(ROOT), *found)
        for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted({*DOCS.rglob("*.md")} - GENERATED)]
        for found in sections(page)
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_measured_number_has_a_source(page, heading, section):
    assert not unfounded(section), f"{page}, {heading}: name the command or the file that has these numbers"


def test_a_number_without_a_source_is_found():
    assert unfounded("## A\n\nIt is 97.31 % better.") == ["97.31"]
    assert unfounded("It is 97.3177 % ([results](results.md)).") == ["97.3177"]
    assert not unfounded("It is 97.31 % (`python benchmarks/lengths.py`).")
    with pytest.raises(AssertionError, match="does not exist"):
        unfounded("It is 97.31 % (`python benchmarks/nothing.py`).")
