"""OpenVINO's answers, compared with PyTorch's on the first batch before they are believed"""

import torch
from torch import Tensor

from vit.console import Reporter
from vit.data.preprocess import Preprocess
from vit.inference.engine import Engine
from vit.inference.engines.openvino_engine import OpenVinoEngine
from vit.launch import is_first

# Of a probability. On 250 photographs, DeiT-Ti in bfloat16 differs from itself in float32 by up to 0.055 (PyTorch) and
# 0.043 (OpenVINO), and OpenVINO in float32 by up to 7e-6.
TOLERANCE = {"32-true": 1e-4, "bf16-mixed": 0.1}


class CheckedEngine:
    """Two engines of one network: OpenVINO computes, unless its answers to the first batch differ from PyTorch's.

    A difference gives one warning, and PyTorch computes everything, including this batch.
    """

    device = torch.device("cpu")

    def __init__(self, reference: Engine, checked: OpenVinoEngine) -> None:
        assert reference.precision == checked.precision
        self._used: Engine | OpenVinoEngine = checked
        self._reference: Engine | None = reference  # its memory is free after the comparison
        self.precision, self.temperature, self.rules = checked.precision, checked.temperature, checked.rules

    @property
    def name(self) -> str:
        """Name of the engine that computes."""
        return self._used.name

    @property
    def preprocess(self) -> Preprocess:
        """How images become the network's input."""
        return self._used.preprocess

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32."""
        found = self._used.probabilities(images)
        if self._reference is None:
            return found
        reference, self._reference = self._reference, None
        expected = reference.probabilities(images)
        largest = float((found - expected).abs().max())
        if largest <= TOLERANCE[self.precision]:  # NaN is not
            return found
        self._used = reference
        Reporter(quiet=not is_first()).notice(
            f"WARNING: openvino's probabilities differ from torch's by up to {largest:.2g} "
            f"(allowed: {TOLERANCE[self.precision]:g}); torch computes"
        )
        return expected
