"""`vit evaluate`: the numbers of a run again, other data by class name, and what it refuses."""

import csv
import json
import os
import re
import shutil

import pytest
from PIL import Image

from tests.report.pages import Page
from tests.runs import run_folder, trained
from tests.tables import rows
from vit.report.run import run_page

pytestmark = pytest.mark.usefixtures("here")
QUICK = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--data.num_workers", 0, "--wandb", "off")


@pytest.fixture(scope="module")
def colors_run(vit, colors, tmp_path_factory):
    return trained(tmp_path_factory.mktemp("colors_run"), colors, *QUICK, "--epochs", 4, "--precision", "32-true")


def measured(folder):
    return json.loads((folder / "metrics.json").read_text())


def predictions(folder):
    return rows(folder / "predictions.csv")


def test_a_run_gives_the_numbers_of_its_result_again(vit, digits_run, here):
    answer = vit("evaluate", digits_run.path, "--output", "again", "--root", ".").ok().noted("--root changes nothing")
    result = json.loads((digits_run.path / "result.json").read_text())
    found = measured(here / "again")
    for key in ("metrics", "temperature", "uncalibrated"):
        assert found[key] == result[key]
    assert f"temperature        {found['temperature']:.3f}; without it" in answer.out
    assert found["images"] == len(predictions(here / "again")) == 359
    assert sorted(os.listdir("again")) == [
        "confusion_matrix.png", "metrics.json", "predictions.csv", "reliability.png", "report.html"
    ]  # fmt: skip
    accuracy = result["metrics"]["acc1"]
    share = f"{100 * accuracy['value']:.2f} % ({100 * accuracy['low']:.2f} to {100 * accuracy['high']:.2f})"
    assert f"accuracy           {share}" in answer.out
    page = Page((here / "again" / "report.html").read_text())
    wrong = sum(row["label"] != row["predicted"] for row in predictions(here / "again"))
    assert f"{359 - wrong} of 359 images are predicted right" in page.text and "page in again" in answer.out
    assert sum(int(words) for words in re.findall(r"taken for \d: (\d+) of", page.text)) == wrong
    assert answer.out.strip().splitlines()[-1].startswith("Next: vit predict ")


