"""`vit export`: what it says, and that an exported ONNX file predicts what its checkpoint does."""

import json
import os
from pathlib import Path

import pytest

from tests.tables import rows

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("name", "written", "file", "engine"),
    [
        ("onnx", "vit_nano_patch2_8.onnx", "vit_nano_patch2_8.onnx", "onnxruntime"),
        ("openvino", "vit_nano_patch2_8", "vit_nano_patch2_8/openvino_model.xml", "openvino"),
    ],
)
def test_an_export_gives_the_rows_of_its_checkpoint(vit, digits_run, mixed, here, name, written, file, engine):
    answer = vit("export", digits_run.path, "--format", name, "--verify", mixed)
    assert answer.code == 0 and answer.err == ""
    assert answer.out.splitlines()[0] == f"{written}: {name}, 10 classes"
    assert "compared on " in answer.out and "files of " in answer.out and "no label differs" in answer.out
    assert answer.out.strip().splitlines()[-1] == f"Next: vit predict {file} FOLDER_OF_IMAGES"
    assert os.listdir(here) == [written]
    for model, output in ((digits_run.path, "ckpt"), (file, "exported")):
        said = vit("predict", model, mixed, "--output", f"{output}.csv", "--gallery", "--batch_size", 5)
        assert said.code == 0, said.err
    one, other = rows("ckpt.csv"), rows("exported.csv")
    assert len(one) == len(other) > 10 and one[0].keys() == other[0].keys()
    for mine, theirs in zip(one, other, strict=True):
        for column in mine:
            if column.startswith("probability") and mine[column]:
                assert float(theirs[column]) == pytest.approx(float(mine[column]), abs=2e-6)
            elif column == "novelty":
                assert theirs[column] == ""  # the features are not in the file
            elif column == "engine" and mine["status"] == "ok":
                assert (mine[column], theirs[column]) == ("torch", engine)
            else:
                assert theirs[column] == mine[column]
    said = [vit("evaluate", model, "digits", "--output", f"e-{n}", "--include_seen") for n, model in enumerate(
        (digits_run.path, file))]  # fmt: skip
    assert [answer.code for answer in said] == [0, 0]
    assert said[0].out.splitlines()[:5] == said[1].out.splitlines()[:5]
    assert [json.loads(Path(f"e-{n}/metrics.json").read_text())["engine"] for n in (0, 1)] == ["torch", engine]


def test_safetensors_start_another_training(vit, digits_run, here):
    answer = vit("export", digits_run.path, "--format", "safetensors", "--output", "w.safetensors")
    assert answer.code == 0 and "random images" in answer.out
    assert "Next: vit train DATA --init_from w.safetensors" in answer.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--format", "onxx"], 2, ["format", "'onnx'"]),
        (["--output", "m.pt"], 2, ["m.pt", ".onnx"]),
        (["--verify", "nowhere"], 3, ["there is no nowhere"]),
        (["--output", "there.onnx"], 2, ["there.onnx exists"]),
    ],
)
def test_wrong_usage(vit, digits_run, here, words, code, said):
    (here / "there.onnx").write_text("mine")
    answer = vit("export", digits_run.path, *words)
    assert answer.code == code and all(word in answer.err for word in said)
    assert os.listdir(here) == ["there.onnx"] and (here / "there.onnx").read_text() == "mine"


def test_what_is_no_checkpoint_is_refused(vit, here):
    (here / "x.ckpt").write_bytes(b"PK")
    answer = vit("export", "x.ckpt", "--format", "safetensors")
    assert answer.code == 4 and "x.ckpt" in answer.err and os.listdir(here) == ["x.ckpt"]
