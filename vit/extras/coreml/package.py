"""coreml: a package from an RGB picture to labels with calibrated probabilities, for Core ML on Apple's systems

coremltools converts on any system, but only macOS computes what it made. So the package is read again and compared with
the checkpoint in its structure: input, output, classes in their order, and the layers whose weights are unchanged. The
converter merges some layers with a batch norm or a normalization, and splits others.
"""

import contextlib
import io
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from vit.errors import CheckpointError, UsageError, first_line
from vit.export.format import Classify, Format, check_pictures, description_text, quiet
from vit.inference.deployment import LoadedModel, describe_input, notes, probabilities_of

if TYPE_CHECKING:
    from coremltools.models import MLModel

INPUT, OUTPUT = "image", "probabilities"
_DEBUG_FILE = "executorch_debug_handle_mapping.json"  # names of the exporter's nodes, which no program needs
_OTHERS = "give --format onnx, openvino or pt2"
_FEWEST = 256  # values of weights that must be found; fewer may be merged into their neighbors


class CoreMlPackage(Format):
    """An ML program in float32 with an image as input, as Xcode and the Vision framework expect one."""

    ending = ".mlpackage"
    imports = "import coremltools"
    library = "coreml"
    packages = ("coremltools",)
    extra = "coreml"

    def write(self, trained: LoadedModel, path: Path) -> None:
        check_pictures(trained, "Core ML")
        with quiet(), contextlib.redirect_stderr(io.StringIO()):  # its bars of progress ignore what was asked for
            model = _converted(trained)
            model.short_description = f"{trained.description.spec.name} by vit-lightning"
            for key, text in {
                "vit": description_text(trained.description),
                **notes(trained),
                "input": _describe_picture(trained),
            }.items():
                model.user_defined_metadata[key] = text
            model.save(str(path))
        (path / _DEBUG_FILE).unlink(missing_ok=True)

    def structure(self, trained: LoadedModel, path: Path) -> str:
        with quiet():
            import coremltools
            from coremltools.converters.mil.frontend.milproto.load import load

            spec = coremltools.models.MLModel(str(path), skip_model_load=True).get_spec()
            with TemporaryDirectory() as folder:
                weights_file = Path(folder) / "weights"
                shutil.copytree(path / "Data" / "com.apple.CoreML" / "weights", weights_file)
                operations = load(spec, spec.specificationVersion, str(weights_file)).functions["main"].operations
                constants = [np.array(item.outputs[0].val) for item in operations if item.op_type == "const"]
        side, names = trained.network.image_size, trained.description.class_names
        (image,) = spec.description.input
        image_type = image.type.imageType
        if (image.name, image_type.width, image_type.height) != (INPUT, side, side):
            raise CheckpointError(f"the input is {image.name}, {image_type.width} x {image_type.height}", _OTHERS)
        if trained.description.multilabel is None and _class_names(spec) != list(names):
            raise CheckpointError("the package has other class names, or in another order", _OTHERS)
        layers = [layer for layer in trained.network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
        weights = [layer.weight for layer in layers if layer.weight.numel() >= _FEWEST]
        known = {_key(array) for array in constants}
        kept = sum(_key(value.detach().numpy()) in known for value in weights)
        if not kept:
            raise CheckpointError("the package has no layer with the weights of the checkpoint", _OTHERS)
        return (
            f"not run: Core ML computes on Apple's systems alone. Structure checked: an RGB image of {side} x {side}, "
            f"{len(names):,} classes in their order; {kept} of {len(weights)} layers have their weights bit for bit, "
            "and the converter merged the others with their neighbors"
        )

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        raise UsageError("Core ML computes on Apple's systems alone", _OTHERS)

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        return (
            f"model = coremltools.models.MLModel({str(path)!r})  # on macOS; or drag the package into Xcode\n"
            f'answer = model.predict({{"{INPUT}": picture}})  # {_describe_picture(trained)}'
        )


def _describe_picture(trained: LoadedModel) -> str:
    """The input in words: Core ML takes a picture where other formats take a tensor."""
    words = describe_input(trained).partition(": ")[2]  # behind the dtype and the shape
    return f"picture of {trained.network.image_size} x {trained.network.image_size}: {words}"


class _Picture(nn.Module):
    """An RGB picture (1, 3, S, S) float32 of 0 to 255 -> probabilities (1, C). Core ML hands images over as floats."""

    mean: Tensor
    scale: Tensor

    def __init__(self, trained: LoadedModel) -> None:
        super().__init__()
        self.network, self.description = trained.network, trained.description
        plain = trained.description.preprocess
        self.register_buffer("mean", 255 * torch.tensor(plain.mean)[:, None, None])
        self.register_buffer("scale", 1 / (255 * torch.tensor(plain.std)[:, None, None]))

    def forward(self, image: Tensor) -> Tensor:
        logits = self.network((image - self.mean) * self.scale)
        return probabilities_of(logits, self.description.temperature, self.description.multilabel)


def _converted(trained: LoadedModel) -> "MLModel":
    import coremltools
    from coremltools.converters.mil.frontend.torch.torch_op_registry import register_torch_op

    @register_torch_op(torch_alias=["alias"], override=True)  # type: ignore[untyped-decorator]
    def vit_alias(context: Any, node: Any) -> None:  # torch 2.14 writes this identity, which coremltools 9.0 lacks
        context.add(context[node.inputs[0]], torch_name=node.name)

    side, description = trained.network.image_size, trained.description
    several = description.multilabel is not None
    module = _Picture(trained).eval().requires_grad_(False)
    picture = coremltools.ImageType(name=INPUT, shape=(1, 3, side, side), color_layout=coremltools.colorlayout.RGB)
    try:
        program = torch.export.export(module, (torch.zeros(1, 3, side, side),)).run_decompositions({})
        return coremltools.convert(
            program,
            convert_to="mlprogram",
            inputs=[picture],
            outputs=[coremltools.TensorType(name=OUTPUT)] if several else None,
            classifier_config=None if several else coremltools.ClassifierConfig(list(description.class_names)),
            minimum_deployment_target=coremltools.target.iOS16,
            compute_precision=coremltools.precision.FLOAT32,
            skip_model_load=True,
        )
    except Exception as error:  # torch.export and coremltools have their own classes for every failure
        name = description.spec.name
        raise UsageError(f"coremltools cannot convert {name}: {first_line(error)}", _OTHERS) from error


def _class_names(spec: Any) -> list[str]:
    """The class names of a classifier, in the order of its probabilities."""
    for block in spec.mlProgram.functions["main"].block_specializations.values():
        for operation in block.operations:
            if operation.type == "classify":
                (argument,) = operation.inputs["classes"].arguments
                listed = argument.value.immediateValue.list.values
                return [value.immediateValue.tensor.strings.values[0] for value in listed]
    return []


def _key(array: "np.ndarray[Any, Any]") -> bytes:
    """The values of a weight without their order, because a converter may transpose it."""
    return np.sort(array.astype(np.float32), axis=None).tobytes() if array.dtype.kind == "f" else b""