@pytest.mark.parametrize("output", ["taken.txt/out", "/proc/nowhere/out"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(vit, digits_run, here, output):
    (here / "taken.txt").write_text("")
    answer = vit("evaluate", digits_run.path, "--output", output)
    assert answer.code == 7 and answer.err.startswith("vit: error[7]: cannot write into "), answer.err
    assert "359 images" not in answer.err and len(answer.err.splitlines()) == 1


def test_every_split_can_be_measured(vit, digits_run, here):
    for split, images in (("validation", 179), ("train", 1259)):
        assert vit("evaluate", digits_run.best, "--split", split, "--output", split).code == 0
        assert measured(here / split)["images"] == images
    known = json.loads((digits_run.path / "result.json").read_text())["validation"]
    assert measured(here / "validation")["metrics"]["acc1"]["value"] == pytest.approx(known["val/acc1"])
    found = measured(here / "validation")
    assert found["uncalibrated"]["nll"]["value"] == pytest.approx(known["val/loss"], abs=1e-5)
    assert found["uncalibrated"]["ece"]["value"] == pytest.approx(known["val/ece"], abs=1e-5)
    assert found["metrics"]["nll"]["value"] < found["uncalibrated"]["nll"]["value"]  # it was fitted on these


@pytest.mark.faults("K9")
def test_results_lie_in_the_run_and_are_numbered(vit, colors_run):
    for _ in range(2):
        assert vit("evaluate", colors_run).code == 0
    assert sorted(os.listdir(colors_run / "evaluations")) == ["colors-test", "colors-test-2"]
    assert measured(colors_run / "evaluations" / "colors-test") == measured(
        colors_run / "evaluations" / "colors-test-2"
    )


@pytest.mark.faults("D7")
def test_classes_are_matched_by_name(vit, colors_run, colors, here):
    """Two of the three classes: their numbers are others there, and none may be counted wrong for it."""
    assert vit("evaluate", colors_run, colors, "--output", "all", "--include_seen").code == 0
    for name in ("green", "red"):
        shutil.copytree(colors / name, here / "some" / name)
    answer = vit("evaluate", colors_run, "some", "--output", "part", "--include_seen")
    assert answer.code == 0 and "no image of 1 class: blue" in answer.err
    whole = {row["path"]: row for row in predictions(here / "all")}
    part = predictions(here / "part")
    assert len(whole) == 42 and len(part) == 28
    assert all(row == whole[row["path"]] for row in part)
    assert {row["label"] for row in part} == {"green", "red"}
    page = Page((here / "part" / "report.html").read_text())
    assert "These images have no image of 1 class: blue." in page.text
    assert "Classes sorted by F1, lowest first." in page.text, "the table has all classes with images"
    found = measured(here / "part")
    assert found["classes"] == ["blue", "green", "red"]
    assert [row["images"] for row in found["per_class"]] == [0, 14, 14]
    blue = found["per_class"][0]
    assert blue["recall"] is None and blue["f1"] is None and blue["precision"] in (None, 0)
    assert "1 of 3 classes have no image here" in answer.out and "  blue " not in answer.out
    right = sum(row["label"] == row["predicted"] for row in part)
    assert found["metrics"]["acc1"]["value"] == pytest.approx(right / 28)


@pytest.mark.faults("D4", "D7")
def test_an_empty_folder_is_a_class_without_images(vit, colors_run, colors, here):
    """Also one of photographs that cannot be read: they are named."""
    for name in ("green", "red"):
        shutil.copytree(colors / name, here / "some" / name)
    (here / "some" / "blue").mkdir()
    line = ("evaluate", colors_run, "some", "--include_seen", "--output")
    answer = vit(*line, "part").ok()
    assert [row["images"] for row in measured(here / "part")["per_class"]] == [0, 14, 14]
    assert answer.err.count("no image of 1 class: blue") == 1
    (here / "some" / "blue" / "1.NEF").write_bytes(b"raw")
    vit(*line, "again").noted("skipped: 1 file ending in .NEF")


@pytest.mark.faults("D7")
def test_a_csv_with_classes_in_another_order(vit, colors_run, colors, here):
    with open("list.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label"))
        writer.writerows((colors / name / "00.png", name) for name in ("red", "blue"))
    assert vit("evaluate", colors_run, "list.csv", "--output", "out", "--include_seen").code == 0
    assert [row["label"] for row in predictions(here / "out")] == ["red", "blue"]


@pytest.mark.faults("D7")
def test_test_images_of_one_class_or_without_training_images_are_measured(vit, colors_run, colors, here):
    """They were refused with advice for a training."""
    shutil.copytree(colors / "red", here / "one" / "red")
    shutil.copytree(colors / "red", here / "kept" / "test" / "red")
    (here / "list.csv").write_text("".join(f"{line}\n" for line in (
        "path,label,split", *(f"{colors / 'red' / f'{number:02}.png'},red,test" for number in range(14)))
    ))  # fmt: skip
    answers = [vit("evaluate", colors_run, name, "--include_seen", "--output", f"of_{place}")
               for place, name in enumerate(("one", "kept", "list.csv"))]  # fmt: skip
    assert [answer.code for answer in answers] == [0, 0, 0], [answer.err for answer in answers]
    found = [measured(here / f"of_{place}") for place in range(3)]
    assert found[0]["metrics"] == found[1]["metrics"] == found[2]["metrics"] and found[0]["images"] == 14
    metrics = found[0]["metrics"]
    assert metrics["balanced_accuracy"]["value"] == pytest.approx(metrics["acc1"]["value"])
    assert all(one["low"] <= one["value"] <= one["high"] for name, one in metrics.items() if name not in ("ece", "nll"))
    assert (
        "2 of 3 classes have no image here" in answers[0].out and "no image of 2 classes: blue, green" in answers[0].err
    )


@pytest.mark.faults("D7")
def test_unknown_classes_are_named(vit, colors_run, colors, here):
    shutil.copytree(colors / "red", here / "some" / "red")
    shutil.copytree(colors / "blue", here / "some" / "violet")
    vit("evaluate", colors_run, "some", "--output", "out").failed(3, "violet", "blue, green, red")
    assert not (here / "out").exists()


@pytest.mark.faults("S12")
@pytest.mark.parametrize("text", ["", "- a\n", "a: [", "text"])
def test_a_run_without_a_recipe_is_refused(vit, digits_run, here, text):
    run = shutil.copytree(digits_run.path, here / "run")
    (run / "config.yaml").write_text(text)
    vit("evaluate", run).failed(3, "config.yaml holds no recipe")


@pytest.mark.faults("D18")
def test_a_run_whose_images_changed_is_not_measured_silently(vit, draw_classes, here):
    data = draw_classes(here / "data", ("dark", "light"), 12)
    assert vit("train", data, *QUICK, "--epochs", 1, "--out", "runs").code == 0
    run = run_folder(here / "runs")
    shutil.copy(data / "dark" / "00.png", data / "dark" / "0-new.png")  # another cut would follow from this
    assert vit("evaluate", run, "--output", "same").code == 0
    assert measured(here / "same")["metrics"] == json.loads((run / "result.json").read_text())["metrics"]
    trained, tested = (
        next(row["path"] for row in rows(run / "splits.csv") if row["split"] == split) for split in ("train", "test")
    )
    shutil.copy(trained, tested)
    vit("evaluate", run).failed(3, "1 test image of data changed since the run")


@pytest.fixture(scope="module")
def once_trained(vit, draw_classes, tmp_path_factory):
    out = tmp_path_factory.mktemp("once")
    data = draw_classes(out / "photos", ("dark", "light"), 20)
    options = ("--data.validation", 0.1, "--data.test", 0.2, "--epochs", 1, "--out", out / "runs")
    assert vit("train", data, *QUICK, *options).code == 0
    return run_folder(out / "runs"), data


@pytest.fixture
def trained_on(once_trained, here):
    """A run, and the folder of 40 images that it cut into 28 to train on, 4 to validate and 8 to test."""
    run, data = once_trained
    return shutil.copytree(run, here / "runs" / "photos" / "vit" / "run"), data  # whose test may change it


@pytest.mark.faults("D26")
def test_images_that_the_run_was_trained_on_are_left_out(vit, trained_on, here):
    run, data = trained_on
    copy = here / "same pictures" / "elsewhere"  # other folders, other names, and two new pictures
    for split in ("train", "test"):
        for path in sorted(data.glob("*/*.png")):
            (copy / split / path.parent.name).mkdir(parents=True, exist_ok=True)
            if split == "test" or path.name < "03":
                shutil.copy(path, copy / split / path.parent.name / f"copy of {path.name}")
    for name in ("dark", "light"):
        Image.new("RGB", (12, 12), (9, 9, 9)).save(copy / "test" / name / "new.png")
    tested = {row["path"]: row["label"] for row in rows(run / "splits.csv") if row["split"] == "test"}
    for place, given in enumerate((data, copy)):
        answer = vit("evaluate", run, given, "--output", f"out{place}").ok()
        new = [] if given is data else [("dark/new.png"), ("light/new.png")]
        assert (
            f"left out: 28 images that the run trained on and 4 images that the run validated on; {8 + len(new)} of"
            in (answer.err)
        )
        names = {row["path"].removeprefix("test/").replace("copy of ", "") for row in predictions(here / f"out{place}")}
        assert names == {os.path.relpath(path, data.resolve()) for path in tested} | set(new)
        left_out = measured(here / f"out{place}")["left_out"]
        assert left_out["train_images_of_the_run"] == 28 and left_out["validation_images_of_the_run"] == 4


@pytest.mark.faults("D26")
def test_images_that_the_run_was_calibrated_on_are_left_out(vit, draw_classes, here):
    data = draw_classes(here / "photos", ("dark", "light"), 20)
    cut = ("--data.validation", 0.1, "--data.test", 0.2, "--data.calibration", 0.2)
    assert vit("train", data, *QUICK, *cut, "--epochs", 1, "--out", "runs").code == 0
    run = run_folder(here / "runs")
    tested = [row["path"] for row in rows(run / "splits.csv") if row["split"] == "test"]
    vit("evaluate", run, data, "--output", "out").noted("and 8 images that the run was calibrated on; ")
    assert {row["path"] for row in predictions(here / "out")} == {os.path.relpath(path, data) for path in tested}
    assert measured(here / "out")["left_out"]["calibration_images_of_the_run"] == 8
    assert "8 calibration images of the run" in Page((here / "out" / "report.html").read_text()).text


@pytest.mark.faults("D26")
def test_all_images_can_be_asked_for_and_none_is_refused(vit, trained_on, here):
    run, data = trained_on
    answer = vit("evaluate", run, data, "--include_seen", "--output", "all")
    assert answer.code == 0 and "WARNING: scored too (--include_seen): 28 images that the run trained on" in answer.err
    assert len(predictions(here / "all")) == 40
    for row in rows(run / "splits.csv"):
        if row["split"] == "train":
            (here / "trained" / row["label"]).mkdir(parents=True, exist_ok=True)
            shutil.copy(row["path"], here / "trained" / row["label"])
    answer = vit("evaluate", run, "trained", "--output", "none").failed(3, "all 28 images of trained are images that")
    assert "--include_seen" in answer.err and not (here / "none").exists()
    shutil.copy(run / "checkpoints" / "best.ckpt", "loose.ckpt")
    answer = vit("evaluate", "loose.ckpt", data, "--output", "loose")
    words = "loose.ckpt is not in a run folder, so images that it was trained on are not recognized"
    assert answer.code == 0 and f"WARNING: {words}\n" in answer.err
    assert measured(here / "loose")["warning"] == words
    assert f"Warning: {words}." in (here / "loose" / "report.html").read_text()


@pytest.mark.faults("D26")
def test_arrays_and_runs_whose_list_was_shortened(vit, digits_run, trained_on, here):
    answer = vit("evaluate", digits_run.path, "digits", "--output", "digits")
    assert answer.code == 0 and len(predictions(here / "digits")) == 359
    run, data = trained_on
    lines = (run / "splits.csv").read_text().splitlines()
    (run / "splits.csv").write_text("\n".join(lines[:-1]) + "\n")
    vit("evaluate", run, data, "--output", "shortened").failed(3, "splits.csv lists ", "the run had ")


@pytest.mark.faults("K8")
def test_a_run_finds_its_images_from_any_folder(vit, draw_classes, here, monkeypatch):
    draw_classes(here / "data", ("dark", "light"), 12)
    run = trained(here / "runs", "data", *QUICK, "--epochs", 1)
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert vit("evaluate", run).code == 0


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["nothing"], 4, "there is no checkpoint nothing"),
        (["loose.ckpt"], 2, "DATA must be given"),
        (["RUN", "nothing"], 2, "'nothing'"),
        (["RUN", "no/thing"], 3, "there is no no/thing"),
        (["RUN", "digits", "--split", "test"], 2, "digits has no test images"),
        (["RUN", "--output", "full"], 2, "not an empty folder"),
        (["RUN", "--output", "full/mine.txt"], 2, "not an empty folder"),
        (["RUN", "--output", "full/mine.txt/out"], 7, "full/mine.txt/out"),
        (["RUN", "--device", "cqu"], 2, "'cqu'; choose one of auto, cpu, cuda, mps"),
    ],
)
def test_what_cannot_be_evaluated(vit, digits_run, here, line, code, words):
    shutil.copy(digits_run.best, "loose.ckpt")
    (here / "full").mkdir()
    (here / "full" / "mine.txt").write_text("mine")
    vit("evaluate", *(digits_run.path if word == "RUN" else word for word in line)).failed(code, words)
    assert (here / "full" / "mine.txt").read_text() == "mine" and not (digits_run.path / "evaluations").exists()


