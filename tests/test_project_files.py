"""Files by which other programs know the project (workflows, issue forms, citation, agents) agree with it."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import vit
from tests.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.dependabot", ".github/dependabot.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_files_of_the_project_host_fit_their_schemas(schema, pattern):
    files = sorted(map(str, ROOT.glob(pattern)))
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_call_targets_that_exist():
    targets = set(re.findall(r"^([\w/$().-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set()
    for path in [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / ".ci" / "run"]:
        called |= set(re.findall(r"\bmake (\w+)", path.read_text()))
    assert called == {"check", "test", "docs"} and called <= targets


@pytest.mark.parametrize("has_uv", [True, False])
def test_make_installs_with_uv_where_there_is_one_and_else_with_pip(has_uv, tmp_path):
    folder, programs = tmp_path / "my projects", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("make", "sh"):
        (programs / name).symlink_to(shutil.which(name))
    if has_uv:
        (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    done = subprocess.run(
        ["make", "--dry-run", "demo", "test"], cwd=folder, env={"PATH": str(programs)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    installs = [line.partition(" install ") for line in done.stdout.splitlines() if " install " in line]
    pip = "uv pip" if has_uv else ".venv/bin/python -m pip"
    assert {start for start, *_ in installs} == {pip}
    base, dev = (rest for *_, rest in installs if "--editable" in rest)
    assert base.endswith("--constraint constraints.txt --editable .") and dev.endswith("--editable . --group dev")
    assert any("'pip>=25.1'" in rest for *_, rest in installs) is not has_uv, "an older pip has no --group"
    assert "GB" in done.stdout, "it says how much it installs"


def test_workflows_try_the_versions_that_the_project_admits():
    (test,) = (job for name, job in _yaml(".github/workflows/ci.yml")["jobs"].items() if name == "test")
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert set(test["strategy"]["matrix"]["python"]) == named == {"3.11", "3.12", "3.13", "3.14"}
    assert PROJECT["requires-python"] == ">=3.11,<3.15"


def test_the_citation_has_the_version_and_the_license_of_the_project():
    citation = _yaml("CITATION.cff")
    assert (citation["version"], citation["license"]) == (vit.__version__, PROJECT["license"])


def test_the_lock_is_current_and_names_one_index_and_pip_gets_its_versions():
    def uv(*words):
        command = [Path(sys.executable).with_name("uv"), *words, "--offline", "--python", sys.executable]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    current = uv("lock", "--check")
    assert current.returncode == 0, f"{current.stderr}\nuv lock"
    text = (ROOT / "uv.lock").read_text()
    assert set(re.findall(r"https?://[^/\"]+", text)) == {"https://pypi.org", "https://files.pythonhosted.org"}
    _, line, *versions = (ROOT / "constraints.txt").read_text().splitlines()
    command, _, _ = line.partition(" --output-file")
    exported = uv(*command.split()[2:]).stdout.splitlines()
    assert [row for row in exported if not row.startswith("#")] == versions, line


@pytest.mark.parametrize("name", ["AGENTS.md", "llms.txt"])
def test_pages_for_programs_are_short_and_name_files_that_exist(name):
    text = (ROOT / name).read_text()
    assert len(text.splitlines()) <= 60
    named = {path for path in re.findall(r"\]\(([\w./]+)\)", text) if "://" not in path}
    named |= set(re.findall(r"`([\w/]+\.\w+|[\w/]+/)`", text))
    assert named and all((ROOT / path).exists() for path in named), [p for p in named if not (ROOT / p).exists()]


def test_the_container_and_the_hooks_are_readable():
    assert json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["postCreateCommand"] == "make check"
    (local,) = _yaml(".pre-commit-config.yaml")["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff", "format", "mypy"]


def _yaml(name):
    return yaml.safe_load((ROOT / name).read_text())
