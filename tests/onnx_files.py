"""ONNX files that tests make by hand, to be spoiled."""

import json

from onnx import TensorProto, helper, numpy_helper


def linear_classifier(weights, description):
    """An ONNX model as `vit export` describes it: uint8 images (B, 3, 8, 8) -> probabilities (B, 3) by one product.

    Args:
        weights: (192, 3) float32.
        description: plain values of the checkpoint's description.
    """
    nodes = [
        helper.make_node("Cast", ["images"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["floats"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(weights, "weights")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(made, {"vit": json.dumps(description)})
    return made
