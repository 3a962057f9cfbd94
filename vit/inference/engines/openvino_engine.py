"""A network computed by OpenVINO on a CPU, with the interface of `Engine`"""

from pathlib import Path

import torch
from torch import Tensor

from vit.errors import CheckpointError, UsageError
from vit.inference.devices import choose_precision
from vit.inference.engines.engine_names import import_openvino
from vit.inference.engines.openvino_model import OUTPUT, OpenVinoModel

_HINTS = {"32-true": "f32", "bf16-mixed": "bf16"}  # openvino's default would be bf16 wherever the hardware has it
_FIX = "give --precision 32-true, or --engine torch"


class OpenVinoEngine:
    """A converted network on the CPU: images (B, 3, S, S) uint8 -> probabilities (B, C) float32.

    Args:
        model: the network, converted.
        precision: "32-true", "bf16-mixed", or "auto" for the precision of the training, where the hardware has it.
        place: file of the network, for errors.

    Raises:
        UsageError: openvino is not installed, or computes in another precision.
        CheckpointError: the graph cannot be computed.
    """

    name = "openvino"
    device = torch.device("cpu")

    def __init__(self, model: OpenVinoModel, precision: str, place: Path) -> None:
        library = import_openvino(str(place))
        description = model.description
        self.description = description
        self.preprocess, self.temperature = description.preprocess, description.temperature
        self.rules = description.multilabel
        wanted = description.precision if precision == "auto" and description.precision == "32-true" else precision
        self.precision = choose_precision(wanted, self.device)
        if self.precision not in _HINTS:
            raise UsageError(f"--precision {precision}, but openvino does not compute with it", _FIX)
        options = {
            "INFERENCE_PRECISION_HINT": _HINTS[self.precision],
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "ENABLE_CPU_PINNING": False,  # two processes would share the first cores
        }
        try:
            self._request = library.Core().compile_model(model.graph, "CPU", options).create_infer_request()
        except Exception as error:  # openvino raises RuntimeError for every failure
            raise CheckpointError(f"openvino cannot compute {place}: {str(error)[-300:].strip()}", _FIX) from error
        self._place = place

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32."""
        found = torch.from_numpy(self._request.infer([images.numpy()])[OUTPUT])
        if found.shape != (len(images), len(self.description.class_names)):
            raise CheckpointError(f"{self._place} gave {tuple(found.shape)} for {len(images)} images", _FIX)
        return found
