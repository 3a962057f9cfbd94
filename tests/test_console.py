"""What a person reads: harmless, whole lines, and only from the first process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit import console
from vit.console import ProgressReport, Reporter, duration, harmless, interval, percent


@pytest.mark.faults("H3")
@given(st.text())
def test_harmless_text_is_one_printable_line(text):
    shown = harmless(text)
    assert all(char.isprintable() for char in shown)
    assert harmless(shown) == shown
    if text.isprintable():
        assert shown == text


def test_odd_bytes_become_question_marks():
    assert harmless("caf\udce9\n\x1b[2J") == r"caf?\n\x1b[2J"


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "a :smile: b", "x" * 500, "  two  spaces"])
def test_lines_are_printed_as_they_are(capsys, text):
    reporter = Reporter()
    reporter.line(text)
    reporter.notice(text)
    assert capsys.readouterr() == (f"{text}\n", f"{text}\n")


def test_a_quiet_reporter_says_nothing(capsys):
    reporter = Reporter(quiet=True)
    reporter.line("x")
    reporter.notice("x")
    reporter.table(("a",), [("b",)])
    reporter.next_command("x")
    assert capsys.readouterr() == ("", "")


@pytest.mark.faults("H3")
def test_a_table_escapes_and_aligns(capsys):
    Reporter().table(("class", "images"), [("[red]a\n", 5), ("bb", 123)])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "class     images", r"[red]a\n       5", "bb           123"
    ]  # fmt: skip


def test_a_log_gets_a_line_of_progress_now_and_then(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    progress = ProgressReport(Reporter(), "step")
    for done in range(1, 101):
        clock[0] = float(done)
        progress.update(done, 100, "loss 1")
    progress.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "step 15/100  loss 1  85 s left" and lines[-1] == "step 100/100  loss 1  0 s left"
    assert len(lines) == 7


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5369, "89 min"), (5400, "1 h 30 min"), (7500, "2 h 05 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_shares():
    assert percent(0.12345) == "12.35 %" and percent(1.0, 0) == "100 %"
    assert interval({"value": 0.5, "low": 0.25, "high": 0.75}) == "50.00 % (25.00 to 75.00)"
