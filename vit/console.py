"""All terminal output: lines, tables, progress; control characters in names are made harmless"""

import math
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

LOG_EVERY_SECONDS = 15.0
LOG_WIDTH = 160


def harmless(text: str) -> str:
    """Text without control characters: a file name must not move the cursor, change colors or break a line.

    Bytes that are not UTF-8 (surrogates in Python) become question marks.
    """
    shown = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)


class Reporter:
    """Writes results to standard output, and notices and progress to standard error.

    Args:
        quiet: write nothing, as all processes but the first one do.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.out = _console(sys.stdout.isatty(), quiet)
        self.err = _console(sys.stderr.isatty(), quiet, stderr=True)

    def line(self, text: str = "") -> None:
        """Print a line of the result. A line break at its start prints an empty line first."""
        self.out.print("\n" * text.startswith("\n") + harmless(text.removeprefix("\n")))

    def notice(self, text: str) -> None:
        """Print a notice, which is not part of the result."""
        self.err.print("\n" * text.startswith("\n") + harmless(text.removeprefix("\n")))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
        """Print a table with numbers aligned to the right."""
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        cells = [[str(cell) for cell in row] for row in rows]
        for place, name in enumerate(columns):
            numeric = all(row[place][:1].isdigit() or row[place][:1] in "-." for row in cells)
            table.add_column(name, justify="right" if numeric and cells else "left")
        for row in cells:
            table.add_row(*(Text(harmless(cell)) for cell in row))
        self.out.print(table, soft_wrap=False)

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one pair on each line."""
        pairs = list(facts)
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            self.line(f"  {name:<{width}}  {value}")

    def next_command(self, command: str) -> None:
        """Print the next useful command, which is the last line of every command."""
        self.line(f"\nNext: {command}")


class _PlainConsole(Console):
    """A console that leaves a closed pipe to `vit.__main__`. rich would end the program with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(is_terminal: bool, quiet: bool, stderr: bool = False) -> Console:
    """A console as wide as its terminal. A log has a fixed width, and its lines are not broken."""
    width = None if is_terminal else LOG_WIDTH
    return _PlainConsole(
        highlight=False,
        soft_wrap=True,
        quiet=quiet,
        markup=False,
        emoji=False,
        stderr=stderr,
        width=width,
        force_jupyter=False,  # else every line is a separate output
    )


class _TimeLeft(ProgressColumn):
    """Counts down between updates. The column of rich forgets updates older than half a minute."""

    def render(self, task: Task) -> Text:
        """Time until `ends`, if it is known."""
        ends = task.fields["ends"]
        return Text("" if ends is None else f"{duration(max(0.0, ends - time.monotonic()))} left")


class ProgressReport:
    """Progress of a long task: a bar on a terminal, a plain line every 15 seconds in a log.

    The first update gives the start. The time left is estimated from the progress since then. A `with` block closes it.
    """

    def __init__(self, reporter: Reporter, verb: str) -> None:
        self.reporter = reporter
        self.verb = verb
        self._started = self._spoken = time.monotonic()
        self._first: tuple[float, float] | None = None  # time of the first update, and the finished fraction then
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, done: int, total: int, words: str = "", share: float | None = None) -> None:
        """Show the progress.

        Args:
            done: number of finished parts.
            total: number of all parts.
            words: details to show.
            share: finished fraction of the work, where parts differ in their work.
        """
        share, now = done / max(total, 1) if share is None else share, time.monotonic()
        if self._first is None:
            self._first = now, share
        elapsed, gained = now - self._first[0], share - self._first[1]
        left = elapsed / gained * (1 - share) if gained > 0 else None
        if sys.stderr.isatty():
            self._draw(f"{done:,}/{total:,}", words, share, None if left is None else now + left)
        elif now - self._spoken >= LOG_EVERY_SECONDS or (done == total and now - self._started >= LOG_EVERY_SECONDS):
            self._spoken = now
            remaining = "" if left is None else f"{duration(left)} left"
            self.reporter.notice("  ".join(filter(None, (f"{self.verb} {done:,}/{total:,}", words, remaining))))

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self, count: str, words: str, share: float, ends: float | None) -> None:
        if self._bar is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TextColumn("{task.fields[words]}"),
            )
            self._bar = Progress(*columns, _TimeLeft(), console=self.reporter.err, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.verb, total=1.0, count="", words="", ends=None)
        assert self._task is not None
        self._bar.update(self._task, completed=share, count=count, words=words, ends=ends)


def duration(seconds: float) -> str:
    """A duration in words: 45 s, 12 min, 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def percent(value: float, digits: int = 2) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.{digits}f} %"


def p_value(value: float) -> str:
    """A p value in three digits; empty for NaN."""
    if math.isnan(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def interval(value: float, low: float, high: float) -> str:
    """A fraction with its interval, in percent."""
    return f"{percent(value)} ({100 * low:.2f} to {100 * high:.2f})"
