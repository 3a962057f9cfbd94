"""A program in a pseudo terminal, with pyte as the terminal that it draws on."""

import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import Self

import pyte

SECONDS = 60.0  # that a test waits for a text


class _Screen(pyte.HistoryScreen):
    """A screen that counts the lines that were too long for it."""

    too_long = 0

    def draw(self, data: str) -> None:
        for char in data:
            self.too_long += self.cursor.x == self.columns
            super().draw(char)


class Terminal:
    """A program that believes it is used by a person.

    Args:
        words: its command line.
        folder: its working folder.
        variables: environment variables beside those of this process.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        variables: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._screen = _Screen(columns, rows, history=10_000, ratio=1.0)
        self._stream = pyte.ByteStream(self._screen)
        self.received = b""
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._program = subprocess.Popen(
            words, cwd=folder, env={**environment, "TERM": "xterm", **(variables or {})},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        self._program.wait()
        os.close(self._ours)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def wait_for(self, is_there: Callable[[Self], bool] | str) -> None:
        """Read what the program writes until a text is on the screen, or something else holds."""
        end = time.monotonic() + SECONDS
        while not (is_there in self.text if isinstance(is_there, str) else is_there(self)):
            assert time.monotonic() < end, self.text
            assert self._read() or self._program.poll() is None, self.text

    def finish(self) -> int:
        """Read to the end of the program; returns its exit code."""
        end = time.monotonic() + SECONDS
        while self._read() or self._program.poll() is None:
            assert time.monotonic() < end, self.text
        return self._program.wait()

    @property
    def text(self) -> str:
        """Everything that is on the screen, and that has left it at the top."""
        above = (
            "".join(line[column].data for column in range(self._screen.columns)) for line in self._screen.history.top
        )
        return "\n".join(line.rstrip() for line in (*above, *self._screen.display))

    @property
    def too_long(self) -> int:
        """How many characters did not fit in their line."""
        return self._screen.too_long

    def _read(self) -> bool:
        """Read what is there; returns whether something was."""
        if not select.select([self._ours], [], [], 0.05)[0]:
            return False
        try:
            found = os.read(self._ours, 65_536)
        except OSError:  # Linux: the program has ended
            return False
        self.received += found
        self._stream.feed(found)
        return bool(found)


def _own_terminal() -> None:
    """Make the terminal the controlling one, as a shell expects it."""
    ioctl(0, termios.TIOCSCTTY, 0)
