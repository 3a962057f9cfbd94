"""Imports go one way, between rooms and inside rooms.

commands -> report -> study -> training | export | explain -> inference | weights -> checkpoints -> models | data
-> tasks. `extras` may import everything, and nothing imports `extras`: `registry` finds it by name (test_extras.py).
A room is a folder of `vit/`, or a module directly in `vit/`. A sub-room is a folder inside a room.
"""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import vit
from vit.__main__ import COMMANDS
from vit.registry import command_module

PACKAGE = Path(vit.__file__).parent
# Each of these imports `errors` alone; tables are also plain files.
GROUND = {"errors", "version", "own_code", "atomic_files", "launch", "memory", "csv_files", "console", "layout",
          "plain_files", "registry", "options", "ranges"}  # fmt: skip
BELOW: dict[str, set[str]] = {"models": set(), "tasks": set(), "data": {"tasks"}}
BELOW["checkpoints"] = {"models", "data", "tasks"}
BELOW["weights"] = BELOW["inference"] = BELOW["checkpoints"] | {"checkpoints"}
BELOW["training"] = BELOW["weights"] | {"weights", "inference"}
BELOW["export"] = BELOW["weights"] | {"weights", "inference"}
BELOW["explain"] = BELOW["inference"] | {"inference"}
BELOW["study"] = BELOW["training"] | {"training"}
BELOW["report"] = BELOW["study"] | {"study", "explain"}
BELOW["commands"] = BELOW["report"] | {"report", "export"}
BELOW["extras"] = BELOW["commands"] | {"commands"}
MAY_IMPORT = {
    **{room: {"errors"} for room in GROUND},
    "console": {"errors", "own_code"},
    "csv_files": {"errors", "plain_files"},
    "options": {"errors", "plain_files"},
    **{room: rooms | GROUND for room, rooms in BELOW.items()},
    "__main__": {"commands", "console", "launch", "memory", "errors", "own_code", "registry", "version"},
    "__init__": {"models", "inference", "commands", "csv_files", "registry", "version", "extras"},  # for types alone
}


def module_name(path: Path) -> str:
    """The full name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
SUBROOMS = {".".join(module.split(".")[:3]) for module in MODULES if module.count(".") > 2}


@cache
def imported(path: Path) -> set[str]:
    """Full names that a file imports from this package, anywhere in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide what is imported"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "vit"}


def imported_modules(path: Path) -> set[str]:
    """Full names of the modules of this package that a file imports."""
    return {name if name in MODULES else name.rpartition(".")[0] or name for name in imported(path)}


def room(name: str) -> str:
    """The room of a full name; `__init__` for names that `vit/__init__.py` defines."""
    words = name.split(".")
    return words[1] if len(words) > 1 and words[1] in MAY_IMPORT else "__init__"


def subroom(module: str) -> str:
    """The sub-room of a module, or the module itself where it is not in a sub-room."""
    return next((name for name in SUBROOMS if module.startswith(f"{name}.")), module)


def test_the_table_lists_every_room_and_no_other():
    entries = [entry for entry in PACKAGE.iterdir() if entry.suffix == ".py" or any(entry.rglob("*.py"))]
    assert {entry.name.removesuffix(".py") for entry in entries} == set(MAY_IMPORT)
    assert set().union(*MAY_IMPORT.values()) <= set(MAY_IMPORT)


def test_the_table_has_no_cycle():
    floors = {name: rooms - {name} for name, rooms in MAY_IMPORT.items()}
    assert list(TopologicalSorter(floors).static_order())


def test_imports_go_one_way():
    wrong = []
    for module, path in MODULES.items():
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        wrong += [(module, name) for name in imported(path) if room(name) not in {own, *MAY_IMPORT[own]}]
    assert wrong == []


def test_imports_inside_rooms_go_one_way():
    """A room has no cycle, where a sub-room counts as one module: its files import no file that uses the sub-room."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        own = subroom(module)
        same_room = {subroom(other) for other in imported_modules(path) if room(other) == room(module) != "__init__"}
        graph.setdefault(own, set()).update(same_room - {own})
    assert list(TopologicalSorter(graph).static_order())


def test_imports_of_modules_go_one_way():
    assert {"vit.training.callbacks", "vit.training.distributed", "vit.weights.formats"} <= SUBROOMS
    graph = {module: imported_modules(path) - {"vit"} for module, path in MODULES.items() if module != "vit"}
    assert list(TopologicalSorter(graph).static_order())


def test_no_command_imports_another():
    """Not even through the modules that commands share."""
    homes = {command_module(command).__name__ for command in COMMANDS}
    for home in homes:
        reached, waiting = set[str](), {home}
        while waiting:
            module = waiting.pop()
            reached.add(module)
            waiting |= {
                other for other in imported_modules(MODULES[module]) if room(other) in ("commands", "extras")
            } - reached
        assert reached & homes == {home}
