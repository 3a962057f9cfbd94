"""onnx: a file from uint8 images to calibrated probabilities, for onnxruntime"""

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from vit.checkpoints.format import KEY
from vit.errors import UsageError
from vit.export.format import Classify, Format, description_text
from vit.inference.deployed import Trained, input_words, notes, traced
from vit.inference.engines.engine_names import ONNX
from vit.inference.engines.onnx_engine import INPUT, MAX_BYTES, OUTPUT, OnnxEngine

if TYPE_CHECKING:
    from onnx import ModelProto


class OnnxFile(Format):
    """A graph that `vit predict` accepts, too."""

    ending = ONNX
    packages = ("onnx", "onnxscript", "onnxruntime")
    extra = "export"

    def write(self, trained: Trained, path: Path) -> None:
        import onnx

        if sum(value.nbytes for value in trained.network.state_dict().values()) >= MAX_BYTES:
            raise UsageError("the network is larger than one ONNX file can be", "give --format pt2 or safetensors")
        model = _converted(trained)
        _forget_source_lines(model)
        onnx.helper.set_model_props(
            model,
            {
                KEY: description_text(trained.description),
                **notes(trained),
            },
        )
        path.write_bytes(model.SerializeToString())

    def read(self, trained: Trained, path: Path) -> Classify:
        return OnnxEngine(path).probabilities

    def how_to_load(self, trained: Trained, path: Path) -> str:
        return (
            f"session = onnxruntime.InferenceSession({str(path)!r})\n"
            f'(probabilities,) = session.run(None, {{"{INPUT}": images}})  # {input_words(trained)}'
        )


def _converted(trained: Trained) -> "ModelProto":
    """The graph as ONNX, without the messages of the exporters, which do not help the user."""
    logging.getLogger("onnxscript").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            traced(trained),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def _forget_source_lines(model: "ModelProto") -> None:
    """Remove the exporter's notes, which contain source lines with the paths of this machine."""
    for part in (model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for tensor in model.graph.initializer:
        tensor.ClearField("metadata_props")
