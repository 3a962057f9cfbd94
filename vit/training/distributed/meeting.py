"""Decisions and files of the first process, shared with the others before they train together"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from vit.errors import ProcessesError, ResourceError
from vit.launch import is_first, rank_and_world_size
from vit.training.distributed.processes import PATIENCE

_PIECE = 64 * 2**20  # bytes of a file in one message


class Meeting:
    """A key-value store in the first process, which answers the others until the training ends.

    Lightning starts its processes late, in `Trainer.fit`. Decisions of the first process wait in the store.

    Args:
        world_size: number of processes. Processes other than the first may give any number above 1.
    """

    def __init__(self, world_size: int) -> None:
        self._store = None if world_size == 1 and is_first() else _open_store()

    def decided(self, name: str, decide: Callable[[], str]) -> str:
        """The value that `decide` returns on the first process, on every process.

        Args:
            name: key of the decision.

        Raises:
            ProcessesError: the first process has ended, or does not decide in time.
        """
        if is_first():
            answer = decide()
            if self._store is not None:
                self._store.set(name, answer)
            return answer
        assert self._store is not None
        try:
            return str(self._store.get(name).decode())
        except dist.DistError as error:
            raise _unreachable() from error


def _open_store() -> Any:  # torch.distributed does not export the type of a store
    """The store. PyTorch's own rendezvous uses the same store, by the same port."""
    address = os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "0"))
    is_server = is_first() and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun has it
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
    return store


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
