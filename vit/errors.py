"""Failures that a user can fix: the problem, its place, the fix, and an exit code."""

import errno
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

_OF_MACHINE = frozenset(
    getattr(errno, name)
    for name in (
        "EIO", "ESTALE", "ETIMEDOUT", "EREMOTEIO", "EMFILE", "ENFILE", "ENOMEM", "ENOTCONN", "ESHUTDOWN",
        "ECONNRESET", "ECONNABORTED", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH",
    )
    if hasattr(errno, name)
)  # fmt: skip
TOO_MANY_FILES = ("too many open files", "raise the limit with 'ulimit -n 4096', or give fewer --data.num_workers")
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError)  # what a damaged file, as JSON, may raise
_CLOSE = 0.7  # least likeness of a name that is suggested, from 0 to 1
_PREFIX = 4  # letters of a beginning that is completed


class VitError(Exception):
    """A failure that a user can fix, printed as one line: `vit: error[CODE]: problem and place; fix`."""

    code = 1

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.problem}; {self.fix}"


class UsageError(VitError):
    """The command line or a config is wrong."""

    code = 2


class DataError(VitError):
    """The data set cannot be used as it is."""

    code = 3


class EmptyClassError(DataError):
    """A class folder has no images. Not every command has the option that keeps such a class."""

    OR_KEEP_IT = ", or give --data.allow_empty true"

    def without_option(self) -> "EmptyClassError":
        """The same error, where this option cannot be given."""
        return EmptyClassError(self.problem, self.fix.removesuffix(self.OR_KEEP_IT))


class CheckpointError(VitError):
    """A checkpoint or a file of weights cannot be used."""

    code = 4


class BadInputsError(VitError):
    """The command finished, but some inputs failed; its output lists them."""

    code = 5


class DivergedError(VitError):
    """Training diverged: a loss, gradient or weight is NaN or infinite."""

    code = 6


class ResourceError(VitError):
    """Disk space, memory, a permission or a lock is not available."""

    code = 7


class ProcessesError(VitError):
    """Another process of this training has ended or does not answer."""

    code = 8


class DisagreementError(ProcessesError):
    """The processes of a training differ in code, options or data; every process raises this error."""


class StoppedError(VitError):
    """A signal ended the training: Ctrl-C (130), SIGTERM (143), SIGUSR1 (138), SIGHUP (129) or SIGXCPU (152)."""

    def __init__(self, code: int, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.code = code


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


def interruption(stop: KeyboardInterrupt) -> tuple[int, str]:
    """Exit code and word of what ends a command: SIGTERM, or else Ctrl-C."""
    return (143, "terminated") if isinstance(stop, Terminated) else (130, "interrupted")


@contextmanager
def explained(
    kind: type[VitError], problem: str, fix: str, errors: type[Exception] | tuple[type[Exception], ...] = OSError
) -> Iterator[None]:
    """Some errors of the block become one that a user can fix: the problem with the reason, and the fix.

    Of an OSError alone the reason is the system's, without the file, which `problem` names.
    """
    try:
        yield
    except errors as error:
        of_system = error.strerror if isinstance(error, OSError) and errors is OSError else None
        raise kind(f"{problem}: {of_system or first_line(error)}", fix) from error


def is_of_machine(error: OSError) -> bool:
    """Whether a file could not be read because of the machine, its network or its limits, whatever the file is."""
    return error.errno in _OF_MACHINE


def how_to_read_again(error: OSError) -> str:
    """What helps against an error of the machine, for the `fix` of an error."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files (ulimit -n), or give a smaller --data.num_workers"
    if error.errno == errno.ENOMEM:
        return "free memory"
    return "check the disk or the network file system; 'vit train --resume' continues a training"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or PyTorch could not allocate memory, on a CPU or a GPU."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"  # torch's, compared by name so that torch is not imported
        or "can't allocate memory" in str(error)  # PyTorch's message for a CPU
        or "could not create a primitive" in str(error)  # oneDNN's, when its kernels find no memory
        or "failed to map segment" in str(error)  # that of the dynamic linker
        or "bad_alloc" in str(error)  # that of C++, as PyTorch passes it on
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the error's type; at most 300 characters. A KeyError's text is a key."""
    text = repr(error) if isinstance(error, KeyError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0][:300]


def install(extra: str) -> str:
    """How to install an extra of this program, for the `fix` of an error. No package index has the program."""
    clone = Path(__file__).parents[1]
    if not (clone / "pyproject.toml").is_file():
        return f"in a clone of this program: pip install '.[{extra}]'"
    return f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(f'{clone}[{extra}]')}"


def some_of(texts: Iterable[str], most: int = 5, separator: str = ", ") -> str:
    """The first of some texts, those with a separator inside in quotes, as one text; "..." where there are more."""
    known = [repr(text) if separator in text and text[0] not in "'\"" else text for text in texts]
    return separator.join(known[:most]) + f"{separator}..." * (len(known) > most)


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean X?' for the nearest known name, else a list of names; for the `fix` of an error."""
    names = sorted(known)
    close = close_name(name, names)
    if close is not None:
        return f"did you mean {close!r}?"
    return f"choose one of {some_of(names, 12)}"


def close_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled almost as a name, or begins with it; None: none is near enough to suggest."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=_CLOSE)
    longer = [one for one in names if len(name) >= _PREFIX and one.startswith(name)]
    return next(iter([*close, *longer]), None)


def path_beside(path: Path) -> str:
    """'did you mean X?' with a space before, for a path that is not there, where a name beside it is close; else ""."""
    try:
        beside = [one.name for one in path.expanduser().absolute().parent.iterdir()]
    except OSError:
        return ""
    close = close_name(path.name, beside)
    return "" if close is None else f", did you mean {str(path.with_name(close))!r}?"
