"""The matrix peak: measured without a change of random state, once in a process, in the precision of the network."""

import torch

from vit.inference import devices as module
from vit.inference.devices import matrix_peak

CPU = torch.device("cpu")


def test_the_peak_is_measured_once_and_draws_nothing(monkeypatch):
    monkeypatch.setattr(module, "SIDES", (8, 16))
    monkeypatch.setattr(module, "SIDE_SECONDS", 0.0001)
    matrix_peak.cache_clear()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    peak = matrix_peak(CPU, "32-true")
    assert torch.equal(torch.get_rng_state(), before)
    assert peak > 0 and matrix_peak(CPU, "32-true") == peak  # a second measurement would differ
    matrix_peak.cache_clear()


def test_products_are_of_the_precision_and_slow_sides_are_left_out(monkeypatch):
    measured = []

    def fastest(matrix):
        measured.append((matrix.dtype, tuple(matrix.shape)))
        return 1e-6 if len(measured) < 2 else 1.0  # as if the second side were slow

    monkeypatch.setattr(module, "_fastest", fastest)
    peak = matrix_peak.__wrapped__(CPU, "bf16-mixed")
    assert measured == [(torch.bfloat16, (512, 512)), (torch.bfloat16, (1024, 1024))]
    assert peak == 2 * 512**3 / 1e-6
