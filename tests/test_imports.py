"""Who may import whom.

commands -> report -> study -> training | export | explain -> inference | weights -> checkpoints -> models | data.
"""

import ast
from pathlib import Path

import pytest

import vit
from vit.__main__ import COMMANDS

PACKAGE = Path(vit.__file__).parent
GROUND = {"errors", "atomic_files", "launch", "csv_files", "console", "layout"}  # each imports `errors` alone
BELOW: dict[str, set[str]] = {"models": set(), "data": set()}
BELOW["checkpoints"] = {"models", "data"}
BELOW["weights"] = BELOW["inference"] = BELOW["checkpoints"] | {"checkpoints"}
BELOW["training"] = BELOW["weights"] | {"weights", "inference"}
BELOW["export"] = BELOW["weights"] | {"weights", "inference"}
BELOW["explain"] = BELOW["inference"] | {"inference"}
BELOW["study"] = BELOW["training"] | {"training"}
BELOW["report"] = BELOW["study"] | {"study", "explain"}
BELOW["commands"] = BELOW["report"] | {"report", "export", "__init__"}
MAY_IMPORT = {
    **{room: {"errors"} for room in GROUND},
    **{room: rooms | GROUND for room, rooms in BELOW.items()},
    "__main__": {"commands", "console", "launch", "errors", "__init__"},
    "__init__": {"models", "inference", "commands"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Full names of the modules of this package that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide what is imported"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "vit"}


def part(name: str) -> str:
    """The part of the package that a full name belongs to."""
    words = name.split(".")
    return words[1] if len(words) > 1 and words[1] in MAY_IMPORT else "__init__"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    others = {name: part(name) for name in imported(path)}
    wrong = {name for name, theirs in others.items() if theirs != own and theirs not in MAY_IMPORT[own]}
    assert not wrong


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_imports_another(name):
    others = {f"vit.commands.{other}" for other in COMMANDS} - {f"vit.commands.{name}"}
    reached = imported(PACKAGE / "commands" / f"{name}.py")
    for module in ("arguments", "reading", "recipe_options", "study_options", "study_report"):
        reached |= imported(PACKAGE / "commands" / f"{module}.py")
    assert not {full for full in reached for other in others if full == other or full.startswith(f"{other}.")}
