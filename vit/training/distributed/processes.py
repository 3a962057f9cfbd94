"""Several processes that train one network: they exchange values, decisions and files, and none waits long for another

The first process decides, and shares its decisions and files with the others before they train together.
"""

import atexit
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from lightning.pytorch import Trainer
from lightning.pytorch.strategies.launchers import subprocess_script

from vit.errors import ProcessesError, ResourceError, VitError
from vit.launch import is_first, is_launched, rank_and_world_size
from vit.training.observers import Stop

PATIENCE = timedelta(minutes=10)  # longest wait for a process that does not answer
LAST_WORDS = 20.0  # seconds that the first process gets after another one has failed
_GONE = ("gloo", "Connection reset by peer", "Connection closed by peer")
_PIECE = 64 * 2**20  # bytes of a file in one message
_REFUSED = "\0exit "  # begins the answer of a first process that ends with an error; its exit code follows
_HEARD = 60.0  # longest wait in seconds until all processes know that the first one ends
_LOOK = 0.05  # seconds between two looks
_ITS_WORDS = 1.0  # seconds in which the first process prints its error, before a launcher sees other processes end
_LIFE = "life"  # key of the signs of life of the first process
_BEATS = 20  # signs of life within PATIENCE


def cpu_group() -> dist.ProcessGroup:
    """A group of all processes that communicates over the CPU's network."""
    group = dist.new_group(backend="gloo", timeout=PATIENCE)
    assert isinstance(group, dist.ProcessGroup)
    return group


class PatientObserver(_ChildProcessObserver):
    """Lightning's observer of the processes that it started, which kills this process when another one has failed.

    This process may learn of the failure at the same moment. It gets time to report the failure and to end.
    """

    def _terminate_all(self) -> None:
        time.sleep(LAST_WORDS)
        super()._terminate_all()


def observe_patiently() -> None:
    """Let Lightning start our observer in place of its own."""

    def launch(child_processes: list[subprocess.Popen[Any]]) -> None:
        PatientObserver(os.getpid(), child_processes).start()

    subprocess_script._launch_process_observer = launch


@contextmanager
def lost_process_explained(trainer: Trainer) -> Iterator[None]:
    """While entered: the end of another process is one clear error.

    ProcessesError: another process has ended, or did not answer in time.
    """
    try:
        yield
    except (RuntimeError, Stop) as error:
        if trainer.world_size == 1 or not (_says_gone(error) or _has_failed_child(trainer, error)):
            raise
        problem = "another process of this training has ended, or cannot be reached"
        raise ProcessesError(problem, "see the message of that process") from error


def _says_gone(error: BaseException) -> bool:
    return isinstance(error, dist.DistError) or any(word in str(error) for word in _GONE)


def _has_failed_child(trainer: Trainer, error: BaseException) -> bool:
    """Whether a process that Lightning started from this one has failed. Lightning then sends SIGTERM to this one.

    A process that the same signal ended has not failed. Where all agreed to end (`step`), its end came after that.
    """
    if isinstance(error, Stop) and error.step is not None:
        return False
    asked = {error.code, -error.number} if isinstance(error, Stop) else set()
    ends = (child.poll() for child in getattr(trainer.strategy.launcher, "procs", ()))
    return any(end and end not in asked for end in ends)


