"""The notebooks run from `pip install`, and are stored with what they show: `pytest -m notebooks` for the first."""

import ast
import os
import re
import subprocess
from importlib import import_module
from importlib.util import find_spec

import nbformat
import pytest

from tests.processes import ROOT
from tests.test_wheel import build_wheel, empty_environment

FOLDER = ROOT / "notebooks"
NAMES = ["attention_from_scratch", "vit_by_hand", "vit_or_cnn", "inside_a_vit", "your_images", "few_labels"]
SECONDS = 900  # of a cell, on a machine that is busy with other things
MEGABYTES = 1.5


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code(notebook) for output in cell.outputs]


def pictures(notebook):
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def test_every_notebook_is_listed():
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_stored_as_executed(name):
    notebook = read(name)
    nbformat.validate(notebook)
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MEGABYTES * 1e6
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    assert pictures(notebook) >= 3
    kinds = {output.output_type for output in outputs(notebook)}
    assert kinds <= {"stream", "display_data", "execute_result"}, "an error is stored"


@pytest.mark.parametrize("name", NAMES)
def test_shows_nothing_of_the_machine_it_was_made_on(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert not [word for word in ("site-packages", "ipykernel_", "Warning", "Traceback", "/tmp/") if word in text]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_imported_is_there(name):
    """Executing them takes minutes; a name that has moved shows at once."""
    source = re.sub(
        r"^(\s*)[%!].*$", r"\1pass", "\n".join(cell.source for cell in code(read(name))), flags=re.MULTILINE
    )
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    own = [(node.module, alias.name) for node in found if node.module.startswith("vit.") for alias in node.names]
    for module, part in own:
        assert hasattr(import_module(module), part) or find_spec(f"{module}.{part}"), f"{module} has no {part}"


@pytest.mark.parametrize("name", NAMES)
def test_opens_in_colab_and_installs_the_package(name):
    first, install = read(name).cells[:2]
    assert f"colab.research.google.com/github/OWNER/vit/blob/main/notebooks/{name}.ipynb)" in first.source
    assert 'find_spec("vit") is None' in install.source and "%pip install --quiet vit-lightning" in install.source


EXECUTE = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=int(sys.argv[2]), kernel_name="python3").execute()
nbformat.write(notebook, "executed.ipynb")
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(folder)
    return folder


@pytest.mark.notebooks
@pytest.mark.parametrize("name", NAMES)
def test_runs_in_an_environment_without_the_package(tmp_path, name, wheels):
    """The first cell installs the wheel. This environment's other packages are there already, so pip takes no other."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    python = empty_environment(tmp_path / "venv")
    pip = {"PIP_FIND_LINKS": str(wheels), "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | pip

    def run(*words):
        return subprocess.run([python, "-c", *words], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert "No module named 'vit'" in run("import vit").stderr
    done = run(EXECUTE, str(FOLDER / f"{name}.ipynb"), str(SECONDS))
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(tmp_path / "executed.ipynb", as_version=4)
    assert pictures(executed) == pictures(read(name)) and "Traceback" not in str(outputs(executed))
