"""`vit export`: what it says, and that an exported ONNX file predicts what its checkpoint does."""

import os

import pytest

from tests.tables import rows

pytestmark = pytest.mark.usefixtures("here")


def test_onnx_gives_the_rows_of_its_checkpoint(vit, digits_run, mixed, here):
    answer = vit("export", digits_run.path, "--verify", mixed)
    assert answer.code == 0 and answer.err == ""
    assert answer.out.splitlines()[0] == "vit_nano_patch2_8.onnx: onnx, 10 classes"
    assert "compared on " in answer.out and "files of " in answer.out and "no label differs" in answer.out
    assert answer.out.strip().splitlines()[-1] == "Next: vit predict vit_nano_patch2_8.onnx FOLDER_OF_IMAGES"
    assert os.listdir(here) == ["vit_nano_patch2_8.onnx"]
    for model, name in ((digits_run.path, "ckpt"), ("vit_nano_patch2_8.onnx", "onnx")):
        said = vit("predict", model, mixed, "--output", f"{name}.csv", "--gallery", "--batch_size", 5)
        assert said.code == 0, said.err
    one, other = rows("ckpt.csv"), rows("onnx.csv")
    assert len(one) == len(other) > 10 and one[0].keys() == other[0].keys()
    for mine, theirs in zip(one, other, strict=True):
        for column in mine:
            if column.startswith("probability") and mine[column]:
                assert float(theirs[column]) == pytest.approx(float(mine[column]), abs=2e-6)
            else:
                assert theirs[column] == mine[column]
    said = [vit("evaluate", model, "digits", "--output", f"e-{n}", "--include_seen") for n, model in enumerate(
        (digits_run.path, "vit_nano_patch2_8.onnx"))]  # fmt: skip
    assert [answer.code for answer in said] == [0, 0]
    assert said[0].out.splitlines()[:5] == said[1].out.splitlines()[:5]


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
