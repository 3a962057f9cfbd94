"""int8 exports: small, close to their checkpoint, measured on labeled images, and refused where they lose too much."""

import json
import os
import tempfile
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
import torch

from vit.errors import CheckpointError, DataError, UsageError
from vit.export import format as exports
from vit.extras.int8 import export as int8
from vit.extras.int8.export import _temperature_factor, export_int8
from vit.extras.int8.formats import FORMATS
from vit.inference.engine import trained_engine
from vit.inference.engines.exported_engines import OnnxEngine
from vit.inference.predictor import load
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels

OUTPUTS = {"onnx": "m.onnx", "openvino": "m"}
FILES = {"onnx": "m.onnx", "openvino": "m/openvino_model.xml"}


def images(side, count, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def measure_with(batch, labels, scored=ScoredImages):
    """Scores a batch with any engine, as the command does with files."""
    names = tuple(f"{index}.png" for index in range(len(batch)))

    def measure(engine):
        probabilities = engine.probabilities(batch).numpy()
        if scored is ScoredLabels:
            return ScoredLabels(names, labels, probabilities, temperatures=tuple(engine.rules.temperatures.tolist()))
        return ScoredImages(names, labels, probabilities, temperature=engine.temperature)

    return measure


def quiet(done, total):
    assert 0 <= done <= total


@pytest.fixture
def any_file(monkeypatch):
    """An ONNX file in int8 is some bytes: for tests that replace what computes it."""
    write = lambda self, trained, path, images, progress: path.write_bytes(b"graph")  # noqa: E731
    monkeypatch.setattr(type(FORMATS["onnx"]), "write_int8", write)


@pytest.fixture(scope="module")
def made(trained):
    """A network, images, and labels that it mostly gives itself."""
    network, batch = trained("vit", temperature=2.0), images(8, 1000)
    description = network.description
    found = trained_engine(network, torch.device("cpu"), "32-true").probabilities(batch)
    first, second = found.topk(2, dim=1).values.T
    clear = (first - second).topk(200).indices  # answers that a rounding does not change
    batch, labels = batch[clear], found[clear].argmax(dim=1).numpy()
    labels[::10] = (labels[::10] + 1) % len(description.class_names)
    return network, batch, labels


@pytest.fixture(scope="module")
def exported(made, tmp_path_factory):
    """`exported("onnx")` is (file or folder in int8, what was measured of it), written once; tests only read it."""
    network, batch, labels = made

    @cache
    def export(name):
        path, shown = tmp_path_factory.mktemp("int8") / OUTPUTS[name], []
        measure, progress = measure_with(batch, labels), lambda done, _: shown.append(done)
        answers = export_int8(network, name, path, images(8, 40, 1), measure, progress, "validation")
        assert shown == sorted(set(shown)) and shown[-1] == 40, "each image is counted once"
        return path, answers

    return export


@pytest.mark.faults("X13")
@pytest.mark.parametrize("name", ["onnx", "openvino"])
@pytest.mark.slow
def test_int8_is_close_small_and_measured(made, exported, name):
    network, batch, labels = made
    path, answers = exported(name)
    assert answers.num_calibrated == 40 and len(answers.correct) == 200
    assert answers.reference.mean() == 0.9 and abs(answers.loss) <= 0.05
    assert 0 < answers.largest < 0.5, "int8 is not float32"
    predictor = load(path.parent / FILES[name], engine="auto")
    found = predictor.engine.probabilities(batch).numpy()
    assert ((found.argmax(axis=1) == labels) == answers.correct).all(), "what was measured is what the file answers"
    assert predictor.engine.temperature == answers.temperature != answers.before == 2.0
    assert _temperature_factor(measure_with(batch, labels)(predictor.engine)) == pytest.approx(1.0, rel=1e-3)
    assert predictor.validation_scores is not None
    np.testing.assert_allclose(predictor.validation_scores.highest, found.max(axis=1), rtol=1e-6)
    assert os.listdir(path.parent) == [path.name]
    weights = path / "openvino_model.bin" if name == "openvino" else path
    plain = sum(value.nbytes for value in network.network.state_dict().values())
    assert weights.stat().st_size < plain or name == "onnx"  # an ONNX file also holds the graph


def test_onnx_int8_has_operators_of_onnx_alone_and_names_no_folder(exported):
    path, _ = exported("onnx")
    model = onnx.load(path)
    onnx.checker.check_model(model)
    assert {node.domain for node in model.graph.node} == {""}
    kinds = {node.op_type for node in model.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "LayerNormalization"} <= kinds
    weights = [onnx.numpy_helper.to_array(one) for one in model.graph.initializer if one.name.endswith("_quantized")]
    matrices = [array for array in weights if array.dtype == np.int8 and array.ndim == 2]
    assert matrices and all(np.abs(array.astype(int)).max() <= 64 for array in matrices), "7 bits never overflow"
    content = path.read_bytes()
    assert os.fsencode(tempfile.gettempdir()) not in content and OnnxEngine(path).precision == "int8"


@pytest.mark.slow
def test_without_validation_images_no_score_of_the_float32_network_remains(made, tmp_path):
    network, batch, labels = made
    from vit.checkpoints.validation_scores import ValidationScores

    scores = ValidationScores.of(labels, np.full((200, 3), 1 / 3, dtype=np.float32))
    described = replace(network, description=replace(network.description, validation_scores=scores))
    path = tmp_path / "m.onnx"
    export_int8(described, "onnx", path, images(8, 16), measure_with(batch, labels), quiet)
    plain = json.loads({item.key: item.value for item in onnx.load(path).metadata_props}["vit"])
    assert "validation_scores" not in plain and plain["metrics"] == {}


@pytest.mark.slow
def test_a_temperature_that_images_tell_apart_is_in_the_graph(made, tmp_path):
    """The checkpoint is far too sure where half of the labels are random, so the fit must raise the temperature."""
    network, batch, labels = made
    labels = np.where(np.arange(200) % 2 == 0, labels, np.random.default_rng(0).integers(0, 3, 200))
    path = tmp_path / "m.onnx"
    answers = export_int8(network, "onnx", path, images(8, 16), measure_with(batch, labels), quiet)
    assert answers.before == 2.0 and answers.temperature > 2.5
    found = measure_with(batch, labels)(OnnxEngine(path))
    assert found.temperature == answers.temperature
    before = replace(found, probabilities=found.at(2.0).probabilities)
    assert answers.temperature == pytest.approx(2.0 * _temperature_factor(before), rel=1e-3)
    assert found.losses.mean() < before.losses.mean()


@pytest.mark.slow
def test_several_labels_keep_temperatures_and_thresholds(tmp_path):
    from tests.export.conftest import make_multilabel

    network, batch = make_multilabel("vit"), images(8, 60)
    rules = network.description.multilabel
    labels = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.int8)
    measure = measure_with(batch, labels, ScoredLabels)
    answers = export_int8(network, "onnx", tmp_path / "m.onnx", images(8, 16), measure, quiet, "validation")
    assert answers.temperature is None
    found = OnnxEngine(tmp_path / "m.onnx").rules
    assert np.array_equal(found.temperatures, rules.temperatures)
    assert np.array_equal(found.thresholds, rules.thresholds)