def test_a_loose_checkpoint_is_measured_on_data(vit, digits_run, here):
    shutil.copy(digits_run.best, "loose.ckpt")
    assert vit("evaluate", "loose.ckpt", "digits").code == 0
    assert measured(here / "evaluation-digits-all")["images"] == 1797


def test_an_unreadable_image_of_a_folder_is_left_out_and_named(vit, colors_run, colors, here):
    """Of a folder without splits, whose images have the role of training images in their source."""
    shutil.copytree(colors, "copied")
    (here / "copied" / "green" / "00.png").write_bytes(b"not an image")
    answer = vit("evaluate", colors_run, "copied", "--include_seen", "--output", "part")
    assert answer.code == 5 and "1 image cannot be read or measured, such as green/00.png" in answer.err
    found = measured(here / "part")
    assert found["images"] == 41 and list(found["left_out"]["unreadable"]) == ["green/00.png"]
    assert len({row["path"] for row in predictions(here / "part")}) == 41


@pytest.mark.faults("R11")
def test_an_evaluation_that_was_cut_off_begins_again_in_its_folder(vit, digits_run, here, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_page, "write_evaluation_page", killed)
        assert vit("evaluate", digits_run.path, "--output", "cut").code == 130
    assert measured(here / "cut") and not (here / "cut" / "report.html").exists()
    assert vit("evaluate", digits_run.path, "--output", "cut").code == 0
    assert vit("evaluate", digits_run.path, "--output", "whole").code == 0
    assert sorted(os.listdir("cut")) == sorted(os.listdir("whole"))
    assert (here / "cut" / "metrics.json").read_text() == (here / "whole" / "metrics.json").read_text()
    vit("evaluate", digits_run.path, "--output", "cut").failed(2, "is not an empty folder")
