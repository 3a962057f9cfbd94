"""Which test carries which number of docs/faults.md, read from the tests' text: nothing is imported or run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mark:
    """A number on a test.

    Attributes:
        id: of the row.
        test: the test function, as "tests/FILE.py::NAME".
        simulated: what stands in for the fault; empty where the fault itself happens.
    """

    id: str
    test: str
    simulated: str


def marks(tests: Path = ROOT / "tests") -> list[Mark]:
    """Every `pytest.mark.faults(ID, ..., simulated=...)`: of functions, of their parameters, of whole files."""
    found: list[Mark] = []
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_file = [node.value for node in tree.body if isinstance(node, ast.Assign) and _is_pytestmark(node)]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                name = f"{path.relative_to(tests.parent).as_posix()}::{node.name}"
                found += [mark for part in (*of_file, *node.decorator_list) for mark in _within(part, name)]
    return found


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def _within(tree: ast.expr, test: str) -> Iterator[Mark]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "faults":
            (simulated,) = [ast.literal_eval(word.value) for word in node.keywords] or [""]
            yield from (Mark(str(ast.literal_eval(number)), test, simulated) for number in node.args)
