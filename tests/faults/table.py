"""docs/faults.md, made from the rows, from the tests' marks, and from a recorded run of these tests.

`make faults` runs the tests and writes it: `pytest -m faults --record_faults`, the same with -m "faults and slow", and
`python -m tests.faults.table`.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.faults import input_rows, operation_rows
from tests.faults.marks import Mark, marks
from tests.faults.recording import Outcomes, read
from tests.faults.rows import Fault

SECTIONS: dict[str, tuple[Fault, ...]] = {**input_rows.SECTIONS, **operation_rows.SECTIONS}
FAULTS = tuple(fault for faults in SECTIONS.values() for fault in faults)
DOCUMENT = Path(__file__).parents[2] / "docs" / "faults.md"
REAL, SIMULATED, FAILED, NOT_SHOWN = "a real fault", "a simulation", "**failed**", "**not shown**"

BEGINNING = """# Faults: what breaks, and what happens then

`make faults` writes this page, so do not edit it. A test shows each row. The last column is empty where the fault
itself happens in a passing test. Otherwise it names what stands in for the fault, or the day on which a test marked
`slow` passed. [Exit codes](reference/exit_codes.md) lists the codes.
"""


@dataclass(frozen=True)
class State:
    """How far a row is shown.

    Attributes:
        shown: one of REAL, SIMULATED, FAILED, NOT_SHOWN.
        date: of the run of slow tests, where no other test shows the row.
        simulated: what stands in for the fault, where every passing test simulates it.
    """

    shown: str
    date: str = ""
    simulated: str = ""


def states(carried: list[Mark], outcomes: Outcomes) -> dict[str, State]:
    """The state of every row: what is recorded counts for tests that still exist and still carry the number."""
    found = {}
    for fault in FAULTS:
        mine = [mark for mark in carried if mark.id == fault.id]
        results = {mark: outcomes.get(mark.test, {}).get("rows", {}).get(fault.id) for mark in mine}
        passed = [mark for mark, result in results.items() if result == "passed"]
        real = [mark for mark in passed if not mark.simulated]
        evidence = real or passed
        dates = [outcomes[mark.test]["date"] for mark in evidence]
        quick = any(not outcomes[mark.test]["slow"] for mark in evidence)
        if "failed" in results.values():
            found[fault.id] = State(FAILED)
        elif not passed:
            found[fault.id] = State(NOT_SHOWN)
        else:
            words = "; ".join(dict.fromkeys(mark.simulated for mark in passed)) if not real else ""
            found[fault.id] = State(REAL if real else SIMULATED, "" if quick else max(dates), words)
    return found


def document(known: dict[str, State]) -> str:
    """The text of docs/faults.md."""
    counts = Counter(state.shown for state in known.values())
    counted = [f"{counts[REAL]} are shown by a real fault", f"{counts[SIMULATED]} by a simulation"]
    counted += [f"{counts[shown]} {words}" for shown, words in ((FAILED, "failed"), (NOT_SHOWN, "are not shown"))
                if counts[shown]]  # fmt: skip
    parts = [BEGINNING, f"Of {len(FAULTS)} rows, {', '.join(counted)}.\n"]
    for title, faults in SECTIONS.items():
        lines = [f"## {title}\n", "|#|fault|what happens|exit code|simulated, or date|", "|---|---|---|---|---|"]
        for fault in faults:
            state = known[fault.id]
            code = "" if fault.code is None else str(fault.code)
            stands_in = state.simulated and f"simulated: {state.simulated}"
            shown = state.shown if state.shown in (FAILED, NOT_SHOWN) else ""
            why = ", ".join(filter(None, (shown, state.date, fault.open if state.shown == NOT_SHOWN else stands_in)))
            lines.append(f"|{fault.id}|{fault.what}|{fault.then}|{code}|{why}|")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    DOCUMENT.write_text(document(states(marks(), read())), encoding="utf-8")
