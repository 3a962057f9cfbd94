"""Runs that start from a run, or learn from one, that knows their validation or test images already."""

import json
import shutil
from collections import Counter

import pytest
import yaml

from tests.runs import run_folder
from vit.data.splits.split import read_splits
from vit.study.folder import collect

TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--optim.steps", 1,
    "--batch_size", 8, "--augment", "none", "--data.num_workers", 0, "--wandb", "off",
)  # fmt: skip
TRAIN = ("train", "--data.validation", 0.2, "--data.calibration", 0.1, *TINY)


@pytest.fixture(scope="module")
def first(vit, colors, tmp_path_factory):
    """A run whose split has the seed 1."""
    out = tmp_path_factory.mktemp("first")
    answer = vit(*TRAIN, colors, "--data.split_seed", 1, "--out", out)
    assert answer.code == 0 and "WARNING" not in answer.err, answer.err
    return run_folder(out)


def known(first, run):
    """{(split of the first run, split of the second)}: number of images, by content."""
    before = {row.content_hash: split for split, rows in read_splits(first / "splits.csv").items() for row in rows}
    listed = read_splits(run / "splits.csv")
    return Counter((before[row.content_hash], split) for split, rows in listed.items() for row in rows)


@pytest.mark.faults("M9")
@pytest.mark.parametrize("file", ["", "checkpoints/best.ckpt"])
def test_a_run_that_started_from_its_test_images_says_so(vit, colors, first, tmp_path, file):
    answer = vit(*TRAIN, colors, "--init_from", first / file, "--out", tmp_path, drawn=not file)
    run = run_folder(tmp_path)
    counts = known(first, run)
    tests, validations = counts["train", "test"], counts["train", "validation"]
    fitted = counts["validation", "test"] + counts["calibration", "test"]
    assert answer.code == 0 and min(tests, validations, fitted) > 0
    totals = json.loads((run / "result.json").read_text())["images"]
    (warning,) = (line for line in answer.err.splitlines() if line.startswith("WARNING"))
    assert warning.startswith(f"WARNING: the run {first}, from which this training starts, has trained on ")
    assert f"{validations} of {totals['validation']} validation images and {tests} of {totals['test']} test" in warning
    assert f"was validated or calibrated on {fitted} of {totals['test']} test images" in warning
    assert "keep the same splits (--data.split_seed, validation, test and groups)" in warning
    (kept,) = json.loads((run / "result.json").read_text())["seen_before"]
    assert f"WARNING: {kept}" == warning
    if file:
        return
    assert f"{tests} of {totals['test']} test images" in (run / "report.html").read_text()
    assert vit("export", run, "--format", "hf", "--output", tmp_path / "exported").code == 0
    card = (tmp_path / "exported" / "README.md").read_text()
    assert "had seen validation or test images" in card and "not trained on" not in card and str(first) not in card


def test_the_same_split_needs_no_warning(vit, colors, first, tmp_path):
    answer = vit(*TRAIN, colors, "--data.split_seed", 1, "--init_from", first, "--out", tmp_path)
    assert answer.code == 0 and "WARNING" not in answer.err, answer.err
    assert "seen_before" not in json.loads((run_folder(tmp_path) / "result.json").read_text())


@pytest.mark.faults("M9")
def test_runs_before_the_start_run_count(vit, colors, first, tmp_path, draw_classes):
    """A run on other images does not hide the run that it started from."""
    others = draw_classes(tmp_path / "others", ("black", "white", "yellow"), 8)
    assert vit(*TRAIN, others, "--init_from", first, "--out", tmp_path / "middle").code == 0
    middle = run_folder(tmp_path / "middle")
    answer = vit(*TRAIN, colors, "--init_from", middle, "--dry_run")
    assert answer.code == 0 and f"the run {first}, from which {middle} started, has trained on" in answer.err, answer
    config = yaml.safe_load((middle / "config.yaml").read_text())
    config["model"]["init_from"] = str(middle)  # a circle ends
    (middle / "config.yaml").write_text(yaml.safe_dump(config))
    answer = vit(*TRAIN, colors, "--init_from", middle, "--dry_run")
    assert answer.code == 0 and "WARNING" not in answer.err, answer.err


@pytest.mark.faults("M9")
def test_a_pretraining_has_seen_images_without_their_labels(vit, colors, tmp_path):
    words = ("--method", "diet", "--data.split_seed", 1, "--out", tmp_path)
    assert vit("pretrain", colors, *TINY[:-6], *TINY[-4:], *words).code == 0
    run = run_folder(tmp_path)
    for start in (run, run / "backbone.safetensors"):
        same, other = (
            vit("train", colors, *TINY, "--init_from", start, "--data.split_seed", seed, "--dry_run") for seed in (1, 0)
        )
        assert same.code == 0 and "without their labels" not in same.err, same.err
        assert other.code == 0 and "has learned from" in other.err, other.err
        assert "test images without their labels" in other.err and "may be too good" in other.err
        assert "has trained on" not in other.err


