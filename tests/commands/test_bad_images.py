"""Validation and test images that cannot be read: found before the first step, or left out, counted and named."""

import json

import pytest

from tests.runs import run_folder
from tests.tables import rows

QUICK = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 1, "--batch_size", 4, "--wandb", "off",
)  # fmt: skip
HTML = b"<!DOCTYPE html><html><body>404</body></html>"


@pytest.fixture
def data(draw_classes, tmp_path):
    """train/, val/ and test/ of two classes."""
    for split, each in (("train", 6), ("val", 4), ("test", 4)):
        draw_classes(tmp_path / "data" / split, ("dark", "light"), each)
    return tmp_path / "data"


def cut(path):
    """Leave the header, and too few pixels."""
    path.write_bytes(path.read_bytes()[:200])
    return path


@pytest.mark.faults("D13")
@pytest.mark.parametrize("split", ["val", "test"])
def test_a_file_that_is_no_image_is_refused_before_a_run_folder_is_made(vit, data, tmp_path, split):
    for name in ("dark/01.png", "light/02.png"):
        (data / split / name).write_bytes(HTML)
    answer = vit("train", data, "--out", tmp_path / "runs", *QUICK)
    answer.failed(3, "cannot read 2 validation or test files:", str(data / split / "dark" / "01.png"), "an HTML page")
    assert not (tmp_path / "runs").exists()
    (data / "train" / "dark" / "05.png").write_bytes(HTML)  # others could stand in for this one
    answer = vit("train", data, "--out", tmp_path / "runs", *QUICK)
    answer.failed(3, "cannot read 2 validation or test files (and 1 training file): ")
    answer = vit("study", data, "--networks", "vit_nano_patch2_8", "--out", tmp_path / "studies", "--wandb", "off")
    answer.failed(3, "cannot read 2 validation or test files", "light/02.png")
    assert not (tmp_path / "studies").exists()


@pytest.fixture
def run_and_answer(vit, data, tmp_path, request):
    """A training whose validation and test images break while they are decoded."""
    cut(data / "val" / "light" / "00.png")
    for name in ("dark/01.png", "light/03.png"):
        cut(data / "test" / name)
    options = getattr(request, "param", ("--data.cache", "none", "--data.num_workers", 1))
    drawn = not hasattr(request, "param")
    answer = vit("train", data, *QUICK, *options, "--out", tmp_path / "runs", drawn=drawn)
    return run_folder(tmp_path / "runs"), answer


@pytest.mark.faults("D13", "D21")
@pytest.mark.parametrize(
    "run_and_answer",
    [("--data.cache", "none", "--data.num_workers", 1), ("--data.cache", "memory")],
    indirect=True,
)
def test_what_breaks_while_it_is_decoded_is_left_out_and_counted(run_and_answer):
    run, answer = run_and_answer
    assert answer.code == 5 and answer.err.count("vit: error[") == 1, answer.err
    assert (
        "3 of the validation and test images cannot be read or measured" in answer.err
        and str(run / "result.json") in answer.err
    )
    assert "test left out" in answer.out and "test/dark/01.png: damaged PNG" in answer.out
    result = json.loads((run / "result.json").read_text())
    assert {split: sorted(images) for split, images in result["left_out"].items()} == {
        "validation": ["val/light/00.png"], "test": ["test/dark/01.png", "test/light/03.png"],
    }  # fmt: skip
    assert result["images"] == {"train": 12, "validation": 7, "test": 6}
    assert len(rows(run / "predictions" / "test.csv")) == 6


@pytest.mark.faults("D13", "D18")
@pytest.mark.slow
def test_evaluate_report_and_compare_agree_after_the_bad_files_are_gone(vit, data, run_and_answer, tmp_path):
    run, _ = run_and_answer
    result = json.loads((run / "result.json").read_text())
    for name in ("dark/01.png", "light/03.png"):
        (data / "test" / name).unlink()
    vit("evaluate", run, "--output", tmp_path / "again").failed(5, "2 images cannot be read")
    found = json.loads((tmp_path / "again" / "metrics.json").read_text())
    assert found["metrics"] == result["metrics"] and found["images"] == 6
    assert set(found["left_out"]["unreadable"]) == {"test/dark/01.png", "test/light/03.png"}
    before = (run / "report.html").read_text()
    assert vit("report", run).code == 0
    page = (run / "report.html").read_text()
    assert page.count("<img ") == before.count("<img ") > 8 and "test/dark/01.png: damaged PNG" in page
    (data / "test" / "dark" / "00.png").unlink()  # this one was measured
    answer = vit("evaluate", run, "--output", tmp_path / "third")
    answer.failed(3, "1 test image of data changed since the run or went missing: test/dark/00.png")


def test_an_unfinished_run_is_not_measured_on_images_that_moved(vit, draw_classes, tmp_path):
    """A folder without splits of its own: a file that goes would shift training images into the test part."""
    data = draw_classes(tmp_path / "data", ("dark", "light"), 20)
    assert vit("train", data, *QUICK, "--out", tmp_path / "runs").code == 0
    run = run_folder(tmp_path / "runs")
    (run / "result.json").unlink()  # it was stopped at its end
    tested = [row for row in rows(run / "splits.csv") if row["split"] == "test"]
    trained = next(row for row in rows(run / "splits.csv") if row["split"] == "train")
    (data / trained["path"]).unlink()
    assert vit("evaluate", run, "--unfinished", "--output", tmp_path / "out").code == 0
    measured = [str(data.resolve() / row["path"]) for row in rows(tmp_path / "out" / "predictions.csv")]
    assert measured == [row["path"] for row in tested]


@pytest.mark.faults("D13")
def test_a_probe_leaves_images_out_as_well(vit, data, tmp_path):
    assert vit("train", data, *QUICK, "--out", tmp_path / "runs").code == 0
    cut(data / "train" / "dark" / "02.png")
    cut(data / "test" / "dark" / "02.png")
    options = ("--init_from", run_folder(tmp_path / "runs"), "--freeze", "backbone", "--out", tmp_path / "probe")
    assert vit("train", data, *options, "--wandb", "off").code == 5
    result = json.loads((run_folder(tmp_path / "probe") / "result.json").read_text())
    assert result["unreadable_images"] == 1 and list(result["left_out"]) == ["test"] and result["images"]["test"] == 7
