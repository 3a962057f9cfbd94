"""The core works without the folder `extras`, and imports nothing of it but by name, through `vit/registry.py`."""

import ast
import json
import re
import shutil
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import vit
from tests.forked import run
from tests.processes import environment
from vit import registry
from vit.registry import Entry

PACKAGE = Path(vit.__file__).parent
EXTRAS = PACKAGE / "extras"
WITHOUT_PACKAGES = {"parquet", "pretrain", "shards"}  # extras that install nothing
ENTRIES = [
    *(entry for table in vars(registry).values() if isinstance(table, dict) for entry in table.values()
      if isinstance(entry, Entry)),
    *(entry for entry in vars(registry).values() if isinstance(entry, Entry)),
]  # fmt: skip


OF_THE_COPY = """
import json, sys
from pathlib import Path
for name in [name for name in sys.modules if name.split(".")[0] == "vit"]:
    del sys.modules[name]
from vit.__main__ import main
print([*map(main, json.loads(sys.argv[1]))])
files = [Path(module.__file__) for name, module in sys.modules.items() if name.split(".")[0] == "vit"]
print({file.is_relative_to(Path.cwd()) for file in files})
"""


def extras_of_project():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    return set(project["project"]["optional-dependencies"])


def imports_for_types(tree):
    """The import statements of a module that Python never runs: those below `if TYPE_CHECKING`."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {id(node) for block in blocks for node in ast.walk(block)}


def test_each_folder_has_the_name_of_an_extra():
    folders = {path.parent.name for path in EXTRAS.glob("*/*.py")}
    assert folders - WITHOUT_PACKAGES <= extras_of_project()


def test_the_first_page_lists_each_extra_once():
    page = (PACKAGE.parent / "docs" / "index.md").read_text(encoding="utf-8")
    table = re.search(r"\| extra \| adds \|\n(.*?)\n\n", page, re.DOTALL)[1]
    listed = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()))
    assert sorted(listed) == sorted(extras_of_project())


def test_every_entry_of_the_registry_exists():
    assert len(ENTRIES) > 10
    for entry in ENTRIES:
        path = EXTRAS / entry.extra / f"{entry.module}.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert entry.name in {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_the_core_imports_no_extra():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if EXTRAS in path.parents or "extras" not in text:
            continue
        tree = ast.parse(text)
        for_types = imports_for_types(tree) if path == PACKAGE / "__init__.py" else set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
                assert not f"{node.module}.{node.names[0].name}".startswith("vit.extras"), (path, ast.unparse(node))
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("vit.extras") for alias in node.names), (path, ast.unparse(node))
            if isinstance(node, ast.Constant) and path.name != "registry.py":
                assert "vit.extras" not in str(node.value), (path, ast.unparse(node))


def test_the_core_trains_predicts_and_exports_without_extras(digits_run, tmp_path):
    """In one process, with a copy of the package that has no extras; a part that is missing is named.

    The process has torch and forgets the `vit` of its server, so all modules are those of the copy.
    """
    folder = tmp_path / "core"
    shutil.copytree(PACKAGE, folder / "vit", ignore=shutil.ignore_patterns("extras", "__pycache__"))
    shutil.copytree(PACKAGE.parent / "configs", folder / "configs")
    small = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--optim.steps", 4, "--wandb", "off")
    (picture, *_) = (PACKAGE.parent / "docs").rglob("*.png")
    commands = [
        ("train", "digits", *small, "--out", tmp_path / "runs"),
        ("predict", digits_run.best, picture),
        ("export", digits_run.best, "--format", "safetensors", "--output", tmp_path / "m.safetensors"),
        ("train", "digits", "--tracker", "mlflow", "--dry_run"),
        ("serve", "m.ckpt"),
        ("pretrain", "digits"),
        ("study", "digits", "--executor", "ray"),
    ]
    done = run(
        [sys.executable, "-c", OF_THE_COPY, json.dumps([[str(word) for word in words] for words in commands])],
        cwd=folder, env=environment(folder) | {"PYTHONPATH": str(folder)}, timeout=300,
    )  # fmt: skip
    *out, codes, of_the_copy = done.stdout.splitlines()
    assert codes == "[0, 0, 0, 2, 2, 2, 2]" and picture.name in "".join(out), done.stderr
    assert of_the_copy == "{True}"
    assert list((tmp_path / "runs").rglob("best.ckpt")) and (tmp_path / "m.safetensors").is_file()
    assert find_spec("mlflow") is None or "lacks the part 'mlflow'" in done.stderr
    for extra in ("serve", "pretrain", "ray"):
        assert f"lacks the part {extra!r}" in done.stderr, done.stderr
