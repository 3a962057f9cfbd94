"""An ONNX file is an untrusted file: what `vit export` writes is computed, everything else is refused in one line."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import vit as package
from tests.onnx_files import linear_classifier
from vit.errors import CheckpointError, UsageError
from vit.inference.engines import exported_engines
from vit.inference.engines.exported_engines import OnnxEngine

DESCRIPTION = {
    "format": 3,
    "classes": ["cat", "dog", "hat"],
    "network": {"name": "by hand", "image_size": 8, "num_classes": 3},
    "preprocess": {"image_size": 8, "crop_fraction": 0.5, "mean": [0.5] * 3, "std": [0.5] * 3,
                   "interpolation": "bilinear", "resize_mode": "shortest", "color_profiles": "convert"},
    "precision": "bf16-mixed", "temperature": 1.5, "metrics": {}, "versions": {},
}  # fmt: skip
WEIGHTS = np.random.default_rng(0).normal(0, 0.02, (192, 3)).astype(np.float32)


@pytest.fixture
def model():
    """A linear classifier of 8 pixels, as a graph that may be spoiled."""
    return linear_classifier(WEIGHTS, DESCRIPTION)


def describe(model, **changes):
    helper.set_model_props(model, {"vit": json.dumps({**DESCRIPTION, **changes})})


def saved(model, folder):
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_a_file_is_computed_with_its_own_classes_and_preprocessing(model, tmp_path):
    loaded = package.load(saved(model, tmp_path))
    assert loaded.class_names == ("cat", "dog", "hat") and loaded.preprocess.resize_side == 16
    assert loaded.engine.temperature == 1.5 and loaded.engine.precision == "32-true"
    batch = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8)
    found = loaded.engine.probabilities(batch)
    expected = (batch.flatten(1).float() @ torch.from_numpy(WEIGHTS)).softmax(dim=1)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def external(model):
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")


def external_in_a_constant(model):
    node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.zeros(1, np.float32)))
    node.attribute[0].t.data_location = TensorProto.EXTERNAL
    node.attribute[0].t.external_data.add(key="location", value="/etc/passwd")
    model.graph.node.insert(0, node)


def other_operators(model):
    model.opset_import.append(helper.make_opsetid("com.stranger", 1))


def operator_of_a_stranger(model):
    model.graph.node[1].domain = "com.microsoft"


def a_loop(model):
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["", ""], ["x"], body=body))


def no_description(model):
    del model.metadata_props[:]


def not_json(model):
    helper.set_model_props(model, {"vit": "["})


def deep_json(model):
    helper.set_model_props(model, {"vit": "[" * 100_000})


def other_size(model):
    preprocess = {**DESCRIPTION["preprocess"], "image_size": 16}
    describe(model, preprocess=preprocess, network={**DESCRIPTION["network"], "image_size": 16})


def other_classes(model):
    describe(model, classes=["a", "b"], network={**DESCRIPTION["network"], "num_classes": 2})


def huge_crop(model):
    describe(model, preprocess={**DESCRIPTION["preprocess"], "crop_fraction": 1e-9})


def other_input(model):
    model.graph.input[0].name = "pixels"
    model.graph.node[0].input[0] = "pixels"


def float_input(model):
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT


def missing_weights(model):
    del model.graph.initializer[:]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (external, "keeps weights in other files"),
        (external_in_a_constant, "keeps weights in other files"),
        (other_operators, "has operators that are not ONNX's own"),
        (operator_of_a_stranger, "has operators that are not ONNX's own"),
        (a_loop, "has graphs inside its graph"),
        (no_description, "has no description"),
        (not_json, "cannot be used: JSONDecodeError"),
        (deep_json, "cannot be used: RecursionError"),
        (other_size, "has inputs"),
        (other_classes, "has inputs"),
        (huge_crop, "crop_fraction"),
        (other_input, "has inputs"),
        (float_input, "has inputs"),
        (missing_weights, "cannot be used"),
    ],
)
def test_what_is_not_ours_is_refused(model, tmp_path, spoil, words):
    spoil(model)
    with pytest.raises(CheckpointError, match=words):
        OnnxEngine(saved(model, tmp_path))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"<!doctype html>", None])
def test_a_file_that_is_no_onnx(model, tmp_path, content):
    path = saved(model, tmp_path)
    path.write_bytes(path.read_bytes()[:-700] if content is None else content)
    with pytest.raises(CheckpointError, match="vit export --format onnx"):
        OnnxEngine(path)


def test_a_file_that_is_not_there_or_too_large(model, tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match="there is no file"):
        package.load(tmp_path / "none.onnx")
    monkeypatch.setattr(exported_engines, "ONNX_MAX_BYTES", 100)
    with pytest.raises(CheckpointError, match="is larger than 0 MiB"):
        OnnxEngine(saved(model, tmp_path))


def test_outputs_that_lie_about_their_shape_are_refused(model, tmp_path):
    model.graph.node[-1].output[0] = "right"
    model.graph.node.append(helper.make_node("Slice", ["right", "zero", "one"], ["probabilities"]))
    for name, value in (("zero", 0), ("one", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
    engine = OnnxEngine(saved(model, tmp_path))
    with pytest.raises(CheckpointError, match=r"gave \(1, 3\) for 2 images"):
        engine.probabilities(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


@pytest.mark.parametrize(("option", "value"), [("device", "cuda"), ("precision", "bf16-mixed")])
def test_it_is_computed_as_it_was_exported_or_not_at_all(model, tmp_path, option, value):
    with pytest.raises(UsageError, match=f"--{option} {value}, but an ONNX file"):
        package.load(saved(model, tmp_path), **{option: value})


def test_without_onnxruntime_the_extra_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r" -m pip install -e '.*\[export\]'"):
        OnnxEngine(saved(model, tmp_path))


def test_the_checker_agrees_that_the_graph_is_sound(model):
    onnx.checker.check_model(model)
