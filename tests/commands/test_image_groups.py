"""Images that belong together, from the command line: every interval counts their groups"""

import json
import re

import numpy as np
import pytest

from tests.runs import run_folder, trained
from tests.tables import rows
from vit.checkpoints.load import load
from vit.checkpoints.result import RunResult
from vit.inference.scores.intervals import Metric

PATTERN = r"(\d\d)\.png"  # image 07 of each class is one group
QUICK = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--data.groups", PATTERN, "--data.test", 0.3,
    "--wandb", "off",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory, draw_classes):
    return draw_classes(tmp_path_factory.mktemp("data") / "colors", ("blue", "green", "red"), 40, side=8)


@pytest.mark.faults("D32")
def test_training_evaluation_and_comparison_count_groups(vit, data, tmp_path):
    runs = []
    for seed in (0, 1):
        told = vit("train", data, *QUICK, "--optim.steps", 3, "--seed", seed, "--out", tmp_path / f"{seed}").ok()
        runs.append(run_folder(tmp_path / f"{seed}"))
    result = RunResult.read(runs[0] / "result.json")
    assert result.num_images["test"] == 36 and result.test_groups == 12
    assert "36 images of 12 groups, 95 % interval" in told.out
    assert vit("report", runs[0]).code == 0
    assert "of 36 test images of 12 groups are predicted right" in (runs[0] / "report.html").read_text()

    vit("evaluate", runs[0], "--output", tmp_path / "measured").ok("36 images of 12 groups; 95 % intervals")
    found = json.loads((tmp_path / "measured" / "metrics.json").read_text())
    assert found["groups"] == 12 and found["metrics"]["acc1"] == pytest.approx(result.metrics["acc1"])
    assert "of 36 images of 12 groups are predicted right" in (tmp_path / "measured" / "report.html").read_text()

    kept = load(runs[0] / "checkpoints" / "best.ckpt")[1].validation_scores
    assert kept.groups is not None and len(np.unique(kept.groups)) < len(kept)
    told = vit("predict", runs[0], data, "--recursive", "--target_accuracy", 0.9, "--output", tmp_path / "p.csv")
    assert told.code == 2 and f"of {len(np.unique(kept.groups))} groups no threshold" in told.err
    assert "at least 29 of the groups would have to be right, without an error" in told.err

    probe = ("--init_from", runs[0], "--freeze", "backbone", "--out", tmp_path / "probe")
    assert vit("train", data, *QUICK, *probe).code == 0
    probed = run_folder(tmp_path / "probe")
    assert RunResult.read(probed / "result.json").test_groups == 12
    assert load(probed / "checkpoints" / "best.ckpt")[1].validation_scores.groups is not None

    export = ("--format", "safetensors", "--output", tmp_path / "x.safetensors", "--card", tmp_path / "card.md")
    assert vit("export", runs[0], *export).code == 0
    assert (
        "On 36 test images of 12 groups that were not trained on, with 95 % intervals over groups"
        in (tmp_path / "card.md").read_text()
    )

    vit("compare", *runs, "--page", tmp_path / "compared.html").ok("36 test images of 12 groups of colors")
    assert "36 test images of 12 groups that all runs share" in (tmp_path / "compared.html").read_text()


@pytest.mark.faults("D32")
def test_other_images_have_the_groups_of_the_run_or_those_that_are_given(vit, data, draw_classes, tmp_path):
    run = trained(tmp_path / "run", data, *QUICK, "--optim.steps", 3)
    other = draw_classes(tmp_path / "other", ("blue", "green", "red"), 10, side=9)
    told = vit("evaluate", run, other, "--output", tmp_path / "of_the_run").ok("30 images of 10 groups; 95 % intervals")
    assert re.search(r"the training images of the run and other share \d groups? \(0\d", told.err)
    told = vit("evaluate", run, other, "--groups", "(blue|green|red)", "--output", tmp_path / "given")
    assert told.code == 0 and "30 images of 3 groups; 95 % intervals" in told.out and "share" not in told.err
    predicted = rows(tmp_path / "given" / "predictions.csv")
    right = np.array([row["label"] == row["predicted"] for row in predicted if row["label"] == "blue"])
    recall = Metric.share(right, np.zeros(10, dtype=np.int64))  # of one group
    interval = f"{100 * recall.low:.2f} to {100 * recall.high:.2f}"
    page = (tmp_path / "given" / "report.html").read_text()
    assert recall.high - recall.low > 0.7 and interval in page and "more groups of measured images" in page

    next(other.glob("blue/*.png")).rename(other / "blue" / "first.png")
    told = vit("evaluate", run, other, "--output", tmp_path / "without").ok("30 images; 95 % intervals")
    problem = f"{PATTERN!r} finds no group in 1 of 30 paths"
    assert f"data.groups {problem}" in told.err and "--groups gives others" in told.err
    told = vit("evaluate", run, other, "--groups", PATTERN, "--output", tmp_path / "none")
    assert told.code == 3 and f"--groups {problem}" in told.err and not (tmp_path / "none").exists()
    vit("evaluate", run, "--groups", PATTERN).failed(2, "--groups is for DATA")
    vit("evaluate", run, "--include_seen").failed(2, "--include_seen is for DATA")


