"""Exported networks on a CPU, computed by onnxruntime or OpenVINO, with the interface of `Engine`

Files are untrusted. This module accepts only files as `vit export` writes them: without references to other files,
with standard operators, without subgraphs, and with a description that fits input and output. An ONNX file has it in
its metadata. A graph of OpenVINO (.xml, with its weights beside in .bin) has it as text in `rt_info`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vit.checkpoints.format import KEY, Description, read_description
from vit.errors import CheckpointError, UsageError, explained, first_line, install
from vit.inference.deployment import LoadedModel, notes, traced
from vit.inference.devices import choose_precision
from vit.inference.engines.engine_names import import_openvino, without_telemetry

if TYPE_CHECKING:
    import openvino
    from onnx import AttributeProto, ModelProto, TensorProto

INPUT, OUTPUT = "images", "probabilities"
ONNX_MAX_BYTES = 2 * 2**30  # limit of a protobuf message
_ONNX_FIX = "give a file that 'vit export --format onnx' wrote"
OPENVINO_MAX_BYTES = 64 * 2**20  # of a graph: a ViT-L with 20,000 class names has 2 MiB
_SUBGRAPHS = {"If", "Loop", "TensorIterator"}
_HINTS = {"32-true": "f32", "bf16-mixed": "bf16"}  # openvino's default would be bf16 wherever the hardware has it
_OPENVINO_FIX = "give a file that 'vit export --format openvino' wrote"
_OTHER_ENGINE = "give --precision 32-true, or --engine torch"

Array = npt.NDArray[Any]


class ExportedEngine(ABC):
    """A network on the CPU that another library computes; `place` and `fix` are for errors."""

    name: str
    precision: str
    device = torch.device("cpu")

    def __init__(self, description: Description, place: Path, fix: str) -> None:
        self.description, self.rules = description, description.multilabel
        self.preprocess, self.temperature = description.preprocess, description.temperature
        self._place, self._fix = place, fix

    @abstractmethod
    def _compute(self, images: Array) -> Array: ...

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32."""
        computed = self._compute(images.numpy())
        if computed.shape != (len(images), len(self.description.class_names)):
            raise CheckpointError(f"{self._place} gave {computed.shape} for {len(images):,} images", self._fix)
        return torch.from_numpy(computed)


class OnnxEngine(ExportedEngine):
    """An ONNX file, computed by onnxruntime. CheckpointError, UsageError: as for `read`."""

    name = "onnxruntime"

    def __init__(self, path: Path) -> None:
        with explained(UsageError, f"{path} needs onnxruntime", install("export"), ImportError):
            import onnxruntime
        content = _checked_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # decoding needs the cores in between
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            metadata = self._session.get_modelmeta().custom_metadata_map
            plain = json.loads(metadata[KEY])
            inputs = [(item.name, item.type, item.shape[1:]) for item in self._session.get_inputs()]
            outputs = [(item.name, item.type, item.shape[1:]) for item in self._session.get_outputs()]
        except Exception as error:  # onnxruntime has its own class for every failure
            problem = f"{path} cannot be used: {type(error).__name__}: {first_line(error)}"
            raise CheckpointError(problem, _ONNX_FIX) from error
        super().__init__(read_description(plain, path, _ONNX_FIX), path, _ONNX_FIX)
        self.precision = "int8" if metadata.get("precision") == "int8" else "32-true"
        side, count = self.preprocess.image_size, len(self.description.class_names)
        image = [self.preprocess.channels, side, side]
        expected = [(INPUT, "tensor(uint8)", image)], [(OUTPUT, "tensor(float)", [count])]
        _check_ports(path, (inputs, outputs), expected, _ONNX_FIX)

    def _compute(self, images: Array) -> Array:
        (probabilities,) = self._session.run([OUTPUT], {INPUT: images})
        return np.asarray(probabilities)


def _check_ports(path: Path, ports: tuple[object, object], expected: tuple[object, object], fix: str) -> None:
    if ports != expected:
        raise CheckpointError(f"{path} has inputs {ports[0]} and outputs {ports[1]}, not {expected}", fix)


def _checked_onnx(path: Path) -> bytes:
    """The content of a file without references to other files."""
    import onnx

    _check_size(path, ONNX_MAX_BYTES, _ONNX_FIX)
    content = path.read_bytes()
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's DecodeError, and whatever else it meets
        problem = f"{path} ({len(content):,} bytes) is not an ONNX file, or is incomplete"
        raise CheckpointError(problem, _ONNX_FIX) from error
    foreign = {node.domain for node in model.graph.node} | {used.domain for used in model.opset_import}
    for what, applies in (
        ("keeps weights in other files", any(tensor.data_location for tensor in _tensors(model))),
        ("has operators that are not ONNX's own", bool(foreign - {""}) or len(model.functions) > 0),
        ("has graphs inside its graph", any(item.HasField("g") or item.graphs for item in _attributes(model))),
        ("holds sparse weights", len(model.graph.sparse_initializer) > 0),
        ("has no description of its classes and preprocessing", KEY not in {item.key for item in model.metadata_props}),
    ):
        if applies:
            raise CheckpointError(f"{path} {what}", _ONNX_FIX)
    return content


