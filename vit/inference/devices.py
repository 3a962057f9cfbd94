"""Which device and which precision a network runs at, and the matrix peak of a device

The matrix peak is the FLOP/s of the fastest square matrix product, measured in a fraction of a second. The model FLOPs
utilization (MFU) of Chowdhery et al. 2022 (arXiv 2204.02311, appendix B) is over the peak of a data sheet. A CPU has
none for its cores in use, so that the peak here is measured: no network of matrix products is much faster.
"""

import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

from vit.errors import UsageError, nearest
from vit.launch import srun_as_torchrun

SIDES = (512, 1024, 2048, 4096, 8192)  # of measured matrix products
SIDE_SECONDS = 0.04  # of one side; a side that needs more for three products is left out
MIN_PRODUCTS = 3  # of a side: the first one also allocates and packs
_DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def choose_device(name: str = "auto") -> torch.device:
    """The device of this process: the named one, or an accelerator, or the CPU. UsageError: there is no such device.

    Where a process sees several GPUs, it takes the GPU of its rank on this machine.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return _own_gpu()
        return torch.device("mps") if torch.backends.mps.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"there is no device {name!r}", nearest(name, ("auto", "cpu", "cuda", "mps"))) from error
    backend = getattr(torch, device.type, None)
    if backend is None or not hasattr(backend, "is_available") or not backend.is_available():
        raise UsageError(f"PyTorch sees no device {name!r} here", "give cpu or auto")
    return _own_gpu() if name == "cuda" else device


def _own_gpu() -> torch.device:
    variables = srun_as_torchrun(os.environ) | os.environ  # a script of a user may run as a task of srun
    rank = int(variables.get("LOCAL_RANK", "0"))
    return torch.device("cuda", rank % torch.cuda.device_count())  # a launcher may show each process one GPU


def choose_precision(precision: str, device: torch.device, may_be_float16: bool = False) -> str:
    """The precision. "auto" becomes "bf16-mixed" where the hardware is faster in bfloat16, else "32-true".

    Where it may be float16, "auto" becomes "16-mixed" on a GPU that is fast in it alone: V100, T4, RTX 20.
    """
    if precision != "auto":
        return precision
    if is_faster_in_bf16(device):
        return "bf16-mixed"
    if not may_be_float16 or device.type != "cuda" or torch.cuda.get_device_capability(device) < (7, 0):
        return "32-true"
    is_gtx = "GTX" in torch.cuda.get_device_name(device)  # a GTX 1660 has the capability of a T4, and no tensor cores
    return "32-true" if is_gtx else "16-mixed"


def is_faster_in_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies matrices faster in bfloat16 than in float32.

    CPUs of Intel need AMX for that, which a virtual machine may hide. With AVX-512 alone their products in bfloat16
    reach half of the speed of float32.
    """
    lacks_amx = device.type == "cpu" and _is_of_intel() and not torch.cpu._is_amx_tile_supported()
    return not lacks_amx and has_bf16(device)


@cache
def _is_of_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return "Intel" in platform.processor()


def has_bf16(device: torch.device) -> bool:
    """Whether the hardware itself computes in bfloat16. Emulation is slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return False


def has_compiler() -> bool:
    """Whether this machine has what torch.compile needs for a GPU."""
    return find_spec("triton") is not None and any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang")))


@contextmanager
def full_float32(precision: str = "32-true", device: torch.device | None = None) -> Iterator[None]:
    """The context in which "32-true" means float32 on a GPU. The setting is one for all threads, so a CPU leaves it.

    Without it cuDNN computes convolutions with 10 bits of mantissa (TF32), by PyTorch's default. Products of matrices
    are float32 by default.
    """
    if device is not None and device.type == "cpu":
        yield
        return
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = before and precision != "32-true"
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which a network runs at a precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")


@cache
@torch.no_grad()
def matrix_peak(device: torch.device, precision: str) -> float:
    """The matrix peak of a device in a precision, in FLOP/s, measured once in each process without a random number."""
    dtype = _DTYPES.get(precision, torch.float32)
    best, seconds = 0.0, 0.0
    for side in SIDES:
        if MIN_PRODUCTS * 8 * seconds > SIDE_SECONDS:
            break  # a product of twice the side takes eight times as long
        seconds = _fastest(torch.linspace(-1.0, 1.0, side * side, device=device).to(dtype).view(side, side))
        best = max(best, 2 * side**3 / seconds)
    return best


def _fastest(matrix: torch.Tensor) -> float:
    """Seconds of the fastest of several products of a matrix with itself."""
    product, fastest, count = torch.empty_like(matrix), float("inf"), 0
    end = time.perf_counter() + SIDE_SECONDS
    while count < MIN_PRODUCTS or time.perf_counter() < end:
        started = time.perf_counter()
        torch.mm(matrix, matrix, out=product)
        if matrix.device.type != "cpu":
            torch.accelerator.synchronize()
        fastest, count = min(fastest, time.perf_counter() - started), count + 1
    return fastest
