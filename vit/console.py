"""Terminal output: lines, tables and progress; control characters in names are escaped."""

import math
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table
from rich.text import Text

from vit.own_code import VARIABLE, trusted

LOG_EVERY_SECONDS = 15.0  # between two lines of progress in a log
LOG_WIDTH = 160  # characters
LEAST_WIDTH = 20  # of the text beside a name, in a narrow terminal
PATH_INDENT = 4  # of a path that is too long beside its name
HEAD_EVERY = 20  # rows between two heads of a table that grows
T = TypeVar("T")
_SILENT = ContextVar("silent", default=False)
_SHELL_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+""")


def harmless(text: str) -> str:
    """Text with escaped control characters, which move a cursor or break a line; bytes that are not UTF-8 are "?"."""
    shown = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)


@contextmanager
def silenced(is_silent: bool) -> Iterator[None]:
    """While entered: new reporters print warnings alone."""
    token = _SILENT.set(is_silent or _SILENT.get())
    try:
        yield
    finally:
        _SILENT.reset(token)


class Reporter:
    """Prints results to standard output, notices and progress to standard error; of several processes, the first."""

    def __init__(self, quiet: bool = False) -> None:
        silent = quiet or _SILENT.get()
        self.out = _console(sys.stdout.isatty(), silent)
        self.err = _console(sys.stderr.isatty(), silent, stderr=True)
        self._warnings = _console(sys.stderr.isatty(), quiet, stderr=True)

    def line(self, text: str = "") -> None:
        """Print a line of the result. A line break at the start of the text gives an empty line."""
        _print(self.out, text)

    def notice(self, text: str) -> None:
        """Print a message that is not part of the result; an empty text is none."""
        if text:
            _print(self._warnings if text.lstrip().startswith("WARNING") else self.err, text)

    def warn(self, *sentences: str) -> None:
        """Print each sentence as a warning; an empty one is none."""
        for sentence in filter(None, sentences):
            self.notice(f"WARNING: {sentence}")

    def some(self, lines: Sequence[str], most: int = 10) -> None:
        """Print the first lines below a warning with a margin, and "..." where there are more."""
        for text in [*lines[:most], *["..."] * (len(lines) > most)]:
            _print(self._warnings, f"  {text}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], spare: Sequence[str] = ()) -> None:
        """Print a table, if it has rows. A narrow terminal leaves `spare` columns out, whose values stand elsewhere."""
        cells = [[harmless(str(cell)) for cell in row] for row in rows]
        if not cells:
            return
        shown = list(columns)
        for name in spare if self.out.file.isatty() else ():
            widths = [max(map(cell_len, column)) for column in zip(shown, *cells, strict=True)]
            if sum(widths) + 2 * len(widths) - 2 <= self.out.width:
                break
            left_out = shown.index(name)
            del shown[left_out]
            cells = [row[:left_out] + row[left_out + 1 :] for row in cells]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, name in enumerate(shown):
            numeric = all(row[column][:1].isdigit() or row[column][:1] in "-.<>" for row in cells)
            # in a narrow terminal, paths and names are folded, also those of columns, and numbers are not
            whole = max(cell_len(row[column]) for row in cells) if numeric else None
            table.add_column(name, justify="right" if numeric else "left", overflow="fold", min_width=whole)
        for row in cells:
            table.add_row(*map(Text, row))
        with self.out.capture() as drawn:
            self.out.print(table, soft_wrap=False)
        print("\n".join(map(str.rstrip, drawn.get().split("\n"))), end="", file=self.out.file)

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one pair per line."""
        pairs = list(facts)
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            _print(self.out, value, f"  {harmless(name):<{width}}  ")

    def next_command(self, command: str) -> None:
        """Print the next useful command: the last line of every command. A terminal shows lines that a shell joins."""
        needed = "" if all(path in command for path in trusted()) else f"{VARIABLE}={','.join(trusted())} "
        text = f"Next: {needed}{harmless(command)}"
        first, *words = _SHELL_WORD.findall(text)
        if self.out.file.isatty() and " ".join([first, *words]) == text:
            text = "\n".join(_lines([first, *(f" {word}" for word in words)], self.out.width, 4, " \\"))
        self.out.print(f"\n{text}")


