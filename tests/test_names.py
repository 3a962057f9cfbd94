"""Public class names are unique in vit/: a name in a traceback or a docstring means one class."""

import ast
from collections import defaultdict
from pathlib import Path

VIT = Path(__file__).parents[1] / "vit"


def test_public_class_names_are_unique():
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(VIT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(VIT).as_posix())
    repeated = {name: files for name, files in places.items() if len(files) > 1}
    assert repeated == {}
