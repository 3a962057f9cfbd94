"""int8 for onnx: weights and inputs of every linear layer in 8 bits, by onnxruntime's static quantization (QDQ)

The graph stays one of ONNX's own operators, so that every runtime of ONNX reads it. Attention, LayerNorm, softmax and
the temperature stay in float32.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from torch import Tensor

from vit.export.format import Progress
from vit.export.quiet import quiet
from vit.inference.engines.onnx_engine import INPUT

if TYPE_CHECKING:
    from onnx import ModelProto

OPERATORS = ["MatMul", "Gemm", "Conv"]  # a MatMul of two activations, as in attention, stays as it is
PERCENTILE = 99.999  # of an activation's values lie in its range; docs/guides/export.md compares other rules
BATCH = 8  # images whose activations are in memory at once


def quantized(model: "ModelProto", images: Tensor, progress: Progress) -> "ModelProto":
    """A graph with int8 weights, one scale for each output channel, and uint8 activations, one scale for each tensor.

    Weights use 7 of the 8 bits. Processors without VNNI add pairs of products in 16 bits, where 8 bits would overflow
    in silence. So a file gives the same answers on all of them.

    Args:
        model: float32 graph.
        images: (n, C, S, S) uint8, whose activations give the ranges.
        progress: called with (done, total) images.
    """
    with TemporaryDirectory() as folder, quiet():
        import onnx
        from onnxruntime.quantization import CalibrationMethod, QDQQuantizer, QuantType, create_calibrator

        plain = Path(folder) / "float32.onnx"
        plain.write_bytes(model.SerializeToString())
        calibrator = create_calibrator(
            plain,
            OPERATORS,
            augmented_model_path=str(Path(folder) / "observed.onnx"),
            calibrate_method=CalibrationMethod.Percentile,
            extra_options={"percentile": PERCENTILE},
        )
        for first in range(0, len(images), BATCH):
            part = images[first : first + BATCH].numpy()
            calibrator.collect_data(_Batch({INPUT: part}))
            progress(min(first + BATCH, len(images)), len(images))
        quantizer = QDQQuantizer(
            onnx.shape_inference.infer_shapes(model),
            per_channel=True,
            reduce_range=True,
            weight_qType=QuantType.QInt8,
            activation_qType=QuantType.QUInt8,
            tensors_range=calibrator.compute_data(),
            nodes_to_quantize=[],
            nodes_to_exclude=[],
            op_types_to_quantize=OPERATORS,
            extra_options={"MatMulConstBOnly": True},
        )
        quantizer.quantize_model()
        quantizer.model.topological_sort()
    made: ModelProto = quantizer.model.model
    return made


class _Batch:
    """One batch, as onnxruntime's calibrators read batches (`CalibrationDataReader`)."""

    def __init__(self, batch: dict[str, Any]) -> None:
        self._batches = [batch]

    def get_next(self) -> dict[str, Any] | None:
        """The batch, and None after it."""
        return self._batches.pop() if self._batches else None