@pytest.mark.faults("D32")
@pytest.mark.slow
def test_pages_of_several_labels_count_groups(vit, data, tmp_path):
    files = sorted(data.rglob("*.png"))
    rows_of_table = [f"{file},{file.parent.name != 'blue':d},{number % 2}" for number, file in enumerate(files)]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(["path,warm,odd", *rows_of_table]))
    run = trained(tmp_path / "run", table, *QUICK, "--optim.steps", 3)
    result = RunResult.read(run / "result.json")
    assert result.num_images["test"] == 36 and result.test_groups == 12
    exact = result.metrics["exact_match"]
    assert vit("report", run).code == 0
    page = (run / "report.html").read_text()
    assert "of 36 test images of 12 groups:" in page
    assert f"95 % interval {100 * exact['low']:.2f} to {100 * exact['high']:.2f}" in page
    ap = next(row["ap"] for row in json.loads((run / "test_classes.json").read_text())["per_label"])
    assert f"{100 * ap['low']:.2f} to {100 * ap['high']:.2f}" in page
    assert vit("evaluate", run, "--output", tmp_path / "measured").code == 0
    measured = json.loads((tmp_path / "measured" / "metrics.json").read_text())
    assert measured["metrics"]["exact_match"] == pytest.approx(exact) and measured["per_label"][0]["ap"] == ap
    assert "of 36 images of 12 groups:" in (tmp_path / "measured" / "report.html").read_text()

    tested = [row.split(",") for row in (run / "splits.csv").read_text().splitlines()]
    unknown = sorted({group for *_, split, _, group, _ in tested if split == "test"})[:6]
    for file in (run / "splits.csv", run / "predictions" / "test.csv"):
        rows = [row.split(",") for row in file.read_text().splitlines()]
        for row in rows[1:]:
            row[1] = "?odd|?warm" if row[0][-6:-4] in unknown else row[1]
        file.write_text("\n".join([*map(",".join, rows), ""]))
    lines = [line if line.split(",")[0][-6:-4] not in unknown else f"{line.split(',')[0]},," for line in rows_of_table]
    table.write_text("\n".join(["path,warm,odd", *lines]))
    assert vit("report", run).code == 0  # judged are the images with a known label, and so are their groups
    assert "of 18 test images of 6 groups:" in (run / "report.html").read_text()
    vit("evaluate", run, "--output", tmp_path / "judged").ok("36 images of 12 groups")
    assert "of 18 images of 6 groups:" in (tmp_path / "judged" / "report.html").read_text()


@pytest.mark.faults("D32")
@pytest.mark.usefixtures("cells_here")
@pytest.mark.slow
def test_a_study_counts_groups(vit, data, tmp_path):
    line = ("study", data, "--networks", "vit_nano_patch2_8", "--sizes", "all", "--seeds", 2, "--budget", "steps:3")
    line += (
        "--vary", "optim.lr=0.001,0.002", "--data.groups", PATTERN, "--data.test", 0.3,
        "--set", "model.preprocess.image_size=8", "--set", "model.network.depth=1", "--jobs", 1,
    )  # fmt: skip
    told = vit(*line, "--wandb", "off", "--out", tmp_path, "--name", "one").ok()
    assert "Test error in % on 36 test images of 12 groups" in told.out
    page = (tmp_path / "one" / "report.html").read_text()
    assert "36 test images of 12 groups" in page and "Test images of one group count together" in page
    assert "wice the groups of test images" in page and "wice the test images" not in page
    assert json.loads((tmp_path / "one" / "summary.json").read_text())["protocol"]["test_groups"] == 12
    runs = sorted(path.parent for path in (tmp_path / "one" / "cells").rglob("result.json"))
    told = vit("compare", *runs, "--page", tmp_path / "compared.html")
    assert told.code == 0 and "2x groups" in told.out and "2x test images" not in told.out
    assert "More groups of test images or more seeds" in (tmp_path / "compared.html").read_text()


