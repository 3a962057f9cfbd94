"""What the process does with freed memory, and how often Python looks for memory that nothing uses"""

import atexit
import ctypes
import gc
import os
import sys
from pathlib import Path

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
_OWN_CHOICES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_USUAL = 2**17  # bytes: what glibc begins with
BLOCK = 2**30  # bytes: tensors of a pass on a CPU are smaller
_SELDOM = 1000  # collections of the middle generation before Python looks at all objects; its own number is 10


def keep_freed_memory() -> bool:
    """Let malloc keep freed blocks below 1 GiB for the next tensors; returns whether it does. Only glibc can.

    Without this, each tensor of more than 32 MiB is new memory, which the kernel fills with zeros page by page. The
    process keeps the memory of its peak until it ends.
    """
    return _set_thresholds(BLOCK, 2**31 - 1)


def collect_seldom() -> None:
    """Let Python look through all objects for garbage cycles seldom, and not when the program ends.

    Libraries make half a million objects while they are imported, and none of them is garbage. Python 3.11
    otherwise looks through all of them six to eight times meanwhile, and again at exit: a fifth to a quarter of the
    time of a short command. Young objects are looked through as before, so cycles with tensors are freed soon.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _SELDOM)
    atexit.unregister(_freeze)
    atexit.register(_freeze)


def _freeze() -> None:
    """Leave all objects out of the collection at exit. Triton 3.9 prints 36 lines of leaks where its objects stay."""
    if "triton._C.libtriton" not in sys.modules:
        gc.freeze()


def return_freed_memory() -> bool:
    """Let malloc return freed blocks at once, as it begins: kernels of oneDNN need room outside the heap after a failed
    step.
    """
    return _set_thresholds(_USUAL, _USUAL)


def give_back_freed_memory() -> None:
    """Let malloc give freed blocks back to the system, once."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


def memory_limit(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes of memory of this machine, or of the container or job of this process where these have less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for line in own.read_text().splitlines() if own.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):  # version 2, version 1
            root = cgroups / controllers
            group = root / path.strip("/")
            for folder in (group, *group.parents[: len(group.relative_to(root).parts)]):
                for file in (folder / "memory.max", folder / "memory.limit_in_bytes"):
                    if file.is_file() and (text := file.read_text().strip()).isdigit():
                        limits.append(int(text))
    return min(limits)


def _set_thresholds(block: int, top: int) -> bool:
    """Blocks from `block` bytes on lie outside the heap; `top` free bytes at its end are given back."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OWN_CHOICES):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    return bool(mallopt and mallopt(_MMAP_THRESHOLD, block) and mallopt(_TRIM_THRESHOLD, top))
