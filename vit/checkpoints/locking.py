"""A lock file that one process holds; a process that is killed does not hold it any more."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system on which nobody can lock anything


def hold(lock: Path, wait: bool) -> IO[str] | None:
    """The open file of a lock that is ours now; None when it is another process's and we do not wait."""
    while True:
        file = open(lock, "w")  # noqa: SIM115  it stays open for as long as the lock is held
        if sys.platform == "win32":
            return file
        if not _locked(file.fileno(), wait):
            file.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        file.close()  # who held it has removed it: what we have locked is no file any more


def _locked(descriptor: int, wait: bool) -> bool:
    """Whether a lock could be had. Loader workers, which outlive a killed training for seconds, do not inherit it."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Do something that no other process does at the same time; wait for one that does."""
    file = hold(lock, wait=True)
    assert file is not None
    with file:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def is_held(lock: Path) -> bool:
    """Whether another process holds a lock."""
    if sys.platform == "win32" or not lock.is_file():
        return False
    with open(lock, "r+") as file:
        return not _locked(file.fileno(), wait=False)
