"""Decisions and files of the first process, shared with the others before they train together"""

import atexit
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from vit.errors import ProcessesError, ResourceError, VitError
from vit.launch import is_first, is_launched, rank_and_world_size
from vit.training.distributed.processes import PATIENCE

_PIECE = 64 * 2**20  # bytes of a file in one message
_REFUSED = "\0exit "  # begins the answer of a first process that ends with an error; its exit code follows
_HEARD = 60.0  # longest wait in seconds until all processes know that the first one ends
_LOOK = 0.05  # seconds between two looks
_ITS_WORDS = 1.0  # seconds in which the first process prints its error, before a launcher sees other processes end
_BEATS = 20  # signs of life within PATIENCE


class Rendezvous:
    """A key-value store in the first process, which answers the others until the training ends.

    Lightning starts its processes late, in `Trainer.fit`. Decisions of the first process wait in the store.

    A process may work for hours before it answers, for example read all images. Each process shows in the store that it
    lives, and the others wait for as long as it does.

    Args:
        world_size: number of processes. Processes other than the first may give any number above 1.

    Attributes:
        rank: number of this process.
    """

    def __init__(self, world_size: int) -> None:
        self._store = None if world_size == 1 and is_first() else _open_store()
        self._num_others = world_size - 1
        self.rank = int(os.environ.get("RANK", "0")) if is_launched() else int(not is_first())
        if self._store is not None:
            self._closed = threading.Event()
            self._beats = threading.Thread(
                target=_beat, args=(self._store, _life(self.rank), self._closed), daemon=True
            )
            self._beats.start()
            atexit.register(self.close)  # a thread that is in C++ would abort the end of Python

    def close(self) -> None:
        """Show no life from now on."""
        self._closed.set()
        self._beats.join(_ITS_WORDS)

    def _answer(self, key: str, rank: int) -> str:
        """The value of a key that another process will set, for which this one waits while the other one lives."""
        assert self._store is not None
        began = seen_at = time.monotonic()
        beats = -1
        while not self._store.check([key]):
            now = time.monotonic()
            latest = int(self._store.add(_life(rank), 0))
            if latest != beats:
                beats, seen_at = latest, now
            elif now - seen_at > PATIENCE.total_seconds():
                raise _unreachable(rank)
            time.sleep(min(1.0, _LOOK + (now - began) / 10))
        return str(self._store.get(key).decode())

    def decided(self, name: str, decide: Callable[[], str]) -> str:
        """The value that `decide` returns on the first process, on every process.

        Where `decide` raises an error, the other processes end with the exit code of this error. They print nothing.

        Args:
            name: key of the decision.

        Raises:
            ProcessesError: the first process has ended, or does not decide in time.
            SystemExit: on other processes, where the first one ends with an error.
        """
        if is_first():
            try:
                answer = decide()
            except Exception as error:
                self._refuse(name, error.code if isinstance(error, VitError) else 1)
                raise
            if self._store is not None:
                self._store.set(name, answer)
            return answer
        assert self._store is not None
        try:
            answer = self._answer(name, 0)
        except dist.DistError as error:
            raise _unreachable(0) from error
        if answer.startswith(_REFUSED):
            with suppress(dist.DistError):
                self._store.add(f"{name} heard", 1)
            time.sleep(_ITS_WORDS)
            raise SystemExit(int(answer.removeprefix(_REFUSED)))
        return answer

    def _refuse(self, name: str, code: int) -> None:
        """Tell the other processes that this first one ends, and wait until they know: its end closes the store.

        torchrun keeps the store and ends the processes itself. Processes that Lightning starts are not there yet.
        """
        if self._store is None or not is_launched():
            return
        with suppress(dist.DistError):
            self._store.set(name, f"{_REFUSED}{code}")
            end = time.monotonic() + _HEARD
            while not _has_agent() and self._store.add(f"{name} heard", 0) < self._num_others:
                if time.monotonic() > end:
                    return
                time.sleep(_LOOK)


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
        raise _unreachable(0) from error
    os.environ["MASTER_PORT"] = str(store.port)
    # the store of torchrun keeps what was decided before a restart
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"vit {attempt}", store)  # type: ignore[attr-defined]


def _has_agent() -> bool:
    """Whether the store is in a process of torchrun, which lives longer than the first process."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _life(rank: int) -> str:
    """The key of the signs of life of a process."""
    return f"life of {rank}"


def _beat(store: Any, key: str, ended: threading.Event) -> None:
    with suppress(dist.DistError):  # the first process has ended, and its store
        while True:
            store.add(key, 1)
            if ended.wait(PATIENCE.total_seconds() / _BEATS):
                return


def _unreachable(rank: int) -> ProcessesError:
    which = "the first process" if rank == 0 else f"process {rank}"
    return ProcessesError(f"{which} of this training cannot be reached", "see the message of that process")


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
    group = dist.new_group(backend="gloo", timeout=PATIENCE)
    assert isinstance(group, dist.ProcessGroup)
    try:
        stamps: list[tuple[int, int] | None] = [None] * processes
        dist.all_gather_object(stamps, _stamp(path), group)
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


def _stamp(path: Path) -> tuple[int, int] | None:
    """(size, time of the last change) of a file. None if this process does not see it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


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
