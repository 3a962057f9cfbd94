"""Lock files: one process holds a lock, and the lock of a killed process is free"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

if sys.platform != "win32":
    import fcntl

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)  # a file that cannot be opened for writing
_OWN: "WeakValueDictionary[tuple[int, int, int], IO[str]]" = WeakValueDictionary()  # open files of held locks
_LOOK_SECONDS = 0.1  # between two looks at a lock that another thread holds
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # file systems without locks


def hold(lock: Path, wait: bool) -> IO[str] | None:
    """The open file of a lock that this process holds now; None: another process or thread has it, without `wait`."""
    while True:
        if _is_own(lock):
            if not wait:
                return None
            time.sleep(_LOOK_SECONDS)
            continue
        file = open(lock, "w", opener=_without_links)  # noqa: SIM115  it stays open for as long as the lock is held
        if sys.platform == "win32":
            return file
        if not _locked(file.fileno(), wait):
            file.close()
            return None
        with suppress(FileNotFoundError):
            status = os.fstat(file.fileno())
            if os.path.samestat(status, lock.stat()):
                _OWN[os.getpid(), status.st_dev, status.st_ino] = file
                return file
        file.close()  # its holder has removed it: the locked file has no name any more


def _without_links(path: str, flags: int) -> int:
    """Open a lock, and no file of somebody else that a link in an untrusted folder names: OSError ELOOP."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _is_own(lock: Path) -> bool:
    """Whether this process holds a lock. To open and close its file would free it: POSIX frees it with any close."""
    with suppress(OSError):
        status = lock.stat()
        file = _OWN.get((os.getpid(), status.st_dev, status.st_ino))
        return file is not None and not file.closed
    return False


def hold_output(file: Path) -> int | None:
    """The descriptor of a file that this process alone writes from now on; None when another process writes it.

    A missing file is made. Its writer may open and close it again meanwhile. No link is followed: OSError.
    """
    while True:
        if sys.platform == "win32":
            return os.open(os.devnull, os.O_RDONLY)  # an open file has to keep its name there
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.lstat()):
                return descriptor
        os.close(descriptor)  # its writer has given it another name meanwhile


def _locked(descriptor: int, wait: bool, shared: bool = False) -> bool:
    """Lock a file, or return False. Loader workers, which outlive a killed training, do not inherit the lock."""
    try:
        fcntl.lockf(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock for the time of a block; wait for a process that holds it."""
    file = hold(lock, wait=True)
    assert file is not None
    with file:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock, this one included. The file may be one that this process can only read."""
    if _is_own(lock):
        return True
    if sys.platform == "win32" or not lock.is_file():
        return False
    try:
        file, shared = open(lock, "r+"), False  # noqa: SIM115  closed below
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        file, shared = open(lock), True  # noqa: SIM115
    with file:
        return not _locked(file.fileno(), wait=False, shared=shared)
