"""Several models as one: `vit predict RUN RUN IMAGES` and `vit evaluate RUN RUN`"""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import vit as api
from tests.runs import run_folder, trained
from tests.tables import rows
from vit.checkpoints.io import read_checkpoint, write_checkpoint
from vit.commands.measuring import scoring
from vit.console import Reporter
from vit.data.core.samples import Samples
from vit.inference.scores.scored_images import ScoredImages

pytestmark = pytest.mark.usefixtures("here")
OPTIONS = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 2, "--wandb", "off")


@pytest.fixture(scope="module")
def seeds(vit, colors, tmp_path_factory):
    """Two runs of one recipe with other seeds, and one with another input."""
    found = []
    for options in (("--seed", 1), ("--seed", 2), ("--seed", 3, "--image_size", 12, "--resize_mode", "pad")):
        out = tmp_path_factory.mktemp("runs")
        vit("train", colors, *OPTIONS, *options, "--out", out).ok()
        found.append(run_folder(out))
    return found


def probabilities(model, images, *more):
    """(rows of p_NAME, labels) of a prediction."""
    api.predict(model, [*more, images], probabilities=True, recursive=True, output="rows.csv")
    found = rows(Path("rows.csv"))
    Path("rows.csv").unlink()
    names = [name for name in found[0] if name.startswith("p_")]
    return np.array([[float(row[name]) for name in names] for row in found]), [row["label"] for row in found]


def test_probabilities_are_averaged_after_each_calibration_and_input(seeds, colors):
    singles = [probabilities(run, colors)[0] for run in seeds]
    together, labels = probabilities(seeds[0], colors, *seeds[1:])
    assert np.abs(together - np.mean(singles, axis=0)).max() < 1e-4
    assert not np.allclose(singles[0], singles[1], atol=1e-3)
    names = sorted({path.name for path in colors.iterdir()})
    assert labels == [names[place] for place in np.mean(singles, axis=0).argmax(axis=1)]


def test_bad_files_have_one_row_and_rules_of_one_model_are_refused(vit, seeds, colors, here):
    shutil.copytree(colors / "red", here / "photos")
    (here / "photos" / "bad.png").write_bytes(b"nothing")
    vit("predict", *seeds[:2], here / "photos", "--reject_below", 0.999).noted("the average of 2 models")
    statuses = [row["status"] for row in rows(here / "predictions.csv")]
    assert len(statuses) == 15 and set(statuses) == {"unsure", "not_image"}
    for option in (("--target_accuracy", 0.5), ("--coverage", 0.5), ("--reject_novel",)):
        refused = vit("predict", *seeds[:2], here / "photos", *option)
        assert refused.code == 2 and "is fitted to the validation images of one model" in refused.err


def test_an_ensemble_is_measured_beside_its_models_on_the_same_images(vit, seeds, here):
    vit("evaluate", *seeds, "--output", "found").ok("all, averaged", "paired 95 % interval over images")
    kept = json.loads((here / "found" / "metrics.json").read_text())
    assert list(kept["ensemble"]["accuracies"]) == [str(run) for run in seeds]
    gain = kept["ensemble"]["gain"]
    best = max(kept["ensemble"]["accuracies"].values())
    assert gain["value"] == pytest.approx(kept["metrics"]["acc1"]["value"] - best)
    assert gain["low"] <= gain["value"] <= gain["high"]
    assert "ensemble of 3 models" in (here / "found" / "report.html").read_text()
    content = read_checkpoint(seeds[1] / "checkpoints" / "best.ckpt")
    content["vit"]["classes"] = [content["vit"]["classes"][place] for place in (2, 0, 1)]
    weights = content["state_dict"]
    weights |= {name: weights[name][[2, 0, 1]] for name in ("network.head.weight", "network.head.bias")}
    write_checkpoint(content, here / "turned.ckpt")  # the same model, with its classes in another order
    vit("evaluate", seeds[0], "turned.ckpt", seeds[2], "--output", "turned").ok()
    turned = json.loads((here / "turned" / "metrics.json").read_text())
    assert turned["metrics"]["nll"]["value"] == pytest.approx(kept["metrics"]["nll"]["value"])


def test_an_image_that_one_model_cannot_take_is_left_out(monkeypatch):
    """A model with a window reads 16 bits for a color, and one without does not."""
    names, labels = ("a", "b", "c"), np.array([0, 1, 0])
    chances = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], dtype=np.float32)
    every = {"all": ScoredImages(names, labels, chances),
             "some": ScoredImages(names[1:], labels[1:], chances[1:], {"a": "16 bits for a color"})}  # fmt: skip
    models = {name: SimpleNamespace(class_names=("x", "y"), scored=one) for name, one in every.items()}
    monkeypatch.setattr(scoring, "score_images", lambda model, *_: model.scored)
    scored, found = scoring.score_together(models, "images", Samples(names, labels), Reporter())
    assert scored.paths == ("b", "c") and scored.labels.tolist() == [1, 0]
    assert np.array_equal(scored.probabilities, chances[1:])
    assert scored.left_out == {"a": "16 bits for a color"} and found.accuracies == {"all": 0.5, "some": 0.5}


def test_images_that_any_model_has_learned_are_left_out(vit, seeds, colors, tmp_path):
    other = trained(tmp_path, colors, *OPTIONS, "--data.split_seed", 5)
    answer = vit("evaluate", seeds[0], other)
    assert answer.code in (0, 3) and ("left out: " in answer.err or "all " in answer.err)


def test_an_image_that_several_models_have_seen_counts_once(vit, seeds, colors, here):
    """It counted once for each model: 40 images, of which 64 had been seen."""
    for name, models in (("one", seeds[:1]), ("all", seeds[:2])):
        vit("evaluate", *models, colors, "--include_seen", "--output", name).ok()
    one, both = (json.loads((here / name / "metrics.json").read_text()) for name in ("one", "all"))
    assert both["scored_although_seen"] == one["scored_although_seen"]
    assert sum(both["scored_although_seen"].values()) <= both["images"]
    vit("evaluate", *seeds[:2], "--split", "validation", "--include_seen", "--output", "own").ok()
    own = json.loads((here / "own" / "metrics.json").read_text())
    assert own["scored_although_seen"] == {"validation_images_of_the_run": own["images"]}


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_models_that_cannot_be_averaged(vit, seeds, colors, digits_run, command):
    images = [colors, "--recursive"] if command == "predict" else []
    other = vit(command, seeds[0], digits_run.path, *images)
    assert other.code != 0 and ("different classes" in other.err or "have changed" in other.err)
    best = seeds[0] / "checkpoints" / "best.ckpt"
    for again, words in ((seeds[0], "is given twice"), (best, f"{seeds[0]} and {best} have the same weights")):
        vit(command, seeds[0], again, *images).failed(2, words)
