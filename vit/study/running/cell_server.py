"""What the server of a study's cells imports first, before torch and the rest"""

import signal
import sys
from pickle import UnpicklingError
from types import TracebackType

from vit.memory import collect_seldom


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error of a process that begins, unless its study was stopped while it handed over the cell."""
    if not isinstance(error, (EOFError, UnpicklingError)):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _show
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python's server does so after its imports, and would show a traceback
collect_seldom()  # the cells, which are forked off the server, keep the setting
