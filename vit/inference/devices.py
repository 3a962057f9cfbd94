"""Which device and which precision a network runs at"""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

from vit.errors import UsageError, nearest
from vit.launch import srun_as_torchrun


def choose_device(name: str = "auto") -> torch.device:
    """The device of this process: the named one, or an accelerator, or the CPU.

    Where a process sees several GPUs, it takes the GPU of its rank on this machine.

    Raises:
        UsageError: there is no such device.
    """
    if name != "auto":
        return _named_device(name)
    if torch.cuda.is_available():
        return _own_gpu()
    return torch.device("mps") if torch.backends.mps.is_available() else torch.device("cpu")


def _named_device(name: str) -> torch.device:
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


def choose_precision(precision: str, device: torch.device) -> str:
    """The precision. "auto" becomes "bf16-mixed" where the hardware is faster in bfloat16, else "32-true"."""
    if precision != "auto":
        return precision
    return "bf16-mixed" if is_faster_in_bf16(device) else "32-true"


def choose_training_precision(precision: str, device: torch.device) -> str:
    """As `choose_precision`, but "auto" becomes "16-mixed" where a GPU is fast in float16 alone: V100, T4, RTX 20."""
    chosen = choose_precision(precision, device)
    if precision != "auto" or chosen != "32-true" or device.type != "cuda":
        return chosen
    has_tensor_cores = torch.cuda.get_device_capability(device) >= (7, 0) and "GTX" not in (
        torch.cuda.get_device_name(device)  # a GTX 1660 has the capability of a T4, and no tensor cores
    )
    return "16-mixed" if has_tensor_cores else chosen


def is_faster_in_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies matrices faster in bfloat16 than in float32.

    CPUs of Intel need AMX for that, which a virtual machine may hide. With AVX-512 alone their products in bfloat16
    reach half of the speed of float32 (docs/performance.md).
    """
    if device.type == "cpu" and _is_of_intel() and not torch.cpu._is_amx_tile_supported():
        return False
    return has_bf16(device)


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
    compilers = map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))
    return find_spec("triton") is not None and any(compilers)


@contextmanager
def full_float32(precision: str = "32-true") -> Iterator[None]:
    """The context in which "32-true" means float32 on a GPU.

    Without it cuDNN computes convolutions with 10 bits of mantissa (TF32), by PyTorch's default. Products of matrices
    are float32 by default.
    """
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = before and precision != "32-true"
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which a network runs at a precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
