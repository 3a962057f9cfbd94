"""An exported ONNX file applied to images by onnxruntime, with the interface of `Engine`

The file is untrusted. This module accepts only files as `vit export` writes them: without references to other files,
with standard operators, without subgraphs, and with a description in the metadata that fits input and output.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vit.checkpoints.format import KEY, read_description
from vit.errors import CheckpointError, UsageError, first_line, install

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, TensorProto

INPUT, OUTPUT = "images", "probabilities"
MAX_BYTES = 2 * 2**30  # limit of a protobuf message
_FIX = "give a file that 'vit export --format onnx' wrote"


class OnnxEngine:
    """An exported network on the CPU: images (B, 3, S, S) uint8 -> probabilities (B, C) float32.

    Raises:
        CheckpointError: the file is damaged, or `vit export` does not write such files.
        UsageError: onnxruntime is not installed.
    """

    name = "onnxruntime"
    device = torch.device("cpu")
    precision = "32-true"

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise UsageError(f"{path} needs onnxruntime", install("export")) from error
        content = _checked(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # decoding needs the cores in between
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            told = self._session.get_modelmeta().custom_metadata_map
            plain = json.loads(told[KEY])
            inputs = [(item.name, item.type, item.shape[1:]) for item in self._session.get_inputs()]
            outputs = [(item.name, item.type, item.shape[1:]) for item in self._session.get_outputs()]
        except Exception as error:  # onnxruntime has its own class for every failure
            raise CheckpointError(
                f"{path} cannot be used: {type(error).__name__}: {first_line(error)}", _FIX
            ) from error
        self.description = read_description(plain, path, _FIX)
        self.preprocess, self.temperature = self.description.preprocess, self.description.temperature
        self.rules = self.description.multilabel
        side, self._count = self.preprocess.image_size, len(self.description.class_names)
        image, row = [self.preprocess.channels, side, side], [self._count]
        expected = [(INPUT, "tensor(uint8)", image)], [(OUTPUT, "tensor(float)", row)]
        if (inputs, outputs) != expected:
            raise CheckpointError(f"{path} has inputs {inputs} and outputs {outputs}, not {expected}", _FIX)
        if told.get("precision") == "int8":
            self.precision = "int8"
        self._path = path

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32."""
        (found,) = self._session.run([OUTPUT], {INPUT: images.numpy()})
        if found.shape != (len(images), self._count):
            raise CheckpointError(f"{self._path} gave {found.shape} for {len(images)} images", _FIX)
        return torch.from_numpy(found)


def _checked(path: Path) -> bytes:
    """The content of a file without references to other files."""
    import onnx

    if not path.is_file():
        raise CheckpointError(f"there is no file {path}", _FIX)
    if path.stat().st_size >= MAX_BYTES:
        raise CheckpointError(f"{path} is larger than 2 GiB", _FIX)
    content = path.read_bytes()
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's DecodeError, and whatever else it meets
        raise CheckpointError(f"{path} ({len(content):,} bytes) is not an ONNX file, or is incomplete", _FIX) from error
    foreign = {node.domain for node in model.graph.node} | {used.domain for used in model.opset_import}
    for what, found in (
        ("keeps weights in other files", any(tensor.data_location for tensor in _tensors(model))),
        ("has operators that are not ONNX's own", bool(foreign - {""}) or len(model.functions) > 0),
        ("has graphs inside its graph", any(item.HasField("g") or item.graphs for item in _attributes(model))),
        ("holds sparse weights", len(model.graph.sparse_initializer) > 0),
        ("has no description of its classes and preprocessing", KEY not in {item.key for item in model.metadata_props}),
    ):
        if found:
            raise CheckpointError(f"{path} {what}", _FIX)
    return content


def _attributes(model: "ModelProto") -> Iterator["AttributeProto"]:
    return (attribute for node in model.graph.node for attribute in node.attribute)


def _tensors(model: "ModelProto") -> Iterator["TensorProto"]:
    """Every tensor that a file of a single graph can hold."""
    yield from model.graph.initializer
    for attribute in _attributes(model):
        yield from (attribute.t, attribute.sparse_tensor.values, attribute.sparse_tensor.indices, *attribute.tensors)
