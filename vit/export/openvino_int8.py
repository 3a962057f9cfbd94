"""int8 for openvino: weights and activations in 8 bits, by NNCF's post-training quantization"""

from dataclasses import replace

from torch import Tensor

from vit.errors import UsageError, first_line
from vit.export.format import INT8, Progress
from vit.export.quiet import quiet
from vit.inference.engines.openvino_library import without_telemetry
from vit.inference.engines.openvino_model import OpenVinoModel


def quantized(model: OpenVinoModel, images: Tensor, progress: Progress) -> OpenVinoModel:
    """A graph with int8 weights, and activations in 8 bits where this does not harm a transformer.

    NNCF's scheme for transformers moves outliers of activations into the weights (SmoothQuant, Xiao et al. 2023).
    `OverflowFix` halves the range of weights, so that processors without VNNI give the same answers.

    Args:
        model: float32 graph.
        images: (n, C, S, S) uint8, whose activations give the ranges.
        progress: called with (done, total) passes over an image.

    Raises:
        UsageError: NNCF cannot quantize this network.
    """
    with without_telemetry(), quiet():
        import nncf

        seen = 0

        def observed(image: Tensor) -> object:
            nonlocal seen
            seen = min(seen + 1, len(images))
            progress(seen, len(images))
            return image[None].numpy()

        try:
            graph = nncf.quantize(
                model.graph,
                nncf.Dataset(list(images), observed),
                model_type=nncf.ModelType.TRANSFORMER,
                preset=nncf.QuantizationPreset.MIXED,
                target_device=nncf.TargetDevice.CPU,
                subset_size=len(images),
                advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
            )
        except Exception as error:  # nncf and openvino have their own classes for every failure
            raise UsageError(
                f"--precision int8: nncf cannot quantize {model.description.spec.name}: {first_line(error)}",
                "give --format onnx, or leave --precision out",
            ) from error
    for key, text in INT8.items():
        graph.set_rt_info(text, [key])
    return replace(model, graph=graph)
