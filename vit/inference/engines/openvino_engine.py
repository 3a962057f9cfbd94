"""OpenVINO: a network as a graph in its format, read from a file that is not trusted, and computed on a CPU

A model is a graph (.xml) with its weights beside (.bin). The graph holds our description as text in `rt_info`. This
module accepts only graphs as it writes them: with OpenVINO's own operators, without subgraphs, and with a description
that fits input and output.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vit.checkpoints.format import KEY, Description, read_description
from vit.errors import CheckpointError, UsageError, first_line
from vit.inference.deployment import LoadedModel, notes, traced
from vit.inference.devices import choose_precision
from vit.inference.engines.engine_names import import_openvino, without_telemetry

if TYPE_CHECKING:
    import openvino

INPUT, OUTPUT = "images", "probabilities"
MAX_BYTES = 64 * 2**20  # of a graph: a ViT-L with 20,000 class names has 2 MiB
_SUBGRAPHS = {"If", "Loop", "TensorIterator"}
_HINTS = {"32-true": "f32", "bf16-mixed": "bf16"}  # openvino's default would be bf16 wherever the hardware has it
_FIX = "give a file that 'vit export --format openvino' wrote"
_OTHER_ENGINE = "give --precision 32-true, or --engine torch"


@dataclass(frozen=True)
class OpenVinoModel:
    """A graph: images (B, 3, S, S) uint8 -> probabilities (B, C) float32, and what it says about itself."""

    graph: "openvino.Model"
    description: Description


class OpenVinoEngine:
    """A converted network on the CPU, with the interface of `Engine`.

    Args:
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
        self.description, self.rules = description, description.multilabel
        self.preprocess, self.temperature = description.preprocess, description.temperature
        wanted = description.precision if precision == "auto" and description.precision == "32-true" else precision
        self.precision = choose_precision(wanted, self.device)
        if self.precision not in _HINTS:
            raise UsageError(f"--precision {precision}, but openvino does not compute with it", _OTHER_ENGINE)
        options = {
            "INFERENCE_PRECISION_HINT": _HINTS[self.precision],
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "ENABLE_CPU_PINNING": False,  # two processes would share the first cores
        }
        try:
            self._request = library.Core().compile_model(model.graph, "CPU", options).create_infer_request()
        except Exception as error:  # openvino raises RuntimeError for every failure
            problem = f"openvino cannot compute {place}: {str(error)[-300:].strip()}"
            raise CheckpointError(problem, _OTHER_ENGINE) from error
        self._place = place

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32."""
        found = torch.from_numpy(self._request.infer([images.numpy()])[OUTPUT])
        if found.shape != (len(images), len(self.description.class_names)):
            raise CheckpointError(f"{self._place} gave {tuple(found.shape)} for {len(images)} images", _OTHER_ENGINE)
        return found


def convert(trained: LoadedModel, what: str) -> OpenVinoModel:
    """A network as a graph with float32 weights. Its inference may use another precision.

    Args:
        what: option that asks for it, for errors.

    Raises:
        UsageError: openvino is not installed, or it cannot compute this network.
    """
    library = import_openvino(what)
    try:
        program = traced(trained)
        with without_telemetry():
            graph = library.convert_model(program)
    except Exception as error:  # torch.export and openvino have their own classes for every failure
        problem = f"{what}: openvino cannot compute {trained.description.spec.name}: {first_line(error)}"
        raise UsageError(problem, "give --engine torch, or another --format") from error
    side = trained.network.image_size
    graph.reshape([-1, trained.network.in_chans, side, side])
    graph.inputs[0].tensor.set_names({INPUT})
    graph.outputs[0].tensor.set_names({OUTPUT})
    for key, text in {KEY: json.dumps(trained.description.to_dict()), **notes(trained)}.items():
        graph.set_rt_info(text, [key])
    return OpenVinoModel(graph, trained.description)


def save(model: OpenVinoModel, path: Path) -> None:
    """Write the graph to a file that ends in .xml, and its weights to .bin beside it."""
    import_openvino(str(path)).save_model(model.graph, path, compress_to_fp16=False)


def read(path: Path) -> OpenVinoModel:
    """The model of an .xml file.

    Raises:
        CheckpointError: the file or its .bin is missing or damaged, or `vit export` does not write such files.
        UsageError: openvino is not installed.
    """
    library = import_openvino(str(path))
    weights = path.with_suffix(".bin")
    _check_files(path, weights)
    try:
        graph = library.Core().read_model(path, weights)
        plain = json.loads(graph.get_rt_info([KEY]).astype(str))
    except Exception as error:  # openvino raises RuntimeError for every failure
        # The last line names the problem. The lines before it name files of openvino's source.
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        raise CheckpointError(f"{path} cannot be used: {type(error).__name__}: {lines[-1][:300]}", _FIX) from error
    description = read_description(plain, path, _FIX)
    _check_graph(graph, description, path)
    return OpenVinoModel(graph, description)


def _check_files(path: Path, weights: Path) -> None:
    """Raise CheckpointError where a file is missing, or the graph is not XML: openvino would try all its formats."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}", _FIX)
    if path.stat().st_size > MAX_BYTES:
        raise CheckpointError(f"{path} is larger than {MAX_BYTES // 2**20} MiB", _FIX)
    if not weights.is_file():
        raise CheckpointError(f"{path} has its weights in {weights.name}, which is missing", "copy both files")
    with open(path, "rb") as file:
        start = file.read(200).lstrip()
    if not start.startswith(b"<?xml") or b"<net " not in start:
        raise CheckpointError(f"{path} is not a graph of OpenVINO", _FIX)


def _check_graph(graph: "openvino.Model", description: Description, path: Path) -> None:
    kinds = [operator.get_type_info() for operator in graph.get_ops()]
    if any(kind.name in _SUBGRAPHS or not str(kind.version_id).startswith("opset") for kind in kinds):
        raise CheckpointError(f"{path} has operators that 'vit export' does not write", _FIX)
    side, channels = description.preprocess.image_size, description.preprocess.channels
    found = _ports(graph.inputs), _ports(graph.outputs)
    expected = (
        [(INPUT, "u8", f"[?,{channels},{side},{side}]")],
        [(OUTPUT, "f32", f"[?,{len(description.class_names)}]")],
    )
    if found != expected:
        raise CheckpointError(f"{path} has inputs {found[0]} and outputs {found[1]}, not {expected}", _FIX)


def _ports(ports: list[Any]) -> list[tuple[str, str, str]]:
    return [
        (",".join(sorted(port.names)), port.element_type.to_string(), port.partial_shape.to_string()) for port in ports
    ]
