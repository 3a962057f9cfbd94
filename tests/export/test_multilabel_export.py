"""Exports of a model that gives several labels: sigmoids at the temperatures of the labels, and thresholds beside."""

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.export.conftest import make_multilabel
from vit.checkpoints.format import Description
from vit.checkpoints.label_rules import LabelRules
from vit.errors import CheckpointError
from vit.export.exporting import export, export_format
from vit.export.verify import num_different
from vit.inference.predictor import load
from vit.layout import OPENVINO_GRAPH
from vit.weights.open import open_pretrained

NAMES = {
    "onnx": "m.onnx", "pt2": "m.pt2", "safetensors": "m.safetensors", "timm": "t.safetensors", "hf": "m",
    "openvino": "o",
}  # fmt: skip
TRACED_TOO = [pytest.param(name, marks=pytest.mark.slow) for name in ("pt2", "openvino")]
IMAGES = torch.randint(0, 256, (9, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="module")
def made():
    return make_multilabel("vit")


def expected(made):
    with torch.inference_mode():
        logits = made.network(made.description.preprocess.normalize(IMAGES))
    return torch.sigmoid(logits / torch.tensor([0.5, 1.0, 3.0]))


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    """`written("onnx")`: an export, made once, because tracing takes seconds."""

    @cache
    def write(name):
        path = tmp_path_factory.mktemp("exports") / NAMES[name]
        assert export(made, name, path).is_small
        return path

    return write


@pytest.mark.parametrize(
    "name", [pytest.param("onnx", marks=pytest.mark.slow), "safetensors", "timm", "hf", *TRACED_TOO]
)
def test_every_format_gives_the_sigmoid_of_each_label(made, written, name):
    found = export_format(name).read(made, written(name))(IMAGES).detach()
    torch.testing.assert_close(found, expected(made), atol=2e-6, rtol=0)
    assert float((found.sum(dim=1) - 1).abs().max()) > 0.1, "a softmax adds up to 1"


@pytest.mark.parametrize("name", ["onnx", TRACED_TOO[1]])
def test_an_exported_graph_predicts_labels_at_their_thresholds(made, written, name):
    path = written(name)
    predictor = load(path if name == "onnx" else path / OPENVINO_GRAPH)
    assert predictor.multilabel.thresholds.tolist() == [0.3, 0.5, 0.6]
    torch.testing.assert_close(predictor.engine.probabilities(IMAGES), expected(made), atol=2e-6, rtol=0)
    for row in predictor.predict(list(IMAGES)):
        assert (row.label, row.probability, row.status) == ("", None, "ok")
        least = dict(zip(predictor.class_names, (0.3, 0.5, 0.6), strict=True))
        assert row.labels == tuple(name for name, p in row.top if p >= least[name])


def test_weights_for_other_libraries_hold_the_temperatures_and_their_notes_say_1(made, written):
    from safetensors import safe_open

    with safe_open(written("timm"), framework="pt") as file:
        notes = Description.from_dict(json.loads(file.metadata()["vit"]))
        head = file.get_tensor("head.weight")
    own = made.network.state_dict()["head.weight"]
    torch.testing.assert_close(head, own / torch.tensor([0.5, 1.0, 3.0])[:, None])
    assert notes.multilabel.temperatures.tolist() == [1.0] * 3
    assert notes.multilabel.thresholds.tolist() == [0.3, 0.5, 0.6]


@pytest.mark.parametrize("name", ["onnx", "openvino", "pt2", "timm", "hf"])
def test_the_lines_to_load_a_model_apply_the_thresholds(made, name):
    *_, line = export_format(name).how_to_load(made, Path(NAMES[name])).splitlines()
    probabilities = expected(made)
    scope = {"probabilities": probabilities if name == "pt2" else probabilities.numpy(), "images": probabilities}
    scope["model"] = lambda images: SimpleNamespace(logits=images.logit()) if name == "hf" else images.logit()
    exec(f"{export_format(name).imports}\n{line}", scope)
    assert np.array_equal(scope["has_label"], probabilities >= torch.tensor([0.3, 0.5, 0.6]))


def test_labels_differ_where_a_threshold_lies_between(made):
    rules = made.description.multilabel
    one = torch.tensor([[0.29, 0.9, 0.1], [0.31, 0.9, 0.1], [0.3000001, 0.9, 0.1]])
    other = torch.tensor([[0.31, 0.9, 0.1], [0.32, 0.1, 0.1], [0.2999999, 0.9, 0.1]])
    assert num_different(one, other, rules) == 2  # the last pair is a tie
    assert num_different(one, other, None) == 1


def test_an_export_with_a_softmax_is_not_kept(made, tmp_path, monkeypatch):
    from vit.inference import deployment

    monkeypatch.setattr(deployment, "probabilities_of", lambda logits, *_: logits.softmax(dim=1))
    with pytest.raises(CheckpointError, match="differs from the checkpoint"):
        export(made, "pt2", tmp_path / "m.pt2")
    assert not (tmp_path / "m.pt2").exists()


@pytest.mark.parametrize("name", ["safetensors", "timm", "hf"])
def test_exported_weights_come_back_with_their_thresholds(written, name):
    found = open_pretrained(str(written(name)))
    assert found.multilabel.thresholds.tolist() == [0.3, 0.5, 0.6]


def test_another_head_in_a_folder_has_no_thresholds_of_before(written, tmp_path):
    folder = shutil.copytree(written("hf"), tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification", "so transformers takes sigmoids for its loss"
    config["id2label"] = {number: f"new {name}" for number, name in config["id2label"].items()}
    (folder / "config.json").write_text(json.dumps(config))
    assert open_pretrained(str(folder)).multilabel.thresholds.tolist() == [0.5] * 3


def test_thresholds_in_the_printed_code_are_those_of_the_checkpoint(made):
    """Rounded to 0.0, a threshold gives every image a rare label; rounded to 1.0, it gives none."""
    rules = LabelRules(np.ones(3), np.array([2.4e-7, 0.99999972, 1 / 3]))
    strict = replace(made, description=replace(made.description, multilabel=rules))
    found = re.search(r"torch\.tensor\((\[.*?\])\)", export_format("timm").how_to_load(strict, Path("m.safetensors")))
    assert found is not None and json.loads(found[1]) == rules.thresholds.tolist()
