"""Programs in real processes without their imports: forked off a server that has imported torch, Lightning and vit."""

import atexit
import faulthandler
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import types
from multiprocessing import forkserver, process, reduction
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REAL = bool(os.environ.get("VIT_REAL_PROCESSES")) or "forkserver" not in multiprocessing.get_all_start_methods()


def popen(words, **options):
    """`subprocess.Popen`, where Python's programs are forks of the server; VIT_REAL_PROCESSES=1: new processes."""
    forked = not REAL and isinstance(words, list) and words[0] == sys.executable
    return (Forked if forked else _real_popen)(words, **options)


def run(words, *, timeout, real=False, **options):
    """`subprocess.run` with captured text, where Python's programs are forks of the server, unless they are `real`."""
    process = (_real_popen if real else popen)(
        list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    try:
        out, said = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, said)


_real_popen = subprocess.Popen


class Forked(subprocess.Popen):
    """A process of `python -m MODULE`, `python FILE` or `python -c CODE` that the server forks."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags,
                       shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid,
                       umask, start_new_session, *rest):  # fmt: skip
        ends = [_End(number) for number in (p2cread, c2pwrite, errwrite)]
        about = (list(map(os.fspath, args[1:])), os.fspath(cwd or Path.cwd()), dict(env or os.environ), ends)
        self._process = server().Process(target=_run, args=(*about, start_new_session))
        self._process.start()
        self.pid, self._child_created = self._process.pid, True
        for number in {p2cread, c2pwrite, errwrite} - {-1}:
            os.close(number)

    def _internal_poll(self, *_, **__):
        return self._wait(0)

    def _wait(self, timeout):
        if self.returncode is None:
            self._process.join(timeout)
            self.returncode = self._process.exitcode
            if self.returncode is None and timeout != 0:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


def server():
    """The context of the server, which starts it. A study that runs in this process has its cells from it, too."""
    context = multiprocessing.get_context("forkserver")
    if forkserver._forkserver._forkserver_pid is None and forkserver._forkserver._forkserver_address is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            patch.chdir(ROOT)
            context.set_forkserver_preload(["tests.forked_imports"])
            forkserver.ensure_running()
    return context


class _End:
    """One end of a pipe, which goes to the server with the request, and is a number again in the new process."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return (int, (-1,)) if self.number == -1 else (_detach, (reduction.DupFd(self.number),))


def _detach(end):
    return end.detach()


def variables_of(folder, pid):
    """The file with the environment of a forked program: /proc has that of the server."""
    return Path(f"{folder}.processes", str(pid))


def stacks_of(folder, pid):
    """The file to which a forked program writes where its threads are, when it gets SIGUSR2."""
    return Path(f"{folder}.processes", f"{pid}.stacks")


def _run(words, folder, variables, ends, start_new_session):
    """Become the program: what a new interpreter would have, this process gets."""
    if start_new_session:
        os.setsid()
    for number, end in enumerate(ends):
        if end != -1:
            os.dup2(end, number)
            if end not in ends[number + 1 :]:
                os.close(end)
    os.chdir(folder)
    _forget(variables)
    if "VIT_TEST" in variables:
        note = variables_of(variables["VIT_TEST"], os.getpid())
        note.parent.mkdir(exist_ok=True)
        note.write_text("\0".join(f"{name}={value}" for name, value in variables.items()))
        faulthandler.register(signal.SIGUSR2, stacks_of(variables["VIT_TEST"], os.getpid()).open("w"))
    sys.stdin = os.fdopen(0, closefd=False)
    process.ORIGINAL_DIR = folder
    process._parent_process, process.current_process().name = None, "MainProcess"
    process.current_process()._config.pop("tempdir", None)  # the folder of the tests, and of their server's socket
    _fork_what_it_starts()
    if "VIT_TEST_DRAWN" not in variables:  # figures and page take longer than most trainings here
        from vit.registry import command_module

        for command in ("train", "pretrain"):
            command_module(command)._draw = lambda *_: None
    try:
        _interpret(words)
    finally:
        atexit._run_exitfuncs()


def _fork_what_it_starts():
    """Also where a module has its own name for Popen, as torchrun has."""
    for name, module in list(sys.modules.items()):
        if name != __name__ and vars(module).get("Popen") is _real_popen:
            module.Popen = _Dispatch


class _Dispatch(_real_popen):
    """`subprocess.Popen` of a forked program."""

    def __new__(cls, args, **options):
        if isinstance(args, (list, tuple)) and args[0] == sys.executable:
            return Forked(list(args), **{name: value for name, value in options.items() if name != "preexec_fn"})
        return _real_popen(args, **options)

    def __init__(self, *_, **__):
        pass


def _forget(variables):
    """Take over the variables, and forget what libraries keep of those of the server."""
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None
    for name in [name for name in sys.modules if name.split(".")[0] == "huggingface_hub"]:
        del sys.modules[name]  # it reads its variables when it is imported


def _interpret(words):
    kind, *rest = words = [word for place, word in enumerate(words) if place or word != "-u"]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0:0] = ["-c", *rest[1:]], [""]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    else:
        sys.argv, sys.path[0:0] = words, [str(Path(kind).resolve().parent)]
        runpy.run_path(kind, run_name="__main__")
