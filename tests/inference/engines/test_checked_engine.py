"""OpenVINO's answers are compared with PyTorch's on the first batch before they are believed."""

import json

import pytest
import torch

import vit as package
from tests.export.conftest import make
from vit.checkpoints.format import checkpoint_content
from vit.inference.engines.checked_engine import CheckedEngine
from vit.inference.engines.openvino_engine import OpenVinoEngine


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    made, path = make("vit"), tmp_path_factory.mktemp("model") / "m.ckpt"
    torch.save(checkpoint_content(made.description, made.network.state_dict()), path)
    return path


def images(count):
    return torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_openvino_computes_where_it_agrees(checkpoint, precision, capsys):
    loaded, expected = (package.load(checkpoint, precision=precision, engine=name) for name in ("openvino", "torch"))
    assert isinstance(loaded.engine, CheckedEngine)
    for count in (5, 2):
        found = loaded.engine.probabilities(images(count))
        torch.testing.assert_close(found, expected.engine.probabilities(images(count)), atol=2e-2, rtol=0)
    assert loaded.engine.name == "openvino" and loaded.engine.precision == precision
    (one,) = loaded.predict(images(1))
    assert one.engine == "openvino"
    assert capsys.readouterr().err == ""


@pytest.mark.faults("E7", simulated="the answers of openvino are changed")
@pytest.mark.parametrize(
    "change",
    [lambda p: p + 2e-4, lambda p: p.flip(1), lambda p: p * float("nan")],
    ids=["a little off", "other labels", "no numbers"],
)
def test_torch_computes_every_row_where_it_differs(vit, checkpoint, tmp_path, colors, monkeypatch, change):
    right = OpenVinoEngine.probabilities
    monkeypatch.setattr(OpenVinoEngine, "probabilities", lambda self, batch: change(right(self, batch)))
    said = {}
    for engine in ("torch", "openvino"):
        output = tmp_path / f"{engine}.jsonl"
        said[engine] = vit("predict", checkpoint, colors / "red", "--output", output, "--engine", engine)
        assert said[engine].code == 0
    torch_rows, rows = (
        [json.loads(line) for line in (tmp_path / f"{engine}.jsonl").read_text().splitlines()]
        for engine in ("torch", "openvino")
    )
    assert {row["engine"] for row in rows} == {"torch"}
    for row, expected in zip(rows, torch_rows, strict=True):  # their batches differ, and so the last digits
        assert (row["path"], row["label"]) == (expected["path"], expected["label"])
        assert row["probability"] == pytest.approx(expected["probability"], abs=1e-5)
    warnings = [line for line in said["openvino"].err.splitlines() if "WARNING" in line]
    assert len(warnings) == 1 and "openvino's probabilities differ from torch's by up to" in warnings[0]
    assert "WARNING" not in said["torch"].err
