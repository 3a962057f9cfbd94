"""The formats that hold int8: weights and activations in 8 bits, for onnxruntime and OpenVINO

Both keep attention, LayerNorm, softmax and the temperature in float32. The graph of ONNX has ONNX's own operators
(QDQ), so that every runtime reads it.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from vit.checkpoints.format import KEY
from vit.errors import UsageError, explained
from vit.export.format import Progress, check_packages, description_text, quiet
from vit.extras.export.onnx_file import OnnxFile, described, graph_of
from vit.extras.openvino.files import OpenVinoFiles
from vit.inference.deployment import LoadedModel
from vit.inference.engines.engine_names import import_openvino, without_telemetry
from vit.inference.engines.exported_engines import INPUT, OpenVinoModel, convert, read, save
from vit.layout import OPENVINO_GRAPH

if TYPE_CHECKING:
    from onnx import ModelProto

INT8 = {"precision": "int8"}  # what a file of int8 says about itself beside `notes`
OPERATORS = ["MatMul", "Gemm", "Conv"]  # a MatMul of two activations, as in attention, stays as it is
PERCENTILE = 99.999  # of an activation's values lie in its range
BATCH = 8  # images whose activations are in memory at once


class OnnxInt8(OnnxFile):
    """A graph of ONNX in int8."""

    int8_packages: tuple[str, ...] = ()

    def write_int8(self, trained: LoadedModel, path: Path, images: Tensor, progress: Progress) -> None:
        """Write the network in int8 to a new path. UsageError where the format cannot hold this network.

        Args:
            images: (n, C, S, S) uint8, whose activations give the ranges.
            progress: called with (done, total) images.
        """
        model = onnx_int8(graph_of(trained), images, progress)
        path.write_bytes(described(model, trained, INT8).SerializeToString())

    def describe(self, trained: LoadedModel, path: Path, divisor: float = 1.0) -> None:
        """Change the description in a written file, and divide its logits by a number before their softmax."""
        import onnx

        model = onnx.ModelProto.FromString(path.read_bytes())
        if divisor != 1.0:
            softmax = model.graph.node.pop()
            assert softmax.op_type == "Softmax"
            division = onnx.helper.make_node("Div", [*softmax.input, "divisor"], ["divided"])
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(divisor, np.float32), "divisor"))
            softmax.input[:] = ["divided"]
            model.graph.node.extend((division, softmax))
        path.write_bytes(described(model, trained, INT8).SerializeToString())


class OpenVinoInt8(OpenVinoFiles):
    """A graph of OpenVINO in int8, with the methods of `OnnxInt8`."""

    int8_packages = ("nncf",)

    def write_int8(self, trained: LoadedModel, path: Path, images: Tensor, progress: Progress) -> None:
        path.mkdir()
        save(openvino_int8(convert(trained, "--format openvino"), images, progress), path / OPENVINO_GRAPH)

    def describe(self, trained: LoadedModel, path: Path, divisor: float = 1.0) -> None:
        model = read(path / OPENVINO_GRAPH)
        if divisor != 1.0:
            logits = model.graph.outputs[0].node.input_value(0).node.input(0)
            quotient = import_openvino("int8").opset13.divide(logits.get_source_output(), np.float32(divisor))
            logits.replace_source_output(quotient.output(0))
        model.graph.set_rt_info(description_text(trained.description), [KEY])
        with TemporaryDirectory(dir=path.parent) as folder:  # the weights of the graph are still mapped
            save(model, Path(folder) / OPENVINO_GRAPH)
            for file in Path(folder).iterdir():
                file.replace(path / file.name)


FORMATS: dict[str, OnnxInt8 | OpenVinoInt8] = {"onnx": OnnxInt8(), "openvino": OpenVinoInt8()}


def installed_format(name: str) -> OnnxInt8 | OpenVinoInt8:
    """The format of a name; UsageError where it does not hold int8, or a package is missing."""
    if name not in FORMATS:
        raise UsageError(
            f"--precision int8, but --format {name} holds float32 only", f"give --format {' or '.join(FORMATS)}"
        )
    int8_format = FORMATS[name]
    int8_format.check_installed(name)
    check_packages(f"--format {name} --precision int8", int8_format.int8_packages, "int8")
    return int8_format


def onnx_int8(model: "ModelProto", images: Tensor, progress: Progress) -> "ModelProto":
    """A graph with int8 weights, one scale for each output channel, and uint8 activations, one scale for each tensor.

    Weights use 7 of the 8 bits. Processors without VNNI add pairs of products in 16 bits, where 8 bits would overflow
    in silence. So a file gives the same answers on all of them. Arguments as of `OnnxInt8.write_int8`.
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
            batches = iter([{INPUT: images[first : first + BATCH].numpy()}, None])
            calibrator.collect_data(SimpleNamespace(get_next=batches.__next__))  # as a `CalibrationDataReader`
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


def openvino_int8(model: OpenVinoModel, images: Tensor, progress: Progress) -> OpenVinoModel:
    """A graph with int8 weights, and activations in 8 bits where this does not harm a transformer.

    NNCF's scheme for transformers moves outliers of activations into the weights (SmoothQuant, Xiao et al. 2023).
    `OverflowFix` halves the range of weights, so that processors without VNNI give the same answers.
    """
    with without_telemetry(), quiet():
        import nncf

        seen = 0

        def observed(image: Tensor) -> object:
            nonlocal seen
            if seen < len(images):  # nncf reads them again for each of its algorithms
                seen += 1
                progress(seen, len(images))
            return image[None].numpy()

        problem = f"--precision int8: nncf cannot quantize {model.description.spec.name}"
        # nncf and openvino have their own classes for every failure
        with explained(UsageError, problem, "give --format onnx, or leave --precision out", Exception):
            graph = nncf.quantize(
                model.graph,
                nncf.Dataset(list(images), observed),
                model_type=nncf.ModelType.TRANSFORMER,
                preset=nncf.QuantizationPreset.MIXED,
                target_device=nncf.TargetDevice.CPU,
                subset_size=len(images),
                advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
            )
    for key, text in INT8.items():
        graph.set_rt_info(text, [key])
    return replace(model, graph=graph)
