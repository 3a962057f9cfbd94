"""The notebooks run from a clean kernel, and are stored with what they show: `pytest -m notebooks` for the first."""

import ast
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
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
    source = "\n".join(cell.source for cell in code(read(name)))
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
    found = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.ImportFrom)]
    own = [(node.module, alias.name) for node in found if node.module.startswith("vit.") for alias in node.names]
    for module, part in own:
        assert hasattr(import_module(module), part) or find_spec(f"{module}.{part}"), f"{module} has no {part}"


@pytest.mark.notebooks
@pytest.mark.parametrize("name", NAMES)
def test_runs_from_a_clean_kernel(tmp_path, name):
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = read(name)
    stored = pictures(notebook)
    for cell in code(notebook):
        cell.outputs = []
    place = {"metadata": {"path": str(tmp_path)}}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    client.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=place).execute(env=environment)
    assert pictures(notebook) == stored
    assert "Traceback" not in str(outputs(notebook))
