"""Names of engines, without heavy imports: an engine that does not fit is an error before torch is imported"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Literal

from vit.errors import UsageError, install

NAME = "openvino"
EngineName = Literal["auto", "torch", "openvino"]
ONNX, OPENVINO = ".onnx", ".xml"  # endings of exported files that this program predicts with
_OWN_ENGINE = {ONNX: ("an ONNX file", "onnxruntime"), OPENVINO: ("a graph of OpenVINO", "openvino")}


def check_installed(what: str) -> None:
    """Raise UsageError where the library is missing, which an option or file needs. It is not imported."""
    if find_spec(NAME) is None:
        raise UsageError(f"{what} needs openvino, which is not installed", install(NAME))


def import_openvino(what: str) -> ModuleType:
    """The library, imported. Its import alone would send an event to its makers."""
    check_installed(what)
    with without_telemetry():
        import openvino
    return openvino


@contextmanager
def without_telemetry() -> Iterator[None]:
    """While entered: openvino counts this process as a run of continuous integration, and sends nothing.

    `opt_in_out --opt_out` would write a file to the user's home, which is not ours to write.
    """
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CI"]
        else:
            os.environ["CI"] = before


def check_engine(engine: EngineName, model: Path, device: str) -> None:
    """Raise UsageError where an engine is not installed, or cannot compute a model on a device."""
    what, library = _OWN_ENGINE.get(model.suffix, ("", ""))
    if library and engine not in ("auto", library):
        raise UsageError(f"--engine {engine}, but {what} is computed with {library}", "leave --engine out")
    if library and device not in ("auto", "cpu"):
        raise UsageError(f"--device {device}, but {what} is computed with cpu", "leave --device out")
    if engine == "openvino" and device not in ("auto", "cpu"):
        problem = f"--device {device}, but --engine openvino computes on the CPU"
        raise UsageError(problem, "leave --device out, or --engine")
    if library == "openvino" or engine == "openvino":
        check_installed(str(model) if library else "--engine openvino")
