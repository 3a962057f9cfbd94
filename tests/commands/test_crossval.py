"""`vit crossval`: every image is tested once, a kill loses no finished fold, and the report is of all images."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vit as package
from tests.commands.following import next_words
from tests.processes import belonging, finish, linux_only, start, until
from tests.runs import trained
from vit.commands.comparing.crossval import crossval_parser, make_crossval_plan
from vit.commands.training.train_options import to_options
from vit.console import Reporter
from vit.csv_files import new_table, records
from vit.study.crossval import CrossvalDirectory
from vit.study.fold_table import FoldPredictions
from vit.training.recipes.recipe import OptimConfig, Recipe
from vit.training.recipes.values import dump

pytestmark = pytest.mark.usefixtures("cells_here")  # but those of `killed`, which are processes
FOLDS = 3
TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", "1", "--optim.steps", "6", "--augment", "none",
    "--batch_size", "8", "--wandb", "off", "--trainer.accelerator", "cpu", "--data.num_workers", "0",
)  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory, draw_classes):
    """A CSV of three classes of colors, each with 12 images of 6 patients."""
    folder = draw_classes(tmp_path_factory.mktemp("data"), ("blue", "green", "red"), 12)
    with new_table(folder / "photos.csv", ("path", "label", "patient")) as rows:
        for label in ("blue", "green", "red"):
            for index in range(12):
                rows.row((f"{label}/{index:02d}.png", label, f"p{index // 2}"))
    return folder / "photos.csv"


def with_a_checkpoint_of_no_use(result):
    """A result.json whose best checkpoint was chosen long before the network was as accurate as it became."""
    values = json.loads(result.read_text())
    values["validation"]["val/acc1"] = 0.0
    values["last_validation"]["val/acc1"] = 1.0
    return json.dumps(values)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("**/result.json")}


@pytest.fixture(scope="module")
def killed(vit, table, tmp_path_factory):
    """(folder, answer of the second call, times of the folds that were finished before the kill)."""
    out = tmp_path_factory.mktemp("out")
    line = ("crossval", table, "--folds", FOLDS, "--jobs", 1, *TINY, "--out", out)
    process = start(out, *line)
    try:
        until(lambda: times(out), 600)
        process.kill()
        process.wait(120)
        until(lambda: not belonging(out), 180)
    finally:
        finish(out, process, 120)
    before = times(out)
    return out / "photos", vit(*line), before


@linux_only
@pytest.mark.slow
def test_a_killed_crossval_goes_on_and_tests_every_image_once(killed, table):
    folder, answer, before = killed
    assert answer.code == 0, answer.err
    assert 0 < len(before) < FOLDS
    assert f"{len(before)} of {FOLDS} cells were done before" in answer.err
    assert before.items() <= times(folder).items()
    found = FoldPredictions.read(folder / "predictions.csv")
    paths = {row["path"]: row for row in records(table)}
    assert sorted(os.path.relpath(path, table.parent) for path in found.paths) == sorted(paths)
    assert len(set(zip(found.groups, found.folds.tolist(), strict=True))) == len(set(found.groups)) == 6
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-4)
    for row in records(folder / "predictions.csv"):  # other tables' column "probability" is that of the prediction
        assert "probability" not in row and row["label_probability"] == row[f"p_{row['label']}"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"]["value"] == found.correct.mean()
    assert summary["num_groups"] == 6
    for run in CrossvalDirectory(folder).runs():
        result = run.read_result()
        own = found.folds == int(result and run.path.name.removeprefix("fold")[0])
        assert result.metrics["acc1"]["value"] == pytest.approx(found.correct[own].mean())
    said = " ".join(answer.out.split())
    assert f"{found.correct.sum()} of 36 images are predicted right" in said
    assert "respects the folds and 6 groups" in said
    recalls = [found.correct[found.labels == one].mean() for one in set(found.labels)]
    assert f"balanced {np.mean(recalls):.2%}; each class" in said.replace(" %", "%"), "99.75 % may be one class of two"
    assert f"vit data check {table} --labels {folder}" in answer.out
    page = (folder / "report.html").read_text()
    assert "photos; 36 images" in page
    assert str(folder.parent) not in page


@linux_only
@pytest.mark.faults("K15")
def test_the_same_command_trains_nothing_and_another_one_is_refused(vit, killed, table):
    folder, _, _ = killed
    before, line = times(folder), ("crossval", table, "--folds", FOLDS, "--jobs", 1, *TINY, "--out", folder.parent)
    assert vit(*line).code == 0
    assert vit("report", folder).code == 0
    assert times(folder) == before
    vit(*line, "--seed", 1).failed(2, "holds another cross-validation")
    assert times(folder) == before


def test_a_plan_counts_the_images_that_a_fold_learns_from(vit, table, tmp_path):
    part = ("--data.train_images", 9, "--out", tmp_path, "--dry_run", "true")
    answer = vit("crossval", table, "--folds", FOLDS, *TINY, *part)
    assert answer.code == 0 and re.search(r"training +9 images each", answer.out), answer.err
    assert re.search(r"note +fold 1: 9 of \d+ training images", answer.out)


@linux_only
def test_folds_whose_last_weights_are_better_are_counted(vit, killed, tmp_path):
    folder = shutil.copytree(killed[0], tmp_path / "photos")
    assert "last weights" not in vit("report", folder).out + (folder / "report.html").read_text()
    result = next(folder.glob("**/result.json"))
    result.write_text(with_a_checkpoint_of_no_use(result))
    said = f"In 1 of {FOLDS} folds the last weights are clearly more accurate on the validation images"
    assert said in " ".join(vit("report", folder).out.split())
    assert said in (folder / "report.html").read_text()


@linux_only
def test_images_that_the_first_weights_know_are_in_all_that_lasts(vit, killed, table, tmp_path):
    folder = shutil.copytree(killed[0], tmp_path / "photos")
    described, said = folder / "crossval.json", "the run old has trained on 9 of 36 test images, so that it is too good"
    described.write_text(json.dumps({**json.loads(described.read_text()), "seen_before": [said]}))
    answer = vit("report", folder)
    page = (folder / "report.html").read_text()
    for text in (" ".join(answer.out.split()), page):
        assert said in text and "right by the networks of other folds" in text and "have not trained" not in text
    assert said in json.loads((folder / "summary.json").read_text())["seen_before"]
    vit("data", "check", table, "--labels", folder, "--output", tmp_path / "check.csv").noted(f"WARNING: {said}")


@linux_only
@pytest.mark.slow
def test_a_crossval_from_a_run_on_its_images_keeps_the_warning(vit, table, tmp_path):
    options = ("--network", "vit_nano_patch2_8", "--epochs", 1, "--batch_size", 4, "--wandb", "off")
    run = trained(tmp_path / "runs", table, *options)
    more = ("--folds", 2, "--jobs", 1, "--init_from", run, "--epochs", 1, "--batch_size", 4, "--wandb", "off")
    answer = vit("crossval", table, *more, "--out", tmp_path).ok()
    assert "has trained on" in answer.err and "right by the networks of other folds" in " ".join(answer.out.split())
    assert "has trained on" in json.loads((tmp_path / "photos" / "crossval.json").read_text())["seen_before"][0]


@linux_only
def test_images_that_no_fold_could_read_are_counted_and_named(vit, killed, tmp_path):
    folder = shutil.copytree(killed[0], tmp_path / "photos")
    assert "ould not be read" not in vit("report", folder).out + (folder / "report.html").read_text()
    lost = {"red/<b>.png": "truncated", "red/z.png": "truncated"}
    for path, (name, reason) in zip(folder.glob("**/result.json"), lost.items(), strict=False):
        path.write_text(json.dumps({**json.loads(path.read_text()), "left_out": {"test": {name: reason}}}))
    said = " ".join(vit("report", folder).out.split())
    assert "Could not be read, and is in no number: red/" in said and "(truncated), and 1 more" in said
    page = (folder / "report.html").read_text()
    assert "every readable image tested once" in page and "<b>.png" not in page and "&lt;b&gt;.png" in page
    assert json.loads((folder / "summary.json").read_text())["left_out"] == lost


@linux_only
def test_the_next_command_opens_the_same_images(vit, killed, table, tmp_path):
    folder = shutil.copytree(killed[0], tmp_path / "photos")
    for config in folder.glob("**/config.yaml"):
        text = config.read_text().replace("  root: null", "  root: my pictures")
        config.write_text(text.replace("  groups: null", "  groups: ([0-9]+)[.]png"))
    words = next_words(vit("report", folder))
    of_data = ["--root", "my pictures", "--groups", "([0-9]+)[.]png"]
    assert words == ["data", "check", str(table), "--labels", str(folder), *of_data]
    assert vit(*words, "--output", tmp_path / "list.csv").code == 0
    assert records(tmp_path / "list_labels.csv")[0]["group"]


@linux_only
@pytest.mark.faults("K15")
def test_unfinished_folds_are_named(vit, killed, tmp_path):
    folder, _, _ = killed
    (tmp_path / "crossval.json").write_text((folder / "crossval.json").read_text())
    vit("report", tmp_path).failed(5, f"{FOLDS} of {FOLDS} folds are not finished")


@pytest.mark.parametrize(("words", "said"), [
    (("--folds", "1"), "--folds 1"), (("--time", "5min"), "optim.time"), (("--data.fold", "1/3"), "data.fold"),
    (("--data.test", "0.4"), "each fold is the test of its network"),
    (("--resume", "auto"), "--resume is for vit train"), (("--batch_size", "auto"), "optim.batch_size"),
    (("--fold", "3"), "--folds"), (("--devices", "2"), "each fold trains on one device"),
])  # fmt: skip
def test_wrong_words_are_refused_before_anything_is_trained(vit, here, words, said):
    vit("crossval", "digits", *words).failed(2, said)
    assert not list(Path().iterdir())


def test_the_help_hides_what_is_refused(vit):
    said = vit("crossval", "--help").out
    assert "--folds" in said and "--data.groups" in said
    assert not re.findall(
        r"--resume RUN|--data.fold\b|--data.test\b|--optim.time|teacher|distill|mlflow.register|find:|auto: on a GPU",
        said,
    )


def test_a_dry_run_shows_the_folds_and_trains_nothing(vit, here):
    (here / "runs").touch()  # it writes elsewhere
    words = ("crossval", "digits", "--network", "vit_nano_patch2_8", "--optim.momentum", "0.8", "--dry_run")
    answer = vit(*words).noted("--optim.momentum changes nothing with muon")
    answer.ok("1,294 to 1,295 images each", "Next: vit crossval digits --network vit_nano_patch2_8")
    assert not list(here.glob("crossval/*"))
    with pytest.raises(package.errors.UsageError, match="dry run"):
        package.crossval("digits", network="vit_nano_patch2_8", dry_run=True)


@pytest.mark.faults("K28")
def test_a_fold_of_a_recipe_for_several_devices_trains_on_one(table, here):
    """The fold started the cross-validation again on its second device, and waited for it without end."""
    Path("config.yaml").write_text("trainer: {devices: 2, num_nodes: 2}\n")
    options = to_options(crossval_parser().read_words([str(table), "--config", "config.yaml", *TINY]))
    plan = make_crossval_plan(options, FOLDS, Reporter())
    assert {(cell.recipe.trainer.devices, cell.recipe.trainer.num_nodes) for cell in plan.cells} == {(1, 1)}


def test_folds_have_the_recipe_of_a_run_with_a_time(vit, table, here):
    """Its config.yaml was refused: it has a time beside the steps that took its place."""
    optim = OptimConfig(time="20s", steps=40)
    Path("config.yaml").write_text(dump(Recipe(optim=optim)))
    vit("crossval", table, "--config", "config.yaml", *TINY[:4], "--wandb", "off", "--dry_run").ok()
    Path("config.yaml").write_text(dump(Recipe(optim=replace(optim, steps=None))))
    answer = vit("crossval", table, "--config", "config.yaml", *TINY[:4], "--wandb", "off", "--dry_run")
    assert (answer.code, "give --epochs" in answer.err) == (2, True), answer.err


@pytest.mark.faults("D34")
def test_copies_are_in_one_fold_and_counted(vit, tmp_path, draw_classes):
    folder = draw_classes(tmp_path / "photos", ("blue", "green", "red"), 12)
    line = ("crossval", folder, "--folds", FOLDS, *TINY, "--out", tmp_path / "out", "--dry_run")
    said = vit(*line).out
    assert "stratified, seed 0" in said and "cop" not in said.partition("folds")[2].splitlines()[0]
    for index in (0, 3, 5):
        shutil.copyfile(folder / "blue" / f"{index:02d}.png", folder / "blue" / f"copy{index}.png")
    answer = vit(*line).ok("6 images in 3 bursts of near-duplicates are kept together")
    assert "3, stratified, 3 groups of several images kept whole, seed 0" in answer.out


@pytest.mark.parametrize(("told", "shown"), [("disabled", "off"), ("offline", "offline"), (None, "online")])
def test_folds_are_tracked_as_the_mode_of_wandb_says(vit, colors, monkeypatch, told, shown):
    """Numbers of every fold were sent to the server where WANDB_MODE was disabled."""
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if told is not None:
        monkeypatch.setenv("WANDB_MODE", told)
    answer = vit("crossval", colors, "--folds", 2, "--network", "resnet10_small", "--image_size", 8, "--dry_run")
    lines = [line.split()[1].rstrip(":") for line in answer.out.splitlines() if "W&B" in line]
    assert answer.code == 0 and (lines or ["off"]) == [shown], answer
