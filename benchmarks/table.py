"""The table of docs/performance.md, written between two markers from the measurements of a folder."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from rows import ROWS, Goal, Row
from timing import Measurement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
WHY = Path(__file__).with_name("why.toml")
BEGIN, END = "<!-- rows: make bench -->", "<!-- end of rows -->"
HEAD = ("what", "against", "ratio: median (min to max)", "n", "goal", "ours, images/s", "MFU", "why below the goal")


def write_table(folder: Path, page: Path = PAGE, why: Path = WHY) -> list[str]:
    """Rewrite the rows of the page from the JSON files of a folder.

    Returns:
        Keys of goals that are missed and have no reason in the file of reasons.
    """
    measured = {row.name: Measurement.read(path) for row in ROWS if (path := folder / f"{row.name}.json").is_file()}
    reasons = tomllib.loads(why.read_text(encoding="utf-8"))
    between(page, BEGIN, END, [*_machines(measured), "", *_table(measured, reasons)])
    missed = [(row, goal) for row in ROWS if row.name in measured for goal in row.goals]
    return [
        _key(row, goal) for row, goal in missed if _misses(goal, measured[row.name]) and _key(row, goal) not in reasons
    ]


def between(page: Path, begin: str, end: str, lines: Sequence[str]) -> None:
    """Replace what a page has between two markers, and nothing else."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise SystemExit(f"{page} has no lines {begin} and {end}")
    page.write_text("\n".join((f"{before}{begin}", "", *lines, "", f"{end}{after}")), encoding="utf-8")


def _machines(measured: Mapping[str, Measurement]) -> Iterator[str]:
    """A paragraph for each machine, day and set of versions, and one for the matrix peaks."""
    seen: dict[str, list[str]] = {}
    for name, found in measured.items():
        packages = ", ".join(f"{package} {number}" for package, number in found.versions.items())
        seen.setdefault(f"{found.day}, {found.machine}. Versions: {packages}.", []).append(f"`{name}`")
    for line, names in seen.items():
        yield line if len(seen) == 1 else f"{', '.join(names)}: {line}"
        yield ""
    peaks: dict[str, list[float]] = {}
    for found in measured.values():
        if found.work and found.peak:
            peaks.setdefault(found.work.precision, []).append(found.peak / 1e9)
    for precision, values in peaks.items():
        yield f"Matrix peak in {precision}, measured beside each row: {min(values):,.0f} to {max(values):,.0f} GFLOP/s."


def _table(measured: Mapping[str, Measurement], reasons: Mapping[str, str]) -> Iterator[str]:
    yield _line(HEAD)
    yield _line(["---"] * len(HEAD))
    for row in ROWS:
        if row.name in measured:
            yield from _lines(row, measured[row.name], reasons)
        else:
            yield _line((row.title, "not measured"))


def _lines(row: Row, found: Measurement, reasons: Mapping[str, str]) -> Iterator[str]:
    """A line for each goal, then for each other side, then for each side that was not measured."""
    ours, *theirs = found.speeds
    goals = [goal for goal in row.goals if {goal.peer, goal.ours or ours} <= found.speeds.keys()]
    named = {side for goal in row.goals for side in (goal.peer, goal.ours)}
    shown = [*goals, *(Goal(side, 0.0) for side in theirs if side not in named)]
    for index, goal in enumerate(shown):
        values, is_first = goal.values(found), index == 0
        own_speed = _speed(median(found.speeds[goal.ours or ours])) if is_first or goal.ours else ""
        yield _line(
            (
                goal.title or (row.title if is_first else ""),
                goal.peer,
                f"{goal.written(median(values))} ({goal.written(min(values))} to {goal.written(max(values))})",
                len(values),
                goal.wanted if goal in goals else "",
                own_speed if found.unit == "images" else "",
                f"{100 * found.mfu:.0f} %" if found.mfu is not None and is_first else "",
                reasons.get(_key(row, goal), "") if _misses(goal, found) else "",
            )
        )
    missing = {goal.peer: "not measured" for goal in row.goals if goal not in goals and not goal.title}
    for side, reason in {**missing, **found.absent}.items():
        yield _line(("", side, reason))
    for goal in row.goals:
        if goal.title and goal not in goals:
            yield _line((goal.title, goal.peer, "not measured"))


def _key(row: Row, goal: Goal) -> str:
    """Name of a goal in the file of reasons."""
    return f"{row.name}: {goal.ours or goal.peer}"


def _misses(goal: Goal, found: Measurement) -> bool:
    """Whether a goal was measured and missed; an unnamed side of a row has the limit 0."""
    ours = goal.ours or next(iter(found.speeds))
    return {goal.peer, ours} <= found.speeds.keys() and not goal.is_met(goal.values(found))


def _speed(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _line(cells: Sequence[object]) -> str:
    filled = [str(cell) for cell in cells] + [""] * (len(HEAD) - len(cells))
    return f"| {' | '.join(filled)} |"
