"""Every failure that a user can fix: what happened, where, how to fix it, and the exit code that says its kind."""

import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class VitError(Exception):
    """A failure told in one line: `vit: error[CODE]: what and where; how to fix`."""

    code = 1

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.problem}; {self.fix}"


class UsageError(VitError):
    """The command line or a config asks for something that cannot be."""

    code = 2


class DataError(VitError):
    """The data cannot be used as they are."""

    code = 3


class CheckpointError(VitError):
    """A checkpoint, or a file of weights, cannot be used."""

    code = 4


class BadInputsError(VitError):
    """The command finished, but some of its inputs failed (each one is listed in its output)."""

    code = 5


class DivergedError(VitError):
    """Training left the finite numbers."""

    code = 6


class ResourceError(VitError):
    """Disk, memory or permission is missing, or somebody else holds what is needed."""

    code = 7


class ProcessesError(VitError):
    """One of several processes that work together has ended, or cannot be reached."""

    code = 8


class DisagreementError(ProcessesError):
    """Processes that work together are not alike; each of them knows it, and the first one says it."""


class StoppedError(VitError):
    """Somebody ended a training: Ctrl-C (130), SIGTERM (143) or SIGUSR1 (138)."""

    def __init__(self, code: int, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.code = code


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or PyTorch, on a CPU or a GPU, could not get the memory that it asked for."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"  # torch's, which is not imported for this
        or "can't allocate memory" in str(error)  # what PyTorch says of a CPU
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the error's type; at most 300 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def install(extra: str) -> str:
    """How to install one of this program's extras, for the `fix` half of an error: no package index has it."""
    clone = Path(__file__).parents[1]
    if not (clone / "pyproject.toml").is_file():
        return f"in a clone of this program: pip install '.[{extra}]'"
    return f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(f'{clone}[{extra}]')}"


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean X?' for the nearest known name, else all of them; for the `fix` half of an error."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:12])
    return f"choose one of {shown}" + (", ..." if len(names) > 12 else "")
