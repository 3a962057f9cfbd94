"""The files of a run and of a study have their names in one place."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import vit
from vit.layout import CELLS, EvaluationLayout, File, RunLayout, StudyLayout

PACKAGE = Path(vit.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "layout.py")
OF_OTHERS = {"commands/predicting/predict.py": {"predictions.csv"}}  # its default output, outside a run


def strings(tree: ast.AST) -> Iterator[str]:
    """Every string of a module but docstrings; of an f-string its parts."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def named() -> list[Path]:
    """Every path that the layouts know, in a folder X."""
    found: list[Path] = []
    for kind in (RunLayout, EvaluationLayout, StudyLayout):
        folder = kind(Path("X"))
        for name, member in inspect.getmembers_static(kind):
            if isinstance(member, File | property) and isinstance(path := getattr(folder, name), Path):
                found.append(path)
            elif name in ("scored_path", "per_class_path", "figure_path", "evaluation_dir"):
                found.append(getattr(folder, name)("N"))
    return found


FILE_NAMES = {path.name for path in named() if path.suffix and "N" not in path.stem} | {".lock"}
FOLDER_NAMES = {part for path in named() for part in path.parts[1:] if "." not in part and part != "N"}


def test_the_layout_knows_the_files_that_a_user_sees() -> None:
    assert {"config.yaml", "classes.json", "result.json", "best.ckpt", "last.ckpt", "study.json"} <= FILE_NAMES
    assert {
        "checkpoints", "predictions", "figures", "evaluations", "tensorboard", CELLS, "jobs", "frozen",
    } == FOLDER_NAMES  # fmt: skip


def test_no_other_module_names_a_file_or_a_folder_of_a_run() -> None:
    """A folder is an operand of `/` or a part of `Path(...)`; the words alone are also keys and titles."""
    ends = re.compile(rf"(^|/)({'|'.join(map(re.escape, sorted(FILE_NAMES)))})$")
    found: dict[str, set[str]] = {}
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {text for text in strings(tree) if ends.search(text)}
        for node in ast.walk(tree):
            parts = [node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Path":
                parts += node.args
            texts |= {str(part.value) for part in parts if isinstance(part, ast.Constant)} & FOLDER_NAMES
        if texts:
            found[path.relative_to(PACKAGE).as_posix()] = texts
    assert found == OF_OTHERS
