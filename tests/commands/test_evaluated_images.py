"""`vit evaluate`: which images are measured, whether the run has seen them, and what the page says of them."""

import json
import os
import shutil
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
import torch

import vit as python
from tests.report.pages import Page
from tests.runs import trained
from tests.tables import rows
from vit.commands.measuring.measured_images import with_model_classes
from vit.console import Reporter
from vit.data.core.samples import Samples, Source
from vit.errors import DataError

pytestmark = pytest.mark.usefixtures("here")
QUICK = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--data.validation", 0.1, "--data.test", 0.2,
    "--epochs", 2, "--wandb", "off",
)  # fmt: skip
NONE_SEEN = {f"{split}_images_of_the_run": 0 for split in ("train", "validation", "calibration")}


@pytest.fixture(scope="module")
def data(tmp_path_factory, draw_classes):
    return draw_classes(tmp_path_factory.mktemp("data") / "photos", ("dark", "light"), 20)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A run of 28 images to train on, 4 to validate and 8 to test."""
    return trained(tmp_path_factory.mktemp("run"), data, *QUICK)


@pytest.fixture(scope="module")
def calibrated(data, tmp_path_factory):
    """A run with calibration images that keeps its last weights, and has a temperature of 2."""
    out = tmp_path_factory.mktemp("calibrated")
    options = ("--data.calibration", 0.2, "--optim.best_metric", "last")
    found = trained(out, data, *QUICK, *options)
    content = torch.load(found / "checkpoints" / "best.ckpt", weights_only=True)
    content["vit"]["temperature"] = 2.0  # so few images tell none
    torch.save(content, found / "checkpoints" / "best.ckpt")
    result = json.loads((found / "result.json").read_text())
    (found / "result.json").write_text(json.dumps({**result, "temperature": 2.0}))
    return found


def measured(folder):
    """(metrics.json, page, summary to send)."""
    page = Page((folder / "report.html").read_text())
    summary = page.html.partition('<pre id="summary"')[2].partition("</pre>")[0]
    return json.loads((folder / "metrics.json").read_text()), page, summary


def test_images_that_are_scored_although_the_run_has_seen_them_leave_a_trace(vit, run, data, here):
    answer = vit("evaluate", run, data, "--include_seen", "--output", "all")
    words = "scored too (--include_seen): 28 images that the run trained on and 4 images that the run validated on"
    warning = f"{words}, so the metrics are too good for new images"
    assert answer.code == 0 and f"WARNING: {warning}" in answer.err
    found, page, summary = measured(here / "all")
    seen = {"train_images_of_the_run": 28, "validation_images_of_the_run": 4}
    assert found["scored_although_seen"] == {**NONE_SEEN, **seen} and found["warning"] == warning
    assert found["left_out"] == {**NONE_SEEN, "unreadable": {}}
    assert f"Warning: {warning}." in page.text and f"Warning: {warning}" in summary
    assert "answers" not in found and "When it is not sure" not in page.text and "--target_accuracy" not in answer.out

    vit("evaluate", run, data, "--output", "new").ok()
    found, page, summary = measured(here / "new")
    assert found["left_out"] == {**NONE_SEEN, **seen, "unreadable": {}} and found["warning"] is None
    assert found["scored_although_seen"] == NONE_SEEN and "Warning" not in page.text + summary
    assert found["answers"]["thresholds"] and "When it is not sure" in page.text
    again = python.evaluate(run, data, include_seen=True, output=here / "python")
    assert again.scored_although_seen == {"train": 28, "validation": 4, "calibration": 0}
    assert again.seen == dict.fromkeys(again.scored_although_seen, 0)


@pytest.mark.parametrize(
    ("split", "warning"),
    [
        ("train", "the network has trained on these 28 train images"),
        ("validation", "these 4 validation images chose the weights, the temperature and the thresholds"),
    ],
)
def test_the_own_images_of_a_run_are_measured_with_a_warning(vit, run, here, split, warning):
    warning += ", so the metrics are too good for new images"
    answer = vit("evaluate", run, "--split", split, "--output", "own")
    assert answer.code == 0 and answer.err.count(f"WARNING: {warning}\n") == 1
    found, page, summary = measured(here / "own")
    assert f"Warning: {warning}." in page.text and f"Warning: {warning}" in summary
    count = 28 if split == "train" else 4
    assert found["scored_although_seen"] == {f"{split}_images_of_the_run": count} and found["warning"] == warning
    assert found["left_out"] == {"unreadable": {}} and "answers" not in found
    assert f"{split} images" in page.text


def test_a_run_without_test_images_is_measured_with_a_warning(vit, data, here):
    options = ("--data.test", 0, "--epochs", 1, "--keep_state", "true")
    run = trained(here / "runs", data, *QUICK, *options)
    vit("evaluate", run).noted("WARNING: these 4 validation images chose the temperature and the thresholds, so ")
    assert (run / "evaluations" / "photos-validation").is_dir()
    answer = vit("evaluate", run / "checkpoints" / "last.ckpt", "--output", "last")
    assert answer.code == 0 and "WARNING" not in answer.err  # neither chosen nor calibrated
    assert measured(here / "last")[0]["scored_although_seen"] == {"validation_images_of_the_run": 4}


def test_validation_images_that_chose_nothing_are_no_reason_for_a_warning(vit, calibrated, here):
    answer = vit("evaluate", calibrated, "--split", "validation", "--output", "own")
    assert answer.code == 0 and "WARNING" not in answer.err
    found, page, _ = measured(here / "own")
    assert found["scored_although_seen"] == {"validation_images_of_the_run": 4} and "Warning" not in page.text


def test_several_labels_leave_the_same_trace(vit, labels_run, here):
    answer = vit("evaluate", labels_run.path, "--split", "train", "--output", "own")
    assert answer.code == 0 and "WARNING: the network has trained on these " in answer.err
    found = json.loads((here / "own" / "metrics.json").read_text())
    assert found["scored_although_seen"] == {"train_images_of_the_run": found["images"]}
    assert found["warning"].startswith("the network has trained on these ")


def test_images_without_splits_are_called_all(vit, run, draw_classes, here):
    draw_classes(here / "new", ("dark", "light"), 30, side=14)
    where = shutil.copytree(run, here / "run")
    answer = vit("evaluate", where, "new")
    assert answer.code == 0 and "60 images of new, cpu" in answer.err and "60 images; 95 % intervals" in answer.out
    folder = where / "evaluations" / "new-all"
    _, page, summary = measured(folder)
    assert " of 60 images" in summary and " train" not in summary
    assert not any(words in page.text for words in ("train images", "the test images", "all images"))
    assert "The table shows what the thresholds do on the measured images." in page.text
    assert "(train)" not in page.text and "(all)" not in page.text
    vit("evaluate", where, "new", "--split", "test").failed(2, "new has no test images", "leave --split out")


def test_pages_name_the_images_of_the_fit_and_the_rule_of_the_checkpoint(vit, run, calibrated, here):
    vit("evaluate", calibrated, "--output", "own").ok()
    assert vit("report", calibrated).code == 0
    page = Page((calibrated / "report.html").read_text())
    assert (
        "The table shows the best checkpoint, of epoch 2, which has the last weights, measured on the test images."
        in page.text
    )
    for text in (page.text, measured(here / "own")[1].text):
        assert "temperature 2.000, fitted on the calibration images;" in text
        assert "fraction of the calibration images that are more like the training images" in text
        assert "validation images" not in text
    assert vit("report", run).code == 0
    page = Page((run / "report.html").read_text())
    assert ", which has the lowest val/loss, measured on the test images." in page.text
    assert "fraction of the validation images" in page.text


def test_rules_name_the_images_of_their_fit(vit, calibrated, data):
    answer = vit("predict", calibrated, data / "dark", "--target_accuracy", 0.9)
    assert answer.code == 2 and "with 8 calibration images no threshold" in answer.err
    assert "train with more calibration images (--data.calibration)" in answer.err
    answer = vit("predict", calibrated, data / "dark", "--reject_novel")
    assert answer.code == 2 and "--reject_novel needs 19 calibration images, and this model has 8" in answer.err
    answer = vit("predict", calibrated, data / "dark").noted("too few calibration images to call any image unlike")
    assert "unlike the training images" not in answer.out + vit("evaluate", calibrated).out


@pytest.mark.faults("D7")
def test_names_that_unicode_composes_in_another_way_are_the_same():
    """The class Café of an archive from macOS was unknown to a model that knows Café."""
    samples = Samples(["a.png", "b.png"], np.array([1, 0]))
    source = Source("photos", (normalize("NFD", "Café"), "tea"), {"test": samples})
    found = with_model_classes(samples, source, ("tea", "water", "Café"), Reporter(quiet=True))
    assert found.labels.tolist() == [0, 2]
    with pytest.raises(DataError, match=r"does not know: Caf.*it knows 'tea, green', Cafe, Caf"):
        with_model_classes(samples, source, ("tea, green", "Cafe", normalize("NFC", "Café x")), Reporter(quiet=True))


def test_a_checkpoint_of_another_training_is_not_measured_as_that_of_the_run(vit, run, calibrated, here):
    mixed = shutil.copytree(run, here / "a" / "b" / "run")
    shutil.copy(calibrated / "checkpoints" / "best.ckpt", mixed / "checkpoints" / "best.ckpt")
    vit("evaluate", mixed, "--output", "found").failed(4, "are of different trainings: their temperatures are 2 and")


def test_labels_that_a_table_has_changed_since_the_training_are_not_measured_silently(vit, data, here):
    paths = sorted(data.rglob("*.png"))
    labels = {os.path.relpath(path, here): path.parent.name for path in paths}

    def write():
        (here / "table.csv").write_text("\n".join(["path,label", *(f"{path},{labels[path]}" for path in labels)]))

    write()
    found = trained(here / "runs", "table.csv", *QUICK)
    assert vit("evaluate", found, "--output", "same").code == 0
    tested = next(row["path"] for row in rows(found / "splits.csv") if row["split"] == "test")
    path = next(path for path in labels if Path(path).samefile(tested))
    labels[path] = "light" if labels[path] == "dark" else "dark"
    write()
    answer = vit("evaluate", found, "--output", "other")
    assert (
        answer.code == 3 and f"1 test image of {here / 'table.csv'} got other labels since the training" in answer.err
    ), answer.err