@pytest.mark.faults("M9")
@pytest.mark.usefixtures("cells_here")
@pytest.mark.slow
def test_studies_probes_and_cross_validations_warn(vit, colors, first, tmp_path):
    said = f"WARNING: the run {first}, from which this training starts, has trained on"
    out = ("--out", tmp_path)
    line = f"vit_nano_patch2_8 --model.network.depth=1 --image_size=8 --model.init_from={first}"
    answer = vit("study", colors, "--networks", line, "--sizes", "all", "--seeds", 2, "--budget", "steps:1", *out,
                 "--wandb", "off", "--dry_run")  # fmt: skip
    assert answer.code == 0 and answer.err.count(said) == 1, answer
    answer = vit("probe", colors, "--backbones", first, "--seeds", 1, "--jobs", 1, *out).noted(said)
    results = list(tmp_path.glob("colors_probe/cells/**/result.json"))
    assert results and all("seen_before" in json.loads(file.read_text()) for file in results)
    (kept,) = collect(tmp_path / "colors_probe")[1]["seen_before"]
    assert f"WARNING: {kept}" in answer.err
    answer = vit("crossval", colors, "--folds", 2, *TINY, "--init_from", first, "--jobs", 1, *out)
    assert answer.code == 0 and f"{said} " in answer.err and " of 42 test images" in answer.err, answer
    assert "split_seed" not in answer.err and "start from weights that have not learned these images" in answer.err


@pytest.mark.faults("M9")
@pytest.mark.parametrize("option", ["--init_from", pytest.param("--teacher", marks=pytest.mark.slow)])
def test_an_evaluation_leaves_out_the_images_of_earlier_runs(vit, colors, first, tmp_path, draw_classes, option):
    others = draw_classes(tmp_path / "others", ("blue", "green", "red"), 8, side=9)
    if option == "--teacher":  # a teacher that itself started from the run that knows the images
        assert vit(*TRAIN, others, "--init_from", first, "--out", tmp_path / "middle").code == 0
        first_of_second = run_folder(tmp_path / "middle")
    else:
        first_of_second = first
    assert vit(*TRAIN, others, option, first_of_second, "--out", tmp_path / "second").code == 0
    answer = vit("evaluate", run_folder(tmp_path / "second"), colors, "--output", tmp_path / "found").ok()
    known = {split: len(rows) for split, rows in read_splits(first / "splits.csv").items()}
    left_out = json.loads((tmp_path / "found" / "metrics.json").read_text())["left_out"]
    for split in ("train", "validation", "calibration"):
        assert left_out[f"{split}_images_of_the_run"] == known[split]
    assert f"{known['train']} images that the run, or one that it learned from, trained on" in answer.err
    assert f"{known['test']} of {sum(known.values())} images are measured" in answer.err
    assert "not left out" not in answer.err
    first_of_second.rename(tmp_path / "gone")
    answer = vit("evaluate", run_folder(tmp_path / "second"), colors, "--output", tmp_path / "again").ok()
    (tmp_path / "gone").rename(first_of_second)
    answer.noted(f"images learned by runs that are missing are not left out: {first_of_second}")


@pytest.mark.faults("D36")
def test_copies_across_splits_are_told_wherever_their_accuracy_is(vit, draw_classes, tmp_path):
    data = draw_classes(tmp_path / "images", ("blue", "green", "red"), 12)
    for file in list(data.glob("*/0*.png")):
        shutil.copyfile(file, file.with_name(f"copy of {file.name}"))
    divided = ("--data.bursts", "split")  # else no split divides copies
    answer = vit(*TRAIN, data, *divided, "--out", tmp_path / "runs", drawn=True)
    run = run_folder(tmp_path / "runs")
    listed = {split: [row.content_hash for row in rows] for split, rows in read_splits(run / "splits.csv").items()}
    others = {one for split in ("train", "validation", "calibration") for one in listed[split]}
    copies = sum(one in others for one in listed["test"])
    assert answer.code == 0 and copies > 0
    said = f"{copies} of {len(listed['test'])} test images"
    (warning,) = (line for line in answer.err.splitlines() if line.startswith("WARNING"))
    assert warning.startswith(f"WARNING: {said}") and "copies of images in other splits" in warning
    page = (run / "report.html").read_text()
    assert f"Warning: {said}" in page.partition('<div class="verdict">')[2].partition("</div>")[0]
    assert f"Warning: {said}" in page.partition('<pre id="summary"')[2].partition("</pre>")[0]
    vit("evaluate", run, "--output", tmp_path / "again").noted(warning)
    assert said in json.loads((tmp_path / "again" / "metrics.json").read_text())["warning"]
    study = ("study", data, "--networks", f"vit_nano_patch2_8 {' '.join(map(str, TINY[2:-2]))}", "--sizes", "all",
             "--seeds", 1, "--budget", "recipe", "--wandb", "off", "--dry_run", "--out", tmp_path)  # fmt: skip
    assert "copies of images in other splits" in vit(*study, *divided).err


@pytest.mark.faults("M9")
def test_an_evaluation_of_a_run_repeats_what_its_start_knew(vit, colors, first, tmp_path):
    assert vit(*TRAIN, colors, "--init_from", first, "--out", tmp_path / "runs").code == 0
    run = run_folder(tmp_path / "runs")
    (sentence,) = json.loads((run / "result.json").read_text())["seen_before"]
    vit("evaluate", run, "--output", tmp_path / "found").noted(f"WARNING: {sentence}")
    assert json.loads((tmp_path / "found" / "metrics.json").read_text())["warning"] == sentence
