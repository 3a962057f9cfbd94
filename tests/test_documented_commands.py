"""Every option of a `vit` command that the documentation shows exists: a page cannot promise a flag that is gone."""

import re
import shlex
from functools import cache

import pytest

from tests.conftest import ask
from tests.processes import ROOT
from vit.__main__ import COMMANDS
from vit.commands.cli.recipe_options import shipped_configs

PAGES = sorted([ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
PLACES = re.compile(r"```.*?```|`([^`]+)`", re.DOTALL)


@cache
def help_of(command):
    answer = ask(command, "--help", "all").ok()
    return answer.out


def shown(page):
    """The command lines of a page, in blocks of code and within sentences."""
    for found in PLACES.finditer(page.read_text(encoding="utf-8")):
        lines = [found[1]] if found[1] else found[0].splitlines()
        for line in lines:
            if re.match(r"(\$ |srun )?vit [a-z]+ ", line):
                yield line[line.index("vit ") :]


def test_no_page_installs_from_an_index():
    assert not [page for page in PAGES if "install vit-" in page.read_text().replace("'", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_tests_exist(page):
    named = re.findall(r"\btests/[\w/]+\.py", page.read_text(encoding="utf-8"))
    assert not [path for path in named if not (ROOT / path).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_exist(page):
    for line in shown(page):
        _, command, *words = shlex.split(line.split(";")[0], comments=True)
        assert command in COMMANDS, line
        options = {word.split("=")[0] for word in words if word.startswith("--")}
        for option in options - {"--help", "--debug", "--print_schema"}:
            if option.startswith("--model.network."):
                continue  # the values of a network are those of its constructor
            assert re.search(rf"{re.escape(option)}\b", help_of(command)), f"{line}: {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_configs_exist(page):
    """A name is that of a shipped recipe. A path leads to a file, and `mine.yaml` is a file of the reader."""
    known = {*shipped_configs(), *(name.removeprefix("studies/") for name in shipped_configs())}

    def exists(name):
        if not name.endswith(".yaml"):
            return name in known
        return "/" not in name or (ROOT / name).is_file()

    named = [name for line in shown(page) for name in re.findall(r"--config[ =]([\w./-]+)", line)]
    assert not [name for name in named if not exists(name)]
    files = re.findall(r"\b(?:configs|evidence/make)/[\w/]+\.yaml", page.read_text(encoding="utf-8"))
    assert not [file for file in files if not (ROOT / file).is_file()]
