"""Names of engines, without heavy imports: an engine that does not fit is an error before torch is imported"""

from pathlib import Path
from typing import Literal

from vit.errors import UsageError
from vit.inference.engines.openvino_library import check_installed

EngineName = Literal["auto", "torch", "openvino"]
ONNX, OPENVINO = ".onnx", ".xml"  # endings of exported files that this program predicts with
_OWN_ENGINE = {ONNX: ("an ONNX file", "onnxruntime"), OPENVINO: ("a graph of OpenVINO", "openvino")}


def check_engine(engine: EngineName, model: Path, device: str) -> None:
    """Raise UsageError where an engine is not installed, or cannot compute a model on a device."""
    what, own = _OWN_ENGINE.get(model.suffix, ("", ""))
    if own:
        if engine not in ("auto", own):
            raise UsageError(f"--engine {engine}, but {what} is computed with {own}", "leave --engine out")
        if device not in ("auto", "cpu"):
            raise UsageError(f"--device {device}, but {what} is computed with cpu", "leave --device out")
    if engine == "openvino" and device not in ("auto", "cpu"):
        raise UsageError(
            f"--device {device}, but --engine openvino computes on the CPU", "leave --device out, or --engine"
        )
    if own == "openvino" or engine == "openvino":
        check_installed(str(model) if own else "--engine openvino")
