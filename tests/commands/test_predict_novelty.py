"""`vit predict` on images of other classes: from a training to rows."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import vit as python
from tests.tables import rows
from vit.checkpoints.format import NOVELTY_KEY

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Twenty digits, and six pictures of noise, which no class describes."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, image in enumerate(load_digits().images[:20]):
        Image.fromarray((image * 15.9375).astype(np.uint8)).save(folder / f"digit{number:02d}.png")
    for number in range(6):
        noise = np.random.default_rng(number).integers(0, 256, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(noise).save(folder / f"noise{number}.png")
    return folder


@pytest.fixture
def old(digits_run, tmp_path):
    """The checkpoint as versions before this one saved it."""
    content = torch.load(digits_run.best, weights_only=True)
    del content[NOVELTY_KEY]
    torch.save(content, tmp_path / "old.ckpt")
    return tmp_path / "old.ckpt"


@pytest.fixture
def run(digits_run, tmp_path):
    """A copy of the run."""
    return shutil.copytree(digits_run.path, tmp_path / "run")


def test_images_of_no_class_are_novel_and_keep_their_row(vit, digits_run, pictures, here):
    vit("predict", digits_run.path, pictures, "--output", "all.csv").ok("unlike the training images: ")
    found = {row["path"].rpartition("/")[2]: row for row in rows(here / "all.csv")}
    noise = [float(row["novelty"]) for name, row in found.items() if name.startswith("noise")]
    digits = [float(row["novelty"]) for name, row in found.items() if name.startswith("digit")]
    assert min(noise) > np.median(digits) and all(0 <= value < 1 for value in noise + digits)
    assert {row["status"] for row in found.values()} == {"ok"}

    answer = vit("predict", digits_run.path, pictures, "--output", "some.csv", "--reject_novel", "--gallery")
    assert answer.code == 0 and "have no label" in answer.out and "WARNING" not in answer.err
    after = {row["path"].rpartition("/")[2]: row for row in rows(here / "some.csv")}
    for name, row in found.items():
        is_unlike = float(row["novelty"]) >= 0.95
        assert after[name]["status"] == ("novel" if is_unlike else "ok")
        assert after[name]["label"] == ("" if is_unlike else row["label"])
        assert after[name]["novelty"] == row["novelty"] and after[name]["probability"] == row["probability"]
    count = sum(row["status"] == "novel" for row in after.values())
    assert count > 0 and f"{count} novel" in (here / "some.html").read_text()


@pytest.mark.slow
def test_an_exported_file_says_that_it_has_no_novelty(vit, digits_run, pictures, here):
    assert vit("export", digits_run.path, "--format", "onnx", "--output", "m.onnx").code == 0
    answer = vit("predict", "m.onnx", pictures, "--output", "rows.csv")
    assert "stays empty: an exported file has none; give the run or its checkpoint" in answer.err
    refused = vit("predict", "m.onnx", pictures, "--reject_novel", "--output", "other.csv")
    assert refused.code == 2 and "--reject_novel needs a novelty: an exported file has none" in refused.err


def test_the_novelty_of_an_image_depends_on_the_image_alone(digits_run, pictures):
    model = python.load(digits_run.path)
    together = {row.path: row.novelty for row in model.predict(pictures, batch_size=26)}
    alone = {row.path: row.novelty for row in model.predict(pictures, batch_size=1)}
    assert alone == pytest.approx(together, abs=1 / 150)  # one of 179 validation images, by rounding


@pytest.mark.faults("A5")
def test_a_model_without_training_features_predicts_and_says_so(vit, old, pictures, here):
    vit("predict", old, pictures, "--output", "rows.csv").noted("without features of training images")
    assert {row["novelty"] for row in rows(here / "rows.csv")} == {""}
    vit("predict", old, pictures, "--reject_novel").failed(2, "without features of training images")


@pytest.mark.faults("A6")
@pytest.mark.parametrize("change", [{"features": "text"}, {"neighbor": 10**9}, {"validation": torch.ones(2, 2)}])
def test_damaged_training_features_are_refused(vit, digits_run, pictures, here, change):
    content = torch.load(digits_run.best, weights_only=True)
    torch.save({**content, NOVELTY_KEY: {**content[NOVELTY_KEY], **change}}, here / "changed.ckpt")
    vit("predict", "changed.ckpt", pictures).failed(4, "damaged training features")


@pytest.mark.faults("A6")
def test_training_features_of_another_network_are_refused(vit, digits_run, pictures, here):
    content = torch.load(digits_run.best, weights_only=True)
    others = content[NOVELTY_KEY]["features"][:, :-1].contiguous()
    torch.save({**content, NOVELTY_KEY: {**content[NOVELTY_KEY], "features": others}}, here / "changed.ckpt")
    vit("predict", "changed.ckpt", pictures).failed(4, "do not fit its network")


def test_a_result_and_its_page_count_test_images_that_are_unlike(digits_run):
    novelty = json.loads((digits_run.path / "result.json").read_text())["answers"]["novelty"]
    assert sum(novelty["counts"]) == 359 and 0 <= novelty["unlike"]["value"] < 0.2
    assert "--reject_novel" in (digits_run.path / "report.html").read_text()


def test_a_novelty_of_0_95_is_novel_for_predict_and_evaluate(vit, digits_run, pictures, here):
    """The largest novelty with 19 validation images, of which float32 is a little below 0.95."""
    content = torch.load(digits_run.best, weights_only=True)
    torch.save({**content, NOVELTY_KEY: {**content[NOVELTY_KEY], "validation": torch.zeros(19)}}, here / "few.ckpt")
    for path in pictures.iterdir():
        folder = here / "labeled" / ("3" if path.name.startswith("noise") else "5")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)
    answer = vit("predict", "few.ckpt", "labeled", "--recursive", "--reject_novel", "--output", "rows.csv")
    found = rows(here / "rows.csv")
    novel = [row for row in found if float(row["novelty"]) == 0.95]
    assert len(novel) >= 6 and {row["status"] for row in novel} == {"novel"}
    assert f"{len(novel)} of {len(found)} images" in answer.out
    assert vit("evaluate", "few.ckpt", "labeled", "--output", "measured").code == 0
    unlike = json.loads((here / "measured" / "metrics.json").read_text())["answers"]["novelty"]
    assert round(unlike["unlike"]["value"] * len(found)) == unlike["counts"][-1] == len(novel)
