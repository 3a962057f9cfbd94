"""The matrix peak of a device: the FLOP/s of its fastest square matrix product, measured in a fraction of a second

MFU, the model FLOPs utilization of Chowdhery et al. 2022 (arXiv 2204.02311, appendix B), is the FLOP/s that a network
needs over a peak. The peak there is the data sheet's. A CPU has none for its cores in use, so that the peak here is
measured: no network of matrix products is much faster.
"""

import time
from functools import cache

import torch

SIDES = (512, 1024, 2048, 4096, 8192)
SIDE_SECONDS = 0.04  # of one side; a side that needs more for three products is left out
MIN_PRODUCTS = 3  # of a side: the first one also allocates and packs
_DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def mfu(flops: float, images_per_second: float, peak: float) -> float:
    """Achieved FLOP/s over the matrix peak.

    Args:
        flops: floating-point operations of one image; three forward passes for a training step.
        images_per_second: images per second of the devices whose peak is given.
        peak: matrix peak in FLOP/s.
    """
    return flops * images_per_second / peak


@cache
def matrix_peak(device: torch.device, precision: str) -> float:
    """The matrix peak of a device in a precision, in FLOP/s, measured once in each process.

    Args:
        device: the device; a CPU computes with PyTorch's number of threads.
        precision: "32-true", "bf16-mixed" or "16-mixed".
    """
    return measure_matrix_peak(device, precision)


@torch.no_grad()
def measure_matrix_peak(device: torch.device, precision: str) -> float:
    """As `matrix_peak`, but measured again. It takes 0.1 to 0.2 seconds, and draws no random number."""
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
