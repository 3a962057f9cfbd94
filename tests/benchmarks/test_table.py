"""The table of docs/performance.md: written from measurements, and nothing that a person wrote is lost."""

import json
from dataclasses import asdict

import pytest

PAGE = "Written by hand.\n\n{begin}\n\nold rows\n\n{end}\n\nAlso by hand.\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """`written(speeds, goals, absent, reasons)` -> (text of the page, unexplained goals)."""
    import table
    from rows import Row
    from timing import Measurement, Work

    def write(speeds, goals=(), absent=None, reasons=""):
        monkeypatch.setattr(table, "ROWS", (Row("one", "a row", "x.py", goals=goals), Row("two", "another", "y.py")))
        (tmp_path / "why.toml").write_text(reasons)
        page = tmp_path / "page.md"
        page.write_text(PAGE.format(begin=table.BEGIN, end=table.END))
        found = Measurement("x", speeds, absent or {}, work=Work(1e9, "32-true"), peak=1e12, machine="CPU", day="today")
        (tmp_path / "one.json").write_text(json.dumps(asdict(found)))
        missing = table.write_table(tmp_path, page, tmp_path / "why.toml")
        return page.read_text(), missing

    return write


def test_a_row_has_ratio_goal_and_utilization(written):
    from rows import Goal

    speeds = {"vit": [100.0, 200.0, 300.0], "timm": [50.0, 50.0, 50.0], "other": [100.0, 100.0, 100.0]}
    text, missing = written(speeds, (Goal("timm", 1.8),), {"third": "not installed"})
    assert text.startswith("Written by hand.\n") and text.endswith("\nAlso by hand.\n") and "old rows" not in text
    assert "| a row | timm | 4.00 (2.00 to 6.00) | 3 | >= 1.80 | 200 | 20 % |  |" in text
    assert "|  | other | 2.00 (1.00 to 3.00) | 3 |  |  |  |  |" in text
    assert "|  | third | not installed |  |  |  |  |  |" in text
    assert "| another | not measured |  |  |  |  |  |  |" in text
    assert missing == []


def test_a_missed_goal_has_a_reason_or_is_named(written):
    from rows import Goal

    goals, speeds = (Goal("timm", 1.8),), {"vit": [10.0], "timm": [10.0]}
    text, missing = written(speeds, goals)
    assert missing == ["one: timm"] and "| 1.00 (1.00 to 1.00) | 1 | >= 1.80 | 10 | 1 % |  |" in text
    text, missing = written(speeds, goals, reasons='"one: timm" = "The kernel is slow."')
    assert missing == [] and "| The kernel is slow. |" in text


@pytest.mark.parametrize(
    ("measure", "limit", "value", "words", "met"),
    [
        ("ratio", 2.0, 0.5, ">= 2.00", False),
        ("share", 0.06, 0.5, "<= 6 %", False),
        ("time", 1.5, 2.0, "<= 1.50", False),
        ("time", 3.0, 2.0, "<= 3.00", True),
    ],
)
def test_goals_of_every_kind(measure, limit, value, words, met):
    from rows import Goal
    from timing import Measurement

    goal = Goal("theirs", limit, measure)
    values = goal.values(Measurement("x", {"ours": [2.0], "theirs": [4.0]}))
    assert values == [value] and goal.wanted == words and goal.is_met(values) == met


def test_rows_are_scripts_with_names_of_their_own():
    from all_rows import HERE
    from rows import ROWS

    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.script for row in ROWS if not (HERE / row.script).is_file()} <= {"train_photos.py"}


def test_the_page_has_a_place_for_the_table():
    from table import BEGIN, END, PAGE

    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