class Rendezvous:
    """A key-value store in the first process, which answers the others until the training ends.

    Lightning starts its processes late, in `Trainer.fit`. Decisions of the first process wait in the store. It may work
    for hours before it decides, for example read all images. It shows in the store that it lives, and the others wait.
    Processes other than the first may give any `world_size` above 1.
    """

    def __init__(self, world_size: int) -> None:
        self._store = None if world_size == 1 and is_first() else _open_store()
        self._num_others = world_size - 1
        self._closed = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)
        if self._store is not None and is_first():
            self._beats.start()
            atexit.register(self.close)  # a thread that is in C++ would abort the end of Python

    def close(self) -> None:
        """Show no life of the first process from now on."""
        self._closed.set()
        self._beats.join(_ITS_WORDS)
        atexit.unregister(self.close)  # it keeps the store, whose end a forked process would wait for

    def _beat(self) -> None:
        assert self._store is not None
        with suppress(dist.DistError):  # torchrun has ended, and its store
            while True:
                self._store.add(_LIFE, 1)
                if self._closed.wait(PATIENCE.total_seconds() / _BEATS):
                    return

    def decided(self, name: str, decide: Callable[[], str]) -> str:
        """The value that `decide` returns on the first process, on every process.

        Where `decide` raises an error, the other processes end with its exit code (SystemExit). They print nothing.
        ProcessesError: the first process has ended, or does not decide in time.
        """
        if is_first():
            try:
                answer = decide()
            except Exception as error:
                # others must know before the end of this process closes the store; torchrun keeps the store and ends
                # the processes itself; processes that Lightning starts are not there yet
                if self._store is not None and is_launched():
                    with suppress(dist.DistError):
                        self._store.set(name, f"{_REFUSED}{error.code if isinstance(error, VitError) else 1}")
                        end = time.monotonic() + _HEARD
                        while not _has_agent() and self._store.add(f"{name} heard", 0) < self._num_others:
                            if time.monotonic() > end:
                                break
                            time.sleep(_LOOK)
                raise
            if self._store is not None:
                self._store.set(name, answer)
            return answer
        assert self._store is not None
        began = seen_at = time.monotonic()
        beats = -1
        try:
            while not self._store.check([name]):
                now = time.monotonic()
                latest = int(self._store.add(_LIFE, 0))
                if latest != beats:
                    beats, seen_at = latest, now
                elif now - seen_at > PATIENCE.total_seconds():
                    raise _unreachable()
                time.sleep(min(1.0, _LOOK + (now - began) / 10))
            answer = str(self._store.get(name).decode())
        except dist.DistError as error:
            raise _unreachable() from error
        if answer.startswith(_REFUSED):
            with suppress(dist.DistError):
                self._store.add(f"{name} heard", 1)
            time.sleep(_ITS_WORDS)
            raise SystemExit(int(answer.removeprefix(_REFUSED)))
        return answer


def _open_store() -> Any:  # torch.distributed does not export the type of a store
    """The store. PyTorch's own rendezvous uses the same store, by the same port."""
    address = os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "0"))
    is_server = is_first() and not _has_agent()
    try:
        store = dist.TCPStore(  # type: ignore[attr-defined]
            address, port, is_master=is_server, timeout=PATIENCE, wait_for_workers=False, multi_tenant=True
        )
    except dist.DistError as error:
        if is_server:
            raise ResourceError(
                f"port {port} of {address}, where processes meet, cannot be opened",
                "set MASTER_PORT to a free port, and MASTER_ADDR to the first machine",
            ) from error
        raise _unreachable() from error
    os.environ["MASTER_PORT"] = str(store.port)
    # the store of torchrun keeps what was decided before a restart
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"vit {attempt}", store)  # type: ignore[attr-defined]


def _has_agent() -> bool:
    """Whether the store is in a process of torchrun, which lives longer than the first process."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _unreachable() -> ProcessesError:
    return ProcessesError("the first process of this training cannot be reached", "see the message of that process")


@contextmanager
def readable_by_all(path: Path) -> Iterator[Path]:
    """While entered: a path at which this process reads a file of the first process. All processes enter together.

    On a shared file system this is the path of the file itself. Otherwise, or where the file system shows an older
    version on this machine, it is a temporary copy that the first process sends.
    """
    rank, processes = rank_and_world_size()
    if processes == 1:
        yield path
        return
    group = cpu_group()
    try:
        stamps: list[tuple[int, int] | None] = [None] * processes
        own = None  # where this process does not see the file
        with suppress(OSError):
            own = (path.stat().st_size, path.stat().st_mtime_ns)
        dist.all_gather_object(stamps, own, group)
        first = stamps[0]
        if first is None:  # no process may find a file, even where an older one exists
            yield path if rank == 0 else path.with_name(f".{path.name}.missing")
            return
        if all(stamp == first for stamp in stamps):
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="vit-") as folder:
            copy = Path(folder) / path.name
            _send(path, copy, first[0], stamps[rank] == first, group)
            yield path if stamps[rank] == first else copy
    finally:
        dist.destroy_process_group(group)


def _send(path: Path, copy: Path, size: int, has_it: bool, group: dist.ProcessGroup) -> None:
    """Send a file from the first process to all. Processes that see the file discard the pieces."""
    rank, _ = rank_and_world_size()
    with (
        open(path, "rb") if rank == 0 else nullcontext() as source,
        nullcontext() if rank == 0 or has_it else open(copy, "wb") as target,
    ):
        for start in range(0, size, _PIECE):
            length = min(_PIECE, size - start)
            piece = torch.empty(length, dtype=torch.uint8)
            if source is not None:
                source.readinto(piece.numpy().data)
            dist.broadcast(piece, src=0, group=group)
            if target is not None:
                target.write(piece.numpy().data)
