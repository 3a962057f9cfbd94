"""Cells of a study in the process of the tests: each takes half a second less than in a process of its own."""

import multiprocessing
import os
import sys
from contextlib import contextmanager
from threading import Lock

import pytest
import torch

from vit.launch import forget_launcher
from vit.own_code import trust
from vit.study.running import cell, runner
from vit.training.recipes.recipe import own_code

_LOGS = []  # of the cell that runs
_TURN = Lock()


class Here:
    """A context of `multiprocessing` whose processes are calls."""

    Pipe = staticmethod(multiprocessing.Pipe)

    class Process:
        def __init__(self, target, args):
            self.target, self.args = target, args
            self.exitcode, self.sentinel = None, None

        def start(self):
            with _TURN:  # networks are timed by threads
                self._run()

        def _run(self):
            self.sentinel, end = os.pipe()
            os.close(end)  # the other end is ready: it has ended
            threads, streams = torch.get_num_threads(), (sys.stdout, sys.stderr)
            try:
                self.target(*self.args)
                self.exitcode = 0
            except SystemExit as error:
                self.exitcode = error.code
            finally:
                sys.stdout, sys.stderr = streams
                _LOGS.pop().close()
                torch.set_num_threads(threads)

        def join(self, timeout=None):
            if self.sentinel is not None:
                os.close(self.sentinel)
            self.sentinel = None

        def is_alive(self):
            return False

        def terminate(self):
            pass


def _begin(recipe, log, threads, gpu):
    """What `cell._begin` does to a process, but for what the process keeps."""
    forget_launcher()
    for path in own_code(recipe):
        trust(path)
    torch.set_num_threads(threads)
    sys.stdout = sys.stderr = log.open("a", buffering=1, encoding="utf-8")
    _LOGS.append(sys.stdout)


@contextmanager
def here():
    """Cells are trained and timed in this process, one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_context", lambda: Here)
        patch.setattr(cell, "_begin", _begin)
        yield
