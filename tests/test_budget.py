"""The size of the house. A commit that must exceed a limit changes its number here, in the open.

A smaller number is always right: lower the limit with the commit that removes something.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vit"
LIMITS = {
    "lines of Python in vit/ outside vit/extras/": 43_380,
    "lines of Python in vit/extras/": 6_328,
    "lines of Python in tests/": 52_477,
    "files of Python in the fullest folder of vit/": 15,
    "lines of the longest file of Python in vit/": 300,
    "words in docs/": 60_200,
    "words on the longest page that is written by hand": 3_000,
    "lines of README.md": 100,
    "megabytes of evidence/": 20,
}
GENERATED = {"architecture.md", "claims.md", "faults.md", "leaderboard.md", "results.md"}


def lines_of(path: Path) -> int:
    """The number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def words_of(path: Path) -> int:
    """The number of words of a page, as `wc -w` counts them."""
    return len(path.read_text(encoding="utf-8").split())


def sizes() -> dict[str, int]:
    """What is limited, as it is now."""
    modules = [path for path in PACKAGE.rglob("*.py") if path.is_file()]
    extras = [path for path in modules if PACKAGE / "extras" in path.parents]
    folders = [path.parent for path in modules]
    pages = list((ROOT / "docs").rglob("*.md"))
    return {
        "lines of Python in vit/ outside vit/extras/": sum(map(lines_of, set(modules) - set(extras))),
        "lines of Python in vit/extras/": sum(map(lines_of, extras)),
        "lines of Python in tests/": sum(map(lines_of, (ROOT / "tests").rglob("*.py"))),
        "files of Python in the fullest folder of vit/": max(map(folders.count, folders)),
        "lines of the longest file of Python in vit/": max(map(lines_of, modules)),
        "words in docs/": sum(map(words_of, pages)),
        "words on the longest page that is written by hand": max(
            words_of(page) for page in pages if page.name not in GENERATED
        ),
        "lines of README.md": lines_of(ROOT / "README.md"),
        "megabytes of evidence/": sum(path.stat().st_size for path in (ROOT / "evidence").rglob("*.*")) // 10**6,
    }


@pytest.fixture(scope="module")
def measured():
    return sizes()


@pytest.mark.parametrize("what", LIMITS)
def test_a_size_is_within_its_limit(what, measured):
    assert measured[what] <= LIMITS[what], f"{measured[what]:,} {what}: remove something, or raise the limit here"


def test_every_size_has_a_limit(measured):
    assert measured.keys() == LIMITS.keys()