def _check_size(path: Path, most: int, fix: str) -> None:
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}", fix)
    if path.stat().st_size >= most:
        raise CheckpointError(f"{path} is larger than {most // 2**20:,} MiB", fix)


def _attributes(model: "ModelProto") -> Iterator["AttributeProto"]:
    return (attribute for node in model.graph.node for attribute in node.attribute)


def _tensors(model: "ModelProto") -> Iterator["TensorProto"]:
    """Every tensor that a file of a single graph can hold."""
    yield from model.graph.initializer
    for attribute in _attributes(model):
        yield from (attribute.t, attribute.sparse_tensor.values, attribute.sparse_tensor.indices, *attribute.tensors)


@dataclass(frozen=True)
class OpenVinoModel:
    """A graph: images (B, 3, S, S) uint8 -> probabilities (B, C) float32, and what it says about itself."""

    graph: "openvino.Model"
    description: Description


class OpenVinoEngine(ExportedEngine):
    """A converted network, computed by OpenVINO. CheckpointError: the graph cannot be computed.

    The precision is "32-true", "bf16-mixed", or "auto" for that of the training, where the hardware has it. UsageError:
    openvino is not installed, or computes in another one.
    """

    name = "openvino"

    def __init__(self, model: OpenVinoModel, precision: str, place: Path) -> None:
        super().__init__(model.description, place, _OTHER_ENGINE)
        library = import_openvino(str(place))
        of_training = model.description.precision
        wanted = of_training if precision == "auto" and of_training == "32-true" else precision
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

    def _compute(self, images: Array) -> Array:
        return np.asarray(self._request.infer([images])[OUTPUT])


def convert(trained: LoadedModel, what: str) -> OpenVinoModel:
    """A network as a graph with float32 weights. Its inference may use another precision.

    UsageError, with the option that asks for it: openvino is not installed, or it cannot compute this network.
    """
    library = import_openvino(what)
    fix = "give --engine torch, or another --format"
    # torch.export and openvino have their own classes for every failure
    with explained(UsageError, f"{what}: openvino cannot compute {trained.description.spec.name}", fix, Exception):
        program = traced(trained)
        with without_telemetry():
            graph = library.convert_model(program)
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
    """The model of an .xml file. UsageError: the library is not installed.

    CheckpointError: the file or its .bin is missing or damaged, or `vit export` does not write such files.
    """
    library = import_openvino(str(path))
    weights = path.with_suffix(".bin")
    _check_size(path, OPENVINO_MAX_BYTES, _OPENVINO_FIX)
    if not weights.is_file():
        raise CheckpointError(f"{path} has its weights in {weights.name}, which is missing", "copy both files")
    with open(path, "rb") as file:
        start = file.read(200).lstrip()
    if not start.startswith(b"<?xml") or b"<net " not in start:  # openvino would try all its formats
        raise CheckpointError(f"{path} is not a graph of OpenVINO", _OPENVINO_FIX)
    try:
        graph = library.Core().read_model(path, weights)
        plain = json.loads(graph.get_rt_info([KEY]).astype(str))
    except Exception as error:  # openvino raises RuntimeError for every failure
        # The last line names the problem. The lines before it name files of openvino's source.
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        problem = f"{path} cannot be used: {type(error).__name__}: {lines[-1][:300]}"
        raise CheckpointError(problem, _OPENVINO_FIX) from error
    description = read_description(plain, path, _OPENVINO_FIX)
    _check_graph(graph, description, path)
    return OpenVinoModel(graph, description)


def _check_graph(graph: "openvino.Model", description: Description, path: Path) -> None:
    kinds = [operator.get_type_info() for operator in graph.get_ops()]
    if any(kind.name in _SUBGRAPHS or not str(kind.version_id).startswith("opset") for kind in kinds):
        raise CheckpointError(f"{path} has operators that 'vit export' does not write", _OPENVINO_FIX)
    inputs, outputs = (
        [(",".join(sorted(one.names)), one.element_type.to_string(), one.partial_shape.to_string()) for one in ports]
        for ports in (graph.inputs, graph.outputs)
    )
    side, channels = description.preprocess.image_size, description.preprocess.channels
    image, row = f"[?,{channels},{side},{side}]", f"[?,{len(description.class_names)}]"
    _check_ports(path, (inputs, outputs), ([(INPUT, "u8", image)], [(OUTPUT, "f32", row)]), _OPENVINO_FIX)
