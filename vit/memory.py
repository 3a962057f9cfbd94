"""Freed memory stays with the process: glibc gives large blocks back at every free, and the next pass pays for them"""

import ctypes
import os
import sys

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
_OWN_CHOICES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
BLOCK = 2**30  # bytes: tensors of a pass on a CPU are smaller


def keep_freed_memory() -> bool:
    """Let malloc keep freed blocks below 1 GiB for the next tensors; returns whether it does.

    Without this, each tensor of more than 32 MiB is new memory, which the kernel fills with zeros page by page. That
    takes a fifth of a resnet18's pass, and a third of a ViT's pass with a large batch (docs/performance.md). The
    process keeps the memory of its peak until it ends. Only glibc has these settings. Users who chose them in the
    environment keep their own.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OWN_CHOICES):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    return bool(mallopt and mallopt(_MMAP_THRESHOLD, BLOCK) and mallopt(_TRIM_THRESHOLD, 2**31 - 1))


def give_back_freed_memory() -> None:
    """Let malloc give freed blocks back to the system, once: after memory ran out, libraries need some of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)
