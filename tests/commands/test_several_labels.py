"""`vit train` on images with several labels: files of the run, an exact resume, a study, and what is refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import LABELS_OPTIONS
from tests.report.pages import Page
from tests.runs import checkpoint, died, metrics, run_folder, same_end
from vit.checkpoints.io import store_calibration
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.load import load
from vit.checkpoints.result import RunResult, unpack
from vit.checkpoints.run import RunDirectory
from vit.data.sources.sources import open_source
from vit.inference.scores.scored_images import read_scored_labels
from vit.report.run import run_page
from vit.report.run.run_page import write_run_report
from vit.study.answer.answer_warnings import COMMONEST
from vit.study.running import runner
from vit.training.planning.plan import plan_of
from vit.training.running.run_images import images_of_run

TINY = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--data.num_workers", 0, "--wandb", "off")


def recipe_of(run):
    from vit.commands.cli.recipe_options import read_recipe

    return read_recipe(run / "config.yaml")


def test_the_plan_shows_labels_and_what_is_unknown(vit, labels_csv, tmp_path):
    answer = vit("train", labels_csv, *TINY, "--optim.multilabel_loss", "asymmetric", "--dry_run", "--out", tmp_path)
    assert answer.code == 0, answer.err
    for text in (
        "3 labels, of which an image may have several: bright, left, top",
        "for each training image, from top (", "cells are unknown",
        "asymmetric loss of each label", "--optim.best_metric map", "stratified by labels",
    ):  # fmt: skip
        assert text in answer.out, answer.out


def test_thresholds_have_the_precision_that_is_asked_for(vit, labels_csv, tmp_path):
    answer = vit(
        "train", labels_csv, *TINY, "--optim.steps", 2, "--lr", 1e-9, "--optim.min_precision", 0.99, "--out", tmp_path
    ).noted("thresholds of precision 99 %")  # a network that has learned nothing
    assert "not shown to be better than guessing: the mAP is" in answer.out, answer.out
    (best,) = tmp_path.glob("**/best.ckpt")
    assert "WARNING: not shown to be better" in vit("evaluate", best, "--output", tmp_path / "measured").out
    assert "Warning: not shown to be better" in (tmp_path / "measured" / "report.html").read_text()
    rules, scored = load(best)[1].multilabel, next(tmp_path.glob("**/predictions/validation.csv"))
    read = read_scored_labels(scored, ("bright", "left", "top"), len(scored.read_text().splitlines()) - 1)
    given = read.probabilities >= rules.thresholds
    right = (read.labels == 1) & given
    assert all(not given[:, k].any() or right[:, k].sum() / given[:, k].sum() >= 0.99 for k in range(3))


def test_a_run_keeps_labels_rules_and_metrics(labels_run, labels_csv):
    run = labels_run.path
    result = RunResult.read(run / "result.json")
    assert {"map", "micro_f1", "macro_f1", "exact_match", "nll", "ece"} <= result.metrics.keys()
    assert result.temperature == 1 and result.answers == {}
    rules = load(labels_run.best)[1].multilabel
    assert rules is not None and rules == LabelRules.from_plain(result.multilabel, 3) != LabelRules.unfitted(3)
    rows = [row for row in metrics(run) if row["val/map"]]
    assert len(rows) == 3 and "val/acc1" not in rows[0] and {"val/micro_f1", "val/exact_match"} <= rows[0].keys()
    best = max(float(row["val/map"]) for row in rows)
    assert result.validation["val/map"] == pytest.approx(best) and "val mAP" in labels_run.answer.err
    tested = read_scored_labels(run / "predictions" / "test.csv", ("bright", "left", "top"), result.num_images["test"])
    exact = tested.exact(rules.thresholds)
    assert (unpack(result.correct["test"], len(exact)) == exact).all()
    assert result.metrics["exact_match"]["value"] == pytest.approx(exact.mean()) == result.accuracy
    assert "test exact match" in labels_run.answer.out and f"{100 * exact.mean():.2f}" in labels_run.answer.out


def test_splits_csv_gives_the_images_back_and_is_a_data_set_itself(labels_run, labels_csv, tmp_path):
    recipe = recipe_of(labels_run.path)
    whole, listed = plan_of(recipe).source, images_of_run(RunDirectory(labels_run.path), recipe)
    assert listed.splits.keys() == whole.splits.keys() == {"train", "validation", "test"}
    for split, samples in whole.splits.items():
        assert list(listed.splits[split].paths) == list(samples.paths)
        assert (listed.splits[split].labels == samples.labels).all() and (samples.labels == -1).any()
    again = open_source(str(shutil.copy(labels_run.path / "splits.csv", tmp_path)))
    assert again.class_names == whole.class_names
    assert all((again.splits[split].labels == samples.labels).all() for split, samples in whole.splits.items())


@pytest.mark.slow
def test_without_test_images_a_run_shows_only_what_thresholds_do_not_decide(vit, labels_csv, tmp_path):
    """The validation images chose the thresholds, and F1 and exact match on them were shown as if of new images."""
    answer = vit("train", labels_csv, *LABELS_OPTIONS, "--data.test", 0, "--out", tmp_path, drawn=True)
    assert answer.code == 0 and "could not be drawn" not in answer.err, answer.err
    assert "chose the checkpoint, so their mAP is too high on average: --data.test 0.1" in answer.out
    run = RunDirectory(run_folder(tmp_path))
    result = run.finished_result()
    assert result.metrics == {} and result.num_images.keys() == {"train", "validation"}
    text = Page(run.report_path.read_text()).text
    count = result.num_images["validation"]
    for shown in (
        f"over the labels of {count} validation images", "mAP and average precisions are too high on average",
        "F1, exact match and calibration errors are left out", "vit train DATA --data.test 0.1",
        "vit evaluate RUN OTHER_IMAGES", "Thresholds and temperatures come from the validation images",
    ):  # fmt: skip
        assert shown in text, text
    decided = ("micro F1", "macro F1", "All labels are right", "recall (%)", "calibration error (%)",
               "images have a wrong label", "Calibration")  # fmt: skip
    assert not [words for words in decided if words in text] and "not trained on" not in text
    rows = json.loads(run.per_class_path("validation").read_text())["per_label"]
    assert all({"ap", "threshold"} <= row.keys() and not row.keys() & {"precision", "f1", "nll", "ece"} for row in rows)
    figures = {path.stem for path in run.figures_dir.iterdir()}
    assert "precision_recall" in figures and "reliability" not in figures

    apart = replace(result, num_images={**result.num_images, "calibration": 9})  # which chose the thresholds then
    write_run_report(run, None, apart)
    text = Page(run.report_path.read_text()).text
    assert all(words in text for words in decided)
    assert "all metrics are too high on average" in text and "come from the calibration images" in text
    assert "vit train DATA --data.test 0.1" in text and "left out" not in text


@pytest.mark.faults("R5", simulated="an exception where a process would die")
@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.slow), 8])
def test_a_training_resumes_bit_equal(vit, labels_csv, labels_run, tmp_path, monkeypatch, step):
    monkeypatch.setattr(run_page, "draw_run", lambda *_: None)
    run = died(tmp_path, step, labels_csv, *LABELS_OPTIONS, "--checkpoint_every", "0s")
    before = checkpoint(run)["state_dict"]
    whole = checkpoint(labels_run.path)["state_dict"]
    assert any(not torch.equal(value, before[name]) for name, value in whole.items())
    vit("train", "--resume", run).ok()
    assert same_end(run, labels_run.path)


def test_a_run_that_was_killed_after_its_calibration_ends_the_same(vit, labels_run, tmp_path):
    run = shutil.copytree(labels_run.path, tmp_path / "run")
    (run / "result.json").unlink()
    store_calibration(run / "checkpoints" / "best.ckpt", rules=LabelRules(np.full(3, 0.5), np.full(3, 0.2)))
    vit("train", "--resume", run).ok()
    before, after = (RunResult.read(folder / "result.json") for folder in (labels_run.path, run))
    assert after.multilabel == before.multilabel and after.metrics == before.metrics


def test_a_linear_probe_fits_every_label(vit, labels_csv, labels_run, tmp_path):
    vit("train", labels_csv, "--init_from", labels_run.best, "--freeze", "backbone", "--out", tmp_path,
                 "--data.num_workers", 0, "--wandb", "off", "--optim.best_metric", "micro_f1").ok()  # fmt: skip
    result = RunResult.read(run_folder(tmp_path) / "result.json")
    assert result.multilabel is not None and result.metrics["map"]["value"] > 0.6  # bright and left are easily seen
    assert not (run_folder(tmp_path) / "checkpoints" / "last.ckpt").exists()


@pytest.mark.slow  # four trainings in fresh processes
def test_a_study_compares_exact_matches_on_nested_subsets(vit, labels_csv, tmp_path):
    answer = vit(
        "study", labels_csv, "--networks", "vit_nano_patch2_8", "--vary", "model.network.pool=cls,mean",
        "--set", "model.network.depth=1", "--set", "model.preprocess.image_size=8", "--set", "data.num_workers=0",
        "--sizes", "20,40", "--seeds", 2, "--budget", "steps:4", "--jobs", 1, "--wandb", "off", "--out", tmp_path,
    ).ok()  # fmt: skip
    assert "all its known labels" in answer.out and "exact match" in answer.err, answer.err
    study = tmp_path / "tints"
    assert answer.out.splitlines()[-1].startswith(f"Next: vit report {study} --target")
    summary = json.loads((study / "summary.json").read_text())
    assert summary["protocol"]["subsets"].startswith("with the label frequencies") and len(summary["series"]) == 2
    assert 0 < summary["protocol"][COMMONEST] < 0.5, "guesses are of several labels, too"
    cells = list(study.glob("cells/*/*/*/result.json"))
    assert len(cells) == 8
    for cell in cells:
        result = RunResult.read(cell)
        correct = unpack(result.correct["test"], result.num_images["test"])
        assert result.accuracy == pytest.approx(correct.mean())


def test_a_study_by_time_has_one_test_part_for_several_labels(vit, labels_csv, tmp_path, monkeypatch):
    """Few test images had folds, which several labels refuse: "data.fold needs one class", which was not given."""
    monkeypatch.setattr(runner, "time_network", lambda recipe, machine: (1.0, 0.0))
    answer = vit(
        "study", labels_csv, "--networks", "vit_nano_patch2_8", "--vary", "model.network.pool=cls,mean",
        "--set", "model.preprocess.image_size=8", "--time", "60s", "--dry_run", "--out", tmp_path,
    ).ok()  # fmt: skip
    assert "18 test" in answer.out and "folds" not in answer.out


@pytest.mark.faults("K18")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--data.sampling", "sqrt"), ["--data.sampling sqrt", "several labels", "asymmetric"]),
        (("--optim.class_weights", "auto"), ["--optim.class_weights auto", "several labels"]),
        (("--optim.logit_adjustment", 1), ["--optim.logit_adjustment 1", "several labels"]),
        (("--optim.best_metric", "acc1"), ["best_metric acc1", "several labels", "map, micro_f1"]),
        (("--data.train_images", 20, "--data.subset", "balanced"), ["--data.subset balanced", "several labels"]),
    ],
)
def test_options_of_one_class_for_an_image_are_refused(vit, labels_csv, tmp_path, options, words):
    answer = vit("train", labels_csv, *TINY, *options, "--dry_run", "--out", tmp_path)
    assert answer.code == 2 and all(word in answer.err for word in words), answer.err


@pytest.mark.faults("K18")
@pytest.mark.parametrize(
    "options",
    [("--optim.best_metric", "map"), ("--optim.multilabel_loss", "asymmetric"), ("--optim.min_precision", "0.9")],
)
def test_options_of_several_labels_are_refused_for_classes(vit, colors, tmp_path, options):
    vit("train", colors, *TINY, *options, "--dry_run", "--out", tmp_path).failed(2, options[0], "one class")


def test_merged_parts_are_evaluated_with_a_table_of_labels(vit, labels_run, labels_csv, here):
    folder = here / "images"
    folder.mkdir()
    for number in range(3):
        shutil.copy(labels_csv.parent / f"{number:02}.png", folder)
    assert vit("predict", labels_run.path, folder, "--parts", "parts").code == 0
    answer = vit("predict", "--merge", "parts", "--output", "rows.csv")
    assert answer.code == 0 and answer.out.splitlines()[-1] == "Next: vit evaluate MODEL LABELS.csv"
