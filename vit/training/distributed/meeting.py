"""What the first of several processes decides before they train together, and files of it that the others read."""

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

_PIECE = 64 * 2**20  # bytes of a file that are sent at once


class Meeting:
    """A store that the first process holds from before the others ask until the training ends.

    Lightning starts its processes late, in `Trainer.fit`. What the first one has said by then waits in the store.

    Args:
        world_size: number of processes; any number above 1 will do on others than the first.
    """

    def __init__(self, world_size: int) -> None:
        self._store = None if world_size == 1 and is_first() else _open_store()

    def decided(self, name: str, decide: Callable[[], str]) -> str:
        """What `decide` returns on the first process, on every process.

        Raises:
            ProcessesError: the first process has ended, or decides nothing in time.
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


def _open_store() -> Any:
    """The store that PyTorch's own rendezvous finds its processes through as well, by the same port."""
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
                f"port {port} of {address}, where processes are to meet, cannot be opened",
                "set MASTER_PORT to a free port, MASTER_ADDR to the first machine",
            ) from error
        raise _unreachable() from error
    os.environ["MASTER_PORT"] = str(store.port)
    return store


def _unreachable() -> ProcessesError:
    return ProcessesError("the first process of this training cannot be reached", "see what it said")


@contextmanager
def readable_by_all(path: Path) -> Iterator[Path]:
    """A file of the first process, as this process can read it; every process must enter and leave together.

    It is the file itself where the file system is shared. Otherwise, or where the file system shows this machine an
    older one, it is a copy that the first process sends, which is removed in the end.
    """
    rank, processes = rank_and_world_size()
    if processes == 1:
        yield path
        return
    group: Any = dist.new_group(backend="gloo", timeout=PATIENCE)
    try:
        stamps: list[tuple[int, int] | None] = [None] * processes
        dist.all_gather_object(stamps, _stamp(path), group)
        first = stamps[0]
        if first is None:  # each process finds no file, even where an older one lies there
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
    """(size, time of the last change) of a file; None: it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _send(path: Path, copy: Path, size: int, has_it: bool, group: Any) -> None:
    """From the first process to all; those that have the file already let it pass."""
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
