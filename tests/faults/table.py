"""docs/faults.md, made from the rows that the tests are marked with: `python -m tests.faults.table` writes it."""

import re
from pathlib import Path

from tests.faults import input_rows, operation_rows
from tests.faults.rows import Fault

SECTIONS: dict[str, tuple[Fault, ...]] = {**input_rows.SECTIONS, **operation_rows.SECTIONS}
FAULTS = tuple(fault for faults in SECTIONS.values() for fault in faults)
DOCUMENT = Path(__file__).parents[2] / "docs" / "faults.md"

BEGINNING = """# Faults: what breaks, and what happens then

Made from `tests/faults/` by `python -m tests.faults.table`; do not edit. Every row whose last column is empty is shown
by at least one test that carries its number: `pytest -m faults` runs them, `pytest -m "faults and slow"` the long ones.

Exit codes: 0 done; 1 internal error; 2 wrong usage; 3 unusable data; 4 unusable checkpoint; 5 some inputs failed (each
is listed); 6 training diverged; 7 a resource is missing (disk, memory, permission); 8 processes lost each other;
130 / 143 / 138 ended by Ctrl-C, SIGTERM or SIGUSR1, with everything saved. An error is one line that says what, where
and how to mend it; `--debug` adds the traceback.
"""


def document() -> str:
    """The text of docs/faults.md."""
    kept = sum(not fault.open for fault in FAULTS)
    parts = [BEGINNING, f"{kept} of {len(FAULTS)} are so.\n"]
    for title, faults in SECTIONS.items():
        lines = [f"## {title}\n", "| # | fault | what happens | exit code | not so yet |", "|---|---|---|---|---|"]
        for fault in faults:
            code = "" if fault.code is None else str(fault.code)
            lines.append(" | ".join((f"| {fault.id}", fault.what, fault.then, code, f"{fault.open} |")))
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def marked(tests: Path) -> dict[str, list[str]]:
    """Which test files carry which number, read from their text: {id: names of files}."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        for names in re.findall(r"mark\.faults\(([^)]*)\)", path.read_text(encoding="utf-8")):
            for name in re.findall(r"\"(\w+)\"", names):
                found.setdefault(name, []).append(path.name)
    return found


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