@pytest.mark.faults("R14")
@pytest.mark.slow
def test_a_study_is_not_continued_where_its_images_get_groups(vit, data, tmp_path):
    """The splits of a table stay as they are, so nothing else would tell that intervals are to count groups."""
    images = sorted(data.rglob("*.png"))
    splits = ["train" if int(path.stem) < 20 else "validation" if int(path.stem) < 30 else "test" for path in images]
    table = tmp_path / "photos.csv"

    def write(*more):
        lines = zip(images, splits, *more, strict=True)
        words = [f"{path},{path.parent.name},{split}{''.join(f',{one}' for one in own)}" for path, split, *own in lines]
        table.write_text("\n".join(["path,label,split" + ",group" * len(more), *words]) + "\n")

    def study(*options):
        line = ("study", table, "--networks", "vit_nano_patch2_8", "--sizes", "all", "--seeds", 1, "--jobs", 1)
        line += ("--budget", "steps:1", "--set", "model.preprocess.image_size=8", "--wandb", "off", "--out", tmp_path)
        return vit(*line, *options)

    write()
    assert study().code == 0
    told = study("--dry_run")
    assert told.code == 0 and "1 of 1 cells are done already" in told.out
    write([f"p{int(path.stem) // 2}" for path in images])
    told = study()
    assert told.code == 2 and "holds another study, of other options, images, groups or weights" in told.err
    assert study("--name", "grouped", "--dry_run").code == 0
    other = trained(tmp_path / "runs", table, "--network", "vit_nano_patch2_8", "--optim.steps", 1, "--wandb", "off")
    cell = next((tmp_path / "photos" / "cells").rglob("result.json")).parent
    vit("compare", cell, other).failed(3, "list different groups of the same test images")


def test_series_have_the_same_groups(vit, data, tmp_path):
    images = sorted(data.rglob("*.png"))
    rows = [f"{path},{path.parent.name},{('train', 'validation', 'test')[int(path.stem) % 3]}" for path in images]
    (tmp_path / "photos.csv").write_text("\n".join(["path,label,split", *rows]) + "\n")
    line = ("study", tmp_path / "photos.csv", "--networks", "vit_nano_patch2_8", "--sizes", "all", "--seeds", 1)
    told = vit(*line, "--vary", r"data.groups=(\d)\d.png,(\d\d).png", "--out", tmp_path / "out")
    assert told.code == 2 and "different groups of the test images" in told.err, told.err


@pytest.mark.faults("D32")
@pytest.mark.slow
def test_groups_that_are_left_out_are_no_reason_for_a_warning(vit, data, tmp_path):
    """The run's test images are of groups that no other image is of. With --include_seen the others are scored too."""
    run = trained(tmp_path / "run", data, *QUICK, "--optim.steps", 3)
    told = vit("evaluate", run, data, "--output", tmp_path / "a")
    assert told.code == 0 and "36 of 120 images are measured" in told.err and "share" not in told.err
    told = vit("evaluate", run, data, "--include_seen", "--output", tmp_path / "b")
    assert told.code == 0 and "the training images of the run and colors share" in told.err


@pytest.mark.faults("D37")
def test_groups_that_differ_only_in_case_are_told_before_the_first_step(vit, data, here):
    lines = [f"{data}/{name}/{n:02}.png,{name},{'p' if name == 'red' else 'P'}{n}" for name in ("red", "blue")
             for n in range(40)]  # fmt: skip
    (here / "list.csv").write_text("\n".join(["path,label,patient", *lines]))
    for command in (("train", "list.csv", "--dry_run"), ("data", "check", "list.csv")):
        told = vit(*command)
        assert "WARNING: groups 'P0' and 'p0', and 39 more, differ only in case" in told.out + told.err
