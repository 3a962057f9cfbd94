"""onnx: a file from uint8 images to calibrated probabilities, for onnxruntime"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from vit.checkpoints.format import KEY
from vit.errors import UsageError
from vit.export.format import Classify, Format, description_text, label_code, quiet
from vit.inference.deployment import LoadedModel, describe_input, notes, traced
from vit.inference.engine import Classifies
from vit.inference.engines.engine_names import ONNX
from vit.inference.engines.exported_engines import INPUT, ONNX_MAX_BYTES, OUTPUT, OnnxEngine

if TYPE_CHECKING:
    from onnx import ModelProto


class OnnxFile(Format):
    """A graph that `vit predict` accepts, too."""

    ending = ONNX
    imports = "import numpy, onnxruntime"
    library = "onnx"
    next_command = "vit predict {path} FOLDER_OF_IMAGES"
    packages = ("onnx", "onnxscript", "onnxruntime")
    extra = "export"

    def write(self, trained: LoadedModel, path: Path) -> None:
        path.write_bytes(described(graph_of(trained), trained).SerializeToString())

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        return self.engine(path).probabilities

    def engine(self, path: Path) -> Classifies:
        """What `vit predict` computes the written file with."""
        return OnnxEngine(path)

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        label = label_code(trained, "probabilities", "numpy.array")
        return (
            f"session = onnxruntime.InferenceSession({str(path)!r})\n"
            f'(probabilities,) = session.run(None, {{"{INPUT}": images}})  # {describe_input(trained)}{label}'
        )


def graph_of(trained: LoadedModel) -> "ModelProto":
    """The network as ONNX, without the exporter's messages, and without its source lines with paths of this machine."""
    if sum(value.nbytes for value in trained.network.state_dict().values()) >= ONNX_MAX_BYTES:
        raise UsageError("the network is larger than one ONNX file can be", "give --format pt2 or safetensors")
    logging.getLogger("onnxscript").setLevel(logging.ERROR)
    with quiet():
        program = torch.onnx.export(
            traced(trained), input_names=[INPUT], output_names=[OUTPUT], dynamo=True, external_data=False, verbose=False
        )
    assert program is not None
    model = program.model_proto
    for part in (model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for tensor in model.graph.initializer:
        tensor.ClearField("metadata_props")
    return model


def described(model: "ModelProto", trained: LoadedModel, more: Mapping[str, str] | None = None) -> "ModelProto":
    """The same graph with what it says about itself, and nothing else."""
    import onnx

    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {KEY: description_text(trained.description), **notes(trained), **(more or {})})
    return model
