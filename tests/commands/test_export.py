"""`vit export`: what it says, and that an exported ONNX file predicts what its checkpoint does."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from huggingface_hub import ModelCard
from PIL import Image
from sklearn.datasets import load_digits

from tests.commands.following import next_words
from tests.runs import run_folder
from tests.tables import rows
from vit.extras.export import onnx_file
from vit.extras.int8 import formats
from vit.inference.predictor import load

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module", autouse=True)
def traced_once():
    """The graph of one checkpoint is made once for all tests: it takes seconds."""
    known, trace = {}, onnx_file.graph_of

    def graph_of(trained):
        key = trained.description.temperature, *(float(one.sum()) for one in trained.network.state_dict().values())
        if key not in known:
            known[key] = trace(trained).SerializeToString()
        return onnx.ModelProto.FromString(known[key])

    with pytest.MonkeyPatch.context() as patch:
        for module in (onnx_file, formats):
            patch.setattr(module, "graph_of", graph_of)
        yield


@pytest.mark.parametrize(
    ("name", "written", "file", "engine"),
    [
        ("onnx", "vit_nano_patch2_8.onnx", "vit_nano_patch2_8.onnx", "onnxruntime"),
        pytest.param(
            "openvino", "vit_nano_patch2_8", "vit_nano_patch2_8/openvino_model.xml", "openvino", marks=pytest.mark.slow
        ),
    ],
)
def test_an_export_gives_the_rows_of_its_checkpoint(vit, digits_run, mixed, here, name, written, file, engine):
    answer = vit("export", digits_run.path, "--format", name, "--verify", mixed)
    assert answer.code == 0 and answer.err == ""
    assert answer.out.splitlines()[0] == f"{written}: {name}, 10 classes"
    assert "\\n" not in answer.out  # the lines that load it, each for itself
    assert "compared on " in answer.out and "files of " in answer.out and "no label differs" in answer.out
    assert answer.out.strip().splitlines()[-1] == f"Next: vit predict {file} FOLDER_OF_IMAGES"
    assert os.listdir(here) == [written]
    for model, output in ((digits_run.path, "ckpt"), (file, "exported")):
        vit("predict", model, mixed, "--output", f"{output}.csv", "--gallery", "--batch_size", 5).ok()
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


@pytest.mark.slow
def test_a_checkpoint_without_its_run_is_evaluated_on_data(vit, digits_run, here):
    (here / "my {0}.ckpt").write_bytes(digits_run.best.read_bytes())
    answer = vit("export", "my {0}.ckpt", "--format", "pt2").ok()
    assert answer.out.splitlines()[-1] == "Next: vit evaluate 'my {0}.ckpt' DATA"
    assert vit(*next_words(answer, DATA="digits")).code == 0


def test_safetensors_start_another_training(vit, digits_run, here):
    answer = vit("export", digits_run.path, "--format", "safetensors", "--output", "w.safetensors").ok("random images")
    assert "Next: vit train DATA --init_from w.safetensors" in answer.out


def test_int8_is_measured_on_the_validation_images_of_the_run(vit, digits_run, here, monkeypatch):
    """The file holds the graph in float32: tests/export/test_int8.py has one in int8."""

    def write(self, trained, path, images, progress):
        progress(len(images), len(images))
        model = formats.described(formats.graph_of(trained), trained, formats.INT8)
        path.write_bytes(model.SerializeToString())

    monkeypatch.setattr(formats.OnnxInt8, "write_int8", write)
    answer = vit("export", digits_run.path, "--precision", "int8", "--card", "card.md").ok()
    assert "calibrating on 256 images, measuring on 179 validation images of the run" in answer.err
    lines = {line.strip().partition("  ")[0]: line for line in answer.out.splitlines()}
    assert "95 % intervals" in lines["measured on"] and "paired" in lines["loss of accuracy"]
    assert {"accuracy, checkpoint", "accuracy, int8", "temperature", "onnx, int8"} <= lines.keys()
    assert sorted(os.listdir(here)) == ["card.md", "vit_nano_patch2_8-int8.onnx"]
    card = (here / "card.md").read_text()
    assert "int8 loses" in card and str(digits_run.path) not in card and str(here) not in card
    again = vit("predict", "vit_nano_patch2_8-int8.onnx", "card.md", "--output", "rows.csv")
    assert again.code == 5 and rows("rows.csv")[0]["status"] == "not_image"


@pytest.mark.slow
def test_int8_is_calibrated_on_the_images_that_a_run_sets_aside_for_it(vit, here):
    """They serve for nothing else, as the guide promises. The validation images have chosen the epoch."""
    options = ["--model.network.depth", 1, "--optim.steps", 8, "--data.calibration", 0.1]
    assert vit("train", "digits", *options, "--out", here).code == 0
    run = run_folder(here)
    answer = vit("export", run, "--precision", "int8", "--output", "int8.onnx", "--card", "card.md").ok()
    assert "measuring on 179 calibration images of the run" in answer.err
    assert "calibration images of the run" in (here / "card.md").read_text()
    of_run, of_file = (load(path).validation_scores for path in (run, here / "int8.onnx"))
    assert of_run.labels.tolist() == of_file.labels.tolist()


@pytest.mark.faults("X16")
@pytest.mark.slow
def test_the_card_of_int8_tells_what_the_file_holds_and_where_it_was_measured(vit, digits_run, here):
    """Half of the labels are wrong, so the temperature that is fitted on them is another one."""
    digits = load_digits()
    for number in range(120):
        folder = here / "othersite" / str((digits.target[number] + number % 2) % 10)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[number] * 15.9375).astype(np.uint8)).save(folder / f"{number}.png")
    answer = vit(
        "export", digits_run.path, "--precision", "int8", "--measure", "othersite", "--output", "m.onnx",
        "--card", "q.md").ok()  # fmt: skip
    held = json.loads({item.key: item.value for item in onnx.load("m.onnx").metadata_props}["vit"])["temperature"]
    card = ModelCard.load("q.md")
    assert "fitted on these images" in answer.out
    assert f"temperature of {held:.3f}, fitted on 120 images of othersite." in card.text
    (result,) = card.data.eval_results
    assert (result.dataset_name, result.dataset_split) == ("othersite", "all")  # none trained it


@pytest.mark.slow
def test_int8_on_given_images(vit, digits_run, colors, draw_classes, here):
    """The folder of the last class is empty."""
    draw_classes(here / "labeled", [str(number) for number in range(9)], 2, side=8)
    (here / "labeled" / "9").mkdir()
    answer = vit(
        "export", digits_run.best, "--precision", "int8", "--calibration", colors, "--measure", here / "labeled",
        "--output", "m.onnx")  # fmt: skip
    said = answer.out + answer.err
    assert "measuring on 18 images of labeled" in said
    is_lost = "points may be lost" in answer.err  # colors are not digits
    assert (answer.code, Path("m.onnx").is_file()) == ((4, False) if is_lost else (0, True)), answer.err


@pytest.mark.faults("X15")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--precision", "int8", "--format", "pt2"], "--format pt2 holds float32 only"),
        (["--precision", "int8", "--verify", "."], "--verify compares probabilities to 1e-4"),
        (["--calibration", "."], "--calibration is for --precision int8"),
        (["--measure", "digits"], "--measure is for --precision int8"),
        (["--precision", "int7"], "int8"),
        (["--format", "hf", "--card", "c.md"], "has its card in the folder"),
    ],
)
def test_images_and_cards_that_a_format_has_no_use_for(vit, digits_run, here, words, said):
    answer = vit("export", digits_run.path, *words)
    assert answer.code == 2 and said in answer.err and not os.listdir(here)


@pytest.mark.faults("X15")
def test_int8_of_a_bare_checkpoint_needs_images(vit, digits_run, here):
    (here / "bare.ckpt").write_bytes(digits_run.best.read_bytes())
    vit("export", "bare.ckpt", "--precision", "int8").failed(2, "bare.ckpt is not in a run folder", "--measure DATA")
    vit("export", "bare.ckpt", "--precision", "int8", "--measure", "digits").failed(2, "--calibration IMAGES")


def test_a_folder_for_transformers_has_a_card_and_a_card_is_not_overwritten(vit, digits_run, here):
    assert vit("export", digits_run.path, "--format", "hf").code == 0
    card = (here / "vit_nano_patch2_8" / "README.md").read_text()
    assert "library_name: transformers" in card and "Data set: digits." in card and "Random weights." in card
    (here / "card.md").write_text("mine")
    answer = vit("export", digits_run.path, "--card", "card.md")
    assert answer.code == 2 and "card.md exists" in answer.err and (here / "card.md").read_text() == "mine"


def test_numbers_of_the_best_checkpoint_are_not_those_of_another(vit, digits_run, here):
    last = digits_run.best.with_name("last.ckpt")
    vit("export", last, "--format", "safetensors", "--card", "card.md").ok()
    assert "Unknown: no accuracy on test images is recorded." in (here / "card.md").read_text()


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


def test_a_folder_does_not_get_the_name_of_a_file(vit, digits_run, tmp_path):
    answer = vit("export", digits_run.path, "--format", "openvino", "--output", tmp_path / "x.xml")
    assert (
        answer.code == 2
        and "names a file, and --format openvino writes a folder; give a name without .xml" in answer.err
    )
    assert not (tmp_path / "x.xml").exists()