class _PlainConsole(Console):
    """A console that raises BrokenPipeError for `vit.__main__`. Rich would end the program with code 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(is_terminal: bool, quiet: bool, stderr: bool = False) -> Console:
    """A console with the width of its terminal, or LOG_WIDTH in a log. Lines are not broken."""
    width = None if is_terminal else LOG_WIDTH
    return _PlainConsole(
        highlight=False,
        soft_wrap=True,
        quiet=quiet,
        markup=False,
        emoji=False,
        stderr=stderr,
        width=width,
        force_jupyter=False,  # in a notebook, each line would be a separate output
    )


def _print(console: Console, text: str, beside: str = "") -> None:
    """Print text beside a name. A terminal gets lines that are broken between words; a long path stays whole."""
    if text.startswith("\n"):
        console.print()
    whole = beside + harmless(text.removeprefix("\n"))
    if console.file.isatty():
        indent = cell_len(beside) or len(whole) - len(whole.lstrip(" "))
        start, (first, *words) = whole[:indent], re.findall(r" *[^ ]+(?: %)?", whole[indent:]) or [""]
        if beside and cell_len(whole[:indent] + first) > console.width:
            start, indent, first, words = beside.rstrip(), PATH_INDENT, "", [" " * console.width + first, *words]
        whole = "\n".join(_lines([start + first, *words], max(console.width, indent + LEAST_WIDTH), indent))
    console.print(whole)


def _lines(words: Sequence[str], width: int, indent: int, ending: str = "") -> list[str]:
    """Lines of words with the spaces before them; all but the last have an ending."""
    lines = [words[0]]
    for word in words[1:]:
        if cell_len(lines[-1] + word + ending) <= width:
            lines[-1] += word
        else:
            lines.append(" " * indent + word.lstrip(" "))
    return [line + ending for line in lines[:-1]] + lines[-1:]


class GrowingTable:
    """A table that gets its rows one by one, in columns of fixed widths; in a log, a line for each row."""

    def __init__(self, reporter: Reporter, widths: Mapping[str, int]) -> None:
        self.reporter = reporter
        self.widths = {name: max(width, cell_len(name)) for name, width in widths.items()}
        self._rows = 0

    def row(self, values: Mapping[str, str], log_line: str | None = None) -> None:
        """Print a row; a column without a value stays empty. `log_line` is that of a log; None: names and values."""
        if not _draws(self.reporter):
            self.reporter.notice(log_line or "  ".join(f"{name} {value}" for name, value in values.items() if value))
            return
        has_head = self._rows % HEAD_EVERY == 0
        gap = 2 if sum(self.widths.values()) + 2 * len(self.widths) <= self.reporter.err.width else 1
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold", show_header=has_head)
        for name, width in self.widths.items():
            table.add_column(Text(harmless(name)), justify="right", width=width, no_wrap=True)
        table.add_row(*(Text(harmless(values.get(name, ""))) for name in self.widths))
        self.reporter.err.print(table, soft_wrap=False)
        self._rows += 1


def _draws(reporter: Reporter) -> bool:
    """Whether progress is drawn: on a terminal that can move its cursor."""
    return sys.stderr.isatty() and not reporter.err.is_dumb_terminal


class ProgressReport:
    """Progress of a long task since its first update: a bar on a terminal, a line every 15 seconds in a log."""

    def __init__(self, reporter: Reporter, verb: str) -> None:
        self.reporter = reporter
        self.verb = verb
        self._started = self._printed = time.monotonic()
        self._first: tuple[float, float] | None = None  # time and finished fraction of the first update
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, done: int, total: int, words: str = "", share: float | None = None) -> None:
        """Show the progress; `share` is the finished fraction of parts of different lengths, None: done / total."""
        now = time.monotonic()
        if share is None:
            share = done / max(total, 1)
        if self._first is None:
            self._first = now, share
        elapsed, gained = now - self._first[0], share - self._first[1]
        left = f"{duration(elapsed / gained * (1 - share))} left" if gained > 0 else ""
        if _draws(self.reporter):
            self._draw(f"{done:,}/{total:,}", words, share, left)
        elif now - self._printed >= LOG_EVERY_SECONDS or (done == total and now - self._started >= LOG_EVERY_SECONDS):
            self._printed = now
            self.reporter.notice("  ".join(filter(None, (f"{self.verb} {done:,}/{total:,}", words, left))))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self, count: str, words: str, share: float, left: str) -> None:
        if self._bar is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TextColumn("{task.fields[words]}"),
                TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),  # the bar is shortened instead
            )
            self._bar = Progress(*columns, console=self.reporter.err, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.verb, total=1.0, count="", words="", left="")
        assert self._task is not None
        self._bar.update(self._task, completed=share, count=count, words=words, left=left)


def tracked(rows: Iterable[T], total: int, reporter: Reporter, verb: str) -> Iterator[T]:
    """The same rows, with progress."""
    with ProgressReport(reporter, verb) as progress:
        progress.update(0, total)
        for done, row in enumerate(rows, start=1):
            yield row
            progress.update(done, total)


def duration(seconds: float) -> str:
    """A time in words: 45 s, 12 min, 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def percent(value: float, digits: int = 2, sign: str = " %") -> str:
    """A fraction as a percentage; "< 0.01 %" and "> 99.99 %" where rounding would make it 0 or 100 %."""
    shown, least = f"{100 * value:z.{digits}f}", 10.0**-digits
    if 0 < value < 1 and float(shown) in (0, 100):
        shown = f"< {least:.{digits}f}" if value < 0.5 else f"> {100 - least:.{digits}f}"
    return shown + sign


def count_of(number: float, thing: str, things: str = "") -> str:
    """A number of things: "1 image", "2,000 images"; a fraction has four digits: "0.3333 epochs", "12,346 epochs"."""
    shown = f"{float(f'{number:.4g}'):,}".removesuffix(".0") if number < 1000 else f"{number:,.0f}"
    return f"{shown} {thing if number == 1 else things or f'{thing}s'}"


def p_value(value: float) -> str:
    """A p value with three digits, and with more where it would be rounded up to 0.05; empty for NaN."""
    if math.isnan(value):
        return ""
    digits = 3
    while value < 0.05 <= round(value, digits):
        digits += 1
    return "< 0.001" if value < 0.001 else f"{value:.{digits}f}"


def interval(value: float, low: float | None, high: float | None) -> str:
    """A fraction in percent, with its interval where both ends are known."""
    around = "" if low is None or high is None else f" ({100 * low:.2f} to {100 * high:.2f})"
    return percent(value) + around
