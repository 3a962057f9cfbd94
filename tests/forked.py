"""Programs and workers of xdist without imports: forked off a server that has imported torch, Lightning and vit."""

import atexit
import contextlib
import faulthandler
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import types
from multiprocessing import forkserver, process, reduction, resource_tracker, util
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

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


_real_popen, _real_spawn = subprocess.Popen, util.spawnv_passfds
_SERVER = forkserver._forkserver  # of the tests; a forked program inherits it, and has one of its own beside it


class Forked(subprocess.Popen):
    """A process of `python -m MODULE`, `python FILE` or `python -c CODE` that the server forks."""

    def _become(self):
        return _run

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags,
                       shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid,
                       umask, start_new_session, *rest):  # fmt: skip
        ends = [_End(own if number == -1 else number) for own, number in enumerate((p2cread, c2pwrite, errwrite))]
        about = (list(map(os.fspath, args[1:])), os.fspath(cwd or Path.cwd()), dict(env or os.environ), ends)
        context, key = server(), vars(_SERVER).get("_forkserver_authkey")
        self._process = context.Process(target=self._become(), args=(*about, start_new_session, key))
        with _asking(_SERVER):
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


class ForkedWorker(Forked):
    """A process in which xdist runs tests."""

    def _become(self):
        return _work


def server():
    """The context of the server, which starts it. A study that runs in this process has its cells from it, too."""
    context = multiprocessing.get_context("forkserver")
    if _SERVER._forkserver_pid is None and _SERVER._forkserver_address is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            patch.chdir(ROOT)
            context.set_forkserver_preload(["tests.forked_imports"])
            forkserver.ensure_running()
    return context


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    """Fork xdist's workers, too: each would import for ten seconds."""
    if not REAL:
        from execnet.gateway_base import MainThreadOnlyExecModel

        server()
        MainThreadOnlyExecModel.subprocess = types.SimpleNamespace(PIPE=subprocess.PIPE, Popen=ForkedWorker)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """All workers of xdist have their programs from one server, which ends with the process that started them."""
    if not REAL:
        server()
        shared = ("_forkserver_address", "_forkserver_authkey")
        node.workerinput["server"] = {name: vars(_SERVER)[name] for name in shared if name in vars(_SERVER)}


def pytest_sessionstart(session):
    """Take the server of `pytest_configure_node`."""
    found = getattr(session.config, "workerinput", {}).get("server")
    if found:
        vars(_SERVER).update(found, _forkserver_alive_fd=os.pipe()[1], ensure_running=resource_tracker.ensure_running)


def pytest_unconfigure(config):
    """End the server of xdist's workers and wait for it: `time` counts the seconds of what was waited for."""
    if config.pluginmanager.hasplugin("dsession") and _SERVER._forkserver_pid is not None:
        os.kill(_SERVER._forkserver_pid, signal.SIGKILL)
        os.waitpid(_SERVER._forkserver_pid, 0)


class _End:
    """One end of a pipe, which goes to the server with the request, and is a number again in the new process."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return _detach, (reduction.DupFd(self.number),)


def _detach(end):
    return end.detach()


def variables_of(folder, pid):
    """The file with the environment of a forked program: /proc has that of the server."""
    return Path(f"{folder}.processes", str(pid))


def stacks_of(folder, pid):
    """The file to which a forked program writes where its threads are, when it gets SIGUSR2."""
    return Path(f"{folder}.processes", f"{pid}.stacks")


def _run(words, folder, variables, ends, start_new_session, key):
    """Become the program: what a new interpreter would have, this process gets."""
    if start_new_session:
        os.setsid()
    _move_in(folder, variables, ends)
    _forget_hub()
    _lead(folder)
    _fork_what_it_starts(key)
    if "VIT_TEST_DRAWN" not in variables:  # figures and page take longer than most trainings here
        from vit.registry import command_module

        for command in ("train", "pretrain"):
            command_module(command)._draw = lambda *_: None
    try:
        _interpret(words)
    finally:
        atexit._run_exitfuncs()


def _work(words, folder, variables, ends, *_):
    """Become a worker of xdist."""
    _move_in(folder, variables, ends)
    _lead(folder)
    AssertionRewritingHook._warn_already_imported = lambda *_: None  # hypothesis, and what else has a plugin
    try:
        _interpret(words)
    finally:
        atexit._run_exitfuncs()


def _move_in(folder, variables, ends):
    """Take over the folder, the variables and the ends of a new process."""
    for number, end in enumerate(ends):
        os.dup2(end, number)
        if end not in ends[number + 1 :]:
            os.close(end)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None
    if "VIT_TEST" in variables:
        note = variables_of(variables["VIT_TEST"], os.getpid())
        note.parent.mkdir(exist_ok=True)
        note.write_text("\0".join(f"{name}={value}" for name, value in variables.items()))
        faulthandler.register(signal.SIGUSR2, stacks_of(variables["VIT_TEST"], os.getpid()).open("w"))
    process.current_process()._config.pop("tempdir", None)  # the folder of the tests, and of their server's socket


def _lead(folder):
    """Be no child of a process of Python."""
    sys.stdin = os.fdopen(0, closefd=False)
    process.ORIGINAL_DIR = folder
    process._parent_process, process.current_process().name = None, "MainProcess"


@contextlib.contextmanager
def _asking(one):
    """What multiprocessing starts comes from this server."""
    before, forkserver.connect_to_new_process = forkserver.connect_to_new_process, one.connect_to_new_process
    try:
        yield
    finally:
        forkserver.connect_to_new_process = before


class _OwnServer(forkserver.ForkServer):
    """The fork server of a forked program, from which a study has its cells: itself a fork, without imports."""

    def ensure_running(self):
        if self._forkserver_address is None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(util, "spawnv_passfds", _fork_server)
                super().ensure_running()


def _fork_server(path, words, numbers):
    """`multiprocessing.util.spawnv_passfds` for a fork server; gives its process id."""
    if "forkserver" not in words[-1]:
        return _real_spawn(path, words, numbers)
    passed = {number: _End(number) for number in numbers}
    about = (words[-1], passed, Path.cwd(), dict(os.environ), [_End(number) for number in range(3)])
    begun = multiprocessing.get_context("forkserver").Process(target=_serve, args=about)
    with _asking(_SERVER):
        return begun._Popen(begun).pid  # `start` would let this program wait for the server at its end


def _serve(command, passed, folder, variables, ends):
    """Become a fork server, whose command has the numbers that its pipes have in the program."""
    _move_in(folder, variables, ends)
    _forget_hub()
    main = forkserver.main

    def here(value):
        return passed[value] if type(value) is int else value

    forkserver.main = lambda *values, **named: main(*map(here, values), **{key: here(named[key]) for key in named})
    exec(command)


def _fork_what_it_starts(key):
    """Also where a module has its own name for Popen, as torchrun has. Python 3.14 asks for the server's key."""
    _SERVER._forkserver_authkey = key
    _SERVER.ensure_running = resource_tracker.ensure_running  # it runs
    forkserver._forkserver = own = _OwnServer()
    for name in ("ensure_running", "connect_to_new_process", "set_forkserver_preload"):
        setattr(forkserver, name, getattr(own, name))
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


def _forget_hub():
    """The hub's library reads its variables when it is imported."""
    for name in [name for name in sys.modules if name.split(".")[0] == "huggingface_hub"]:
        del sys.modules[name]


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