@pytest.mark.faults("X14")
def test_several_labels_are_judged_by_each_label(any_file, tmp_path, monkeypatch):
    """Of many labels all are seldom right: a file that says none of them has lost nothing of the exact matches."""
    from tests.export.conftest import make_multilabel

    network, batch = make_multilabel("vit"), images(8, 60)
    before = trained_engine(network, torch.device("cpu"), "32-true").probabilities(batch).numpy()
    rules = replace(network.description.multilabel, thresholds=np.median(before, axis=0))  # half of them are predicted
    network = replace(network, description=replace(network.description, multilabel=rules))
    labels = np.ones((60, 3), np.int8)

    class Silent:
        def __init__(self):
            self.rules = rules

        def probabilities(self, batch):
            return torch.zeros(len(batch), 3)

    monkeypatch.setattr(type(FORMATS["onnx"]), "engine", lambda self, path: Silent())
    labels[:, 0] = before[:, 0] < rules.thresholds[0]  # one label is always wrong, so no image is right
    measure = measure_with(batch, labels, ScoredLabels)
    with pytest.raises(CheckpointError, match=r"answers 0.00 % .* the checkpoint 0.00 % \(micro F1 0.000 and 0\.[1-9]"):
        export_int8(network, "onnx", tmp_path / "m.onnx", images(8, 16), measure, quiet)
    assert not os.listdir(tmp_path)


@pytest.mark.faults("X14")
@pytest.mark.parametrize("damage", ["wrong", "nan"])
def test_a_file_that_loses_too_much_is_not_kept(made, any_file, tmp_path, monkeypatch, damage):
    network, batch, labels = made
    chosen = FORMATS["onnx"]

    class Damaged:
        temperature, rules = 2.0, None

        def probabilities(self, batch):
            rows = torch.full((len(batch), 3), float("nan") if damage == "nan" else 0.0)
            if damage == "wrong":
                rows[:, 0] = 1.0
            return rows

    monkeypatch.setattr(type(chosen), "engine", lambda self, path: Damaged())
    monkeypatch.setattr(int8, "_temperature_factor", lambda found: 1.0)
    with pytest.raises(CheckpointError, match="nothing was written"):
        export_int8(network, "onnx", tmp_path / "m.onnx", images(8, 16), measure_with(batch, labels), quiet)
    assert not os.listdir(tmp_path)


@pytest.mark.faults("X15")
@pytest.mark.parametrize("name", ["pt2", "safetensors", "timm", "hf"])
def test_a_format_without_int8_says_which_have_it(made, tmp_path, name):
    network, batch, labels = made
    with pytest.raises(UsageError, match=f"--format {name} holds float32 only; give --format onnx or openvino"):
        export_int8(network, name, tmp_path / "m", images(8, 4), measure_with(batch, labels), quiet)


def test_no_image_to_calibrate_on(made, tmp_path):
    network, batch, labels = made
    with pytest.raises(DataError, match="--calibration"):
        export_int8(network, "onnx", tmp_path / "m.onnx", images(8, 0), measure_with(batch, labels), quiet)


def test_a_package_that_int8_needs_and_that_is_missing_is_named(made, tmp_path, monkeypatch):
    network, batch, labels = made
    monkeypatch.setattr(exports, "find_spec", lambda name: None if name == "nncf" else object())
    with pytest.raises(UsageError, match=r"--precision int8 needs nncf; .*\[int8\]"):
        export_int8(network, "openvino", tmp_path / "m", images(8, 4), measure_with(batch, labels), quiet)
