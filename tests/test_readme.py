"""The README is short, its sentences are short, and its links lead somewhere; so do those of the other pages."""

import re
import statistics
from pathlib import Path

import pytest

from tests.processes import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN = [
    page for page in PAGES if page.name not in ("CHANGELOG.md", "faults.md")
]  # by hand, and by the rules of README
PAGE_NAMES = {page.name for page in PAGES}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def sentences(markdown):
    """The sentences of a page without code, tables, headings and pictures; an item of a list is one."""
    text = re.sub(r"```.*?```|!\[.*?\]\(.*?\)", "", markdown, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks = re.split(r"\n\s*\n|\n(?=- )", text)
    kept = [" ".join(block.split()) for block in blocks if not block.startswith(("|", "#", "    "))]
    found = [sentence for block in kept for sentence in re.split(r"(?<=[.!?:])\**\s+", block.lstrip("- "))]
    return [sentence.split() for sentence in found if sentence]


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 100
    lengths = [len(words) for words in sentences(README)]
    assert statistics.median(lengths) <= 15
    assert max(lengths) <= 25, max(sentences(README), key=len)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page):
    longest = max(sentences(page.read_text(encoding="utf-8")), key=len)
    assert len(longest) <= 28, " ".join(longest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        if not target.startswith(("http://", "https://", "#")):
            path = (page.parent / target.split("#")[0]).resolve()
            generated = path.parent == ROOT / "docs" and path.name in ("contributing.md", "security.md")
            reference = ROOT / "docs" / "reference" in path.parents  # docs/site_hooks.py; `make docs` checks the rest
            assert path.exists() or generated or reference, target
            if "#" in target and path.suffix == ".md" and path.exists():
                assert target.split("#")[1] in anchors(path), target


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("evidence/**/README.md")], ids=lambda page: page.parent.name)
def test_named_files_of_the_repository_are_kept(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:docs|vit|tests|benchmarks|configs|evidence|examples)/[\w/-]+\.\w+)`", text)
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


def test_the_files_of_evidence_are_kept():
    text = (ROOT / "evidence" / "README.md").read_text(encoding="utf-8")
    kept = {path.name for path in (ROOT / "evidence").rglob("*.*")}
    assert {Path(name).name for name in re.findall(r"`([\w/]+\.(?:jsonl|toml|md))`", text)} <= kept | PAGE_NAMES
