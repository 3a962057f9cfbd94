"""Terminal output: harmless complete lines, from the first process only."""

import re
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from vit import console
from vit.console import ProgressReport, Reporter, count_of, duration, harmless, interval, p_value, percent, silenced


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
def test_quiet_names_what_a_warning_is_about(capsys):
    with silenced(True):
        reporter = Reporter()
    reporter.notice("read")
    reporter.notice("WARNING: 3 images cannot be read")
    reporter.some(["a.png: damaged", "b.png: empty", "c.png: empty"], most=2)
    assert capsys.readouterr().err.splitlines() == [
        "WARNING: 3 images cannot be read", "  a.png: damaged", "  b.png: empty", "  ..."
    ]  # fmt: skip


def test_long_names_of_columns_leave_room_for_the_names_of_rows(capsys):
    """Runs of one second have their paths as names: the names of the options had no width at all."""
    paths = [f"/a/long/folder/of/{name}/runs/seed1/photos/vit_nano_patch2_8/20261130-044730" * 2 for name in "ab"]
    Reporter().table(("", *paths), [("training images", "20 (set 1)", "20 (set 2)"), ("seed", "1", "12345678")])
    shown = capsys.readouterr().out
    assert "training images" in shown and "20 (set 1)" in shown and "12345678" in shown


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


def test_what_was_done_before_does_not_count_for_the_time_left(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    progress = ProgressReport(Reporter(), "step")
    for done in range(901, 921):  # a training that resumes after step 900
        clock[0] = float(done - 900)
        progress.update(done, 1000)
    assert capsys.readouterr().err == "step 915/1,000  85 s left\n"


def test_a_terminal_gets_a_bar_whose_parts_may_differ(monkeypatch):
    clock, shown = [0.0], StringIO()
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(console.sys.stderr, "isatty", lambda: True)
    reporter = Reporter()
    reporter.err = Console(file=shown, force_terminal=True, width=100, color_system=None)
    progress = ProgressReport(reporter, "cell")
    progress.update(0, 3, "2 running", share=0.0)
    clock[0] = 60.0
    progress.update(1, 3, "2 running", share=0.1)  # two large ones are left
    progress.close()
    last = shown.getvalue().replace("\r", "\n").splitlines()
    bars = [line for line in last if "1/3" in line]
    assert bars and "2 running" in bars[-1] and "9 min left" in bars[-1]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5369, "89 min"), (5400, "1 h 30 min"), (7500, "2 h 05 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "1 epoch"), (1.0, "1 epoch"), (2000, "2,000 epochs"), (12345.0, "12,345 epochs"), (1 / 3, "0.3333 epochs")],
)
def test_counts(number, words):
    assert count_of(number, "epoch") == words


def test_shares():
    assert percent(-0.00001) == "0.00 %"
    assert percent(0.12345) == "12.35 %" and percent(1.0, 0) == "100 %" and percent(0.0) == "0.00 %"
    assert [percent(0.9996, digits) for digits in (0, 1, 2)] == ["> 99 %", "> 99.9 %", "99.96 %"]
    assert [percent(0.0004, digits) for digits in (0, 1, 2)] == ["< 1 %", "< 0.1 %", "0.04 %"]
    assert interval(0.99999, 0.999, 1.0) == "> 99.99 % (99.90 to 100.00)" and interval(0.5, None, 1.0) == "50.00 %"
    assert interval(0.5, 0.25, 0.75) == "50.00 % (25.00 to 75.00)"


@given(st.floats(0, 1))
def test_a_shown_p_value_is_below_the_level_where_the_value_is(value):
    shown = p_value(value)
    assert shown == "< 0.001" or (float(shown) < 0.05) == (value < 0.05)
    assert [p_value(p) for p in (0.0496, 0.04997, 0.05, 0.3)] == ["0.0496", "0.04997", "0.050", "0.300"]


NOUNS = r"(images|files|classes|labels|names|rows|tensors|runs|folds|probes|models|configs|values|positions)\b"
COUNT = re.compile(r"\{(len\([^{}]*?\)|num_\w+)(\.\w+)?\} (?:of \{|(?:\w+ )?" + NOUNS + r"|\{[^{}]*\bkinds)")


def test_counts_in_sentences_have_commas_at_thousands():
    """A data set may have 1,500 classes; see also `count_of`, which knows that one image is not 1 images."""
    vit = Path(__file__).parents[1] / "vit"
    lines = [line for path in vit.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [line.strip() for line in lines if COUNT.search(line)]
