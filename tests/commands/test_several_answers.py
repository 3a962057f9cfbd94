"""Commands on a model that gives an image several labels: rows, metrics, pages, maps, and what is refused."""

import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest

import vit as python
from tests.report.pages import Page
from tests.tables import rows
from vit.checkpoints.io import store_calibration
from vit.checkpoints.label_rules import NEVER
from vit.errors import UsageError
from vit.inference.answers.answers import AnswerRule
from vit.inference.scores.scored_images import read_scored_labels

NAMES = ("bright", "left", "top")
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module")
def thresholds(labels_run):
    return dict(zip(NAMES, python.load(labels_run.path).multilabel.thresholds.tolist(), strict=True))


def test_rows_have_the_labels_above_their_thresholds_and_no_single_label(vit, labels_run, labels_csv, thresholds, here):
    answer = vit("predict", labels_run.path, labels_csv.parent, "--probabilities", "--gallery", "--output", "a.csv")
    assert answer.code == 0, answer.err
    table = [row for row in rows(here / "a.csv") if row["status"] == "ok"]
    assert "label" not in table[0] and "probability" not in table[0] and len(table) == 90
    for row in table:
        has = {name: float(row[f"p_{name}"]) for name in NAMES if float(row[f"p_{name}"]) >= thresholds[name]}
        falling = sorted(has, key=lambda name: -has[name])
        assert row["labels"] == "|".join(falling)
        assert row["probabilities"] == "|".join(f"{has[name]:.6f}" for name in falling)
    assert any("|" in row["labels"] for row in table)
    assert abs(sum(float(table[0][f"p_{name}"]) for name in NAMES) - 1) > 0.01
    html = (here / "a.html").read_text()
    assert " | " in html
    nearest = {row["path"]: min(abs(float(row[f"p_{name}"]) - thresholds[name]) for name in NAMES) for row in table}
    shown = [path for path in re.findall(r'<figure title="([^"]+)"', html) if path in nearest]
    assert len(shown) == 90
    assert [nearest[path] for path in shown] == pytest.approx(sorted(nearest.values()), abs=2e-6)
    assert "Next: vit evaluate" in answer.out and "LABELS.csv" in answer.out


def test_top_has_every_label_of_an_image(labels_run, labels_csv):
    """A program that looked up probabilities of the labels met a KeyError where an image had more than `top_k`."""
    model = python.load(labels_run.path)
    model.multilabel.thresholds[:] = model.multilabel.thresholds.min()  # so that images have several labels
    found = list(model.predict(labels_csv.parent / "*.png", top_k=1))
    assert any(len(row.labels) > 1 for row in found)
    for row, whole in zip(found, model.predict(labels_csv.parent / "*.png", top_k=3), strict=True):
        assert set(row.labels) <= dict(row.top).keys() and row.labels == whole.labels
        assert row.top == tuple(pair for place, pair in enumerate(whole.top) if place < 1 or pair[0] in row.labels)


def test_other_files_hold_the_same_labels(vit, labels_run, labels_csv, here):
    import pyarrow.parquet as pq

    image = labels_csv.parent / "00.png"
    for ending in ("csv", "jsonl", "parquet"):
        assert vit("predict", labels_run.path, image, "--output", f"a.{ending}").code == 0
    (row,) = rows(here / "a.csv")
    (plain,) = [json.loads(line) for line in (here / "a.jsonl").read_text().splitlines()]
    (typed,) = pq.read_table(here / "a.parquet").to_pylist()
    assert plain["labels"] == typed["labels"] == [name for name in row["labels"].split("|") if name]
    assert plain["label"] == "" and plain["probability"] is None and len(plain["top"]) == 3
    assert typed["probabilities"] == pytest.approx([dict_of(plain)[name] for name in typed["labels"]])
    assert list(typed) == ["path", "status", "labels", "probabilities", "novelty", "error", "engine"]


def dict_of(plain):
    return {entry["label"]: entry["probability"] for entry in plain["top"]}


def test_evaluate_measures_what_the_training_measured(vit, labels_run, here):
    answer = vit("evaluate", labels_run.path, "--output", "measured").ok()
    found = json.loads((here / "measured" / "metrics.json").read_text())
    trained = json.loads((labels_run.path / "result.json").read_text())
    for name, metric in found["metrics"].items():
        assert metric == pytest.approx(trained["metrics"][name], abs=1e-5)
    assert [row["label"] for row in found["per_label"]] == list(NAMES)
    for row in found["per_label"]:
        assert row["ap"]["low"] <= row["ap"]["value"] <= row["ap"]["high"]
    count = found["images"]
    own = read_scored_labels(here / "measured" / "predictions.csv", NAMES, count)
    assert own.paths == read_scored_labels(labels_run.path / "predictions" / "test.csv", NAMES, count).paths
    assert "mAP" in answer.out and "accuracy" not in answer.out
    assert (here / "measured" / "precision_recall.png").is_file()


def test_labels_of_other_data_are_matched_by_name(vit, labels_run, labels_csv, here):
    lines = ["path,top,left", *(f"{labels_csv.parent / f'{n:02}.png'},{n % 2},{n % 3 == 0:d}" for n in range(12))]
    (here / "other.csv").write_text("\n".join(lines))
    answer = vit("evaluate", labels_run.path, "other.csv", "--include_seen", "--output", "measured").ok()
    assert "other has no labels bright: their predictions are not measured" in answer.err
    found = {row["label"]: row for row in json.loads((here / "measured" / "metrics.json").read_text())["per_label"]}
    assert (found["top"]["positives"], found["left"]["positives"], found["bright"]["images"]) == (6, 4, 0)
    assert "recall" in found["top"] and "recall" not in found["bright"] and "f1" not in found["bright"]
    (here / "unknown.csv").write_text("\n".join([line.replace("path,top", "path,roof") for line in lines]))
    answer = vit("evaluate", labels_run.path, "unknown.csv", "--include_seen")
    assert answer.code == 3 and "has labels that the model does not know: roof" in answer.err
    assert "rename them, or give DATA without these labels" in answer.err


@pytest.mark.faults("D7")
def test_a_label_that_lists_never_name_is_absent_so_that_false_alarms_count(vit, labels_run, labels_csv, here):
    """It was unknown, and exact match was too good. Lists may also be of test images alone, without any label."""
    paths = [labels_csv.parent / f"{n:02}.png" for n in range(12)]
    both = [("top" if n % 2 else "") + ("|left" if n % 6 == 3 else "") for n in range(12)]
    lists = [f"{path},{text},test" for path, text in zip(paths, both, strict=True)]
    (here / "lists.csv").write_text("\n".join(["path,labels,split", *lists]))
    columns = [f"{path},{'top' in text:d},{'left' in text:d},0" for path, text in zip(paths, both, strict=True)]
    (here / "columns.csv").write_text("\n".join(["path,top,left,bright", *columns]))  # no image has the label bright
    (here / "none.csv").write_text("\n".join(["path,labels", *(f"{path}," for path in paths)]))
    found = {}
    for name in ("lists", "columns", "none"):
        answer = vit("evaluate", labels_run.path, f"{name}.csv", "--include_seen", "--output", name).ok()
        found[name] = json.loads((here / name / "metrics.json").read_text())
        assert ("they count as absent from all images" in answer.err) == (name != "columns"), answer.err
        words = (
            "3 of 3 labels: there is no mAP" if name == "none" else "1 of 3 labels: the mAP is the mean of the others"
        )
        assert "no image has it" in answer.out and f"no image has {words}" in answer.out, answer.out
    assert found["lists"]["metrics"] == found["columns"]["metrics"]
    assert found["lists"]["per_label"] == found["columns"]["per_label"]
    bright = next(row for row in found["lists"]["per_label"] if row["label"] == "bright")
    assert (bright["images"], bright["positives"]) == (12, 0) and "ap" not in bright
    assert "map" not in found["none"]["metrics"] and found["none"]["metrics"]["exact_match"]["value"] < 1


def test_a_label_that_no_image_gets_is_said_so(vit, labels_run, labels_csv, here):
    """Its threshold was shown as 2.000."""
    rules = python.load(labels_run.path).multilabel
    shutil.copy(labels_run.path / "checkpoints" / "best.ckpt", here / "two.ckpt")
    store_calibration(here / "two.ckpt", rules=replace(rules, thresholds=np.array([NEVER, 0.25, NEVER])))
    answer = vit("evaluate", "two.ckpt", labels_csv, "--output", "measured").ok()
    assert answer.out.count("never") == 2 and "2.000" not in answer.out and "0.250" in answer.out
    page = Page((here / "measured" / "report.html").read_text())
    assert page.text.count("never") == 3 and "2.000" not in page.html, page.text
    assert 'No image gets a label with the threshold "never"' in page.text
    assert "never" not in Page((labels_run.path / "report.html").read_text()).text
    vit("convert", "two.ckpt", "--output", "a.ckpt").ok("thresholds of 0.250 to 0.250")
    (found,) = json.loads((here / "measured" / "metrics.json").read_text())["per_label"][:1]
    assert found["threshold"] == NEVER  # a number, as in older files


def test_the_page_of_a_run_has_every_label(labels_run):
    assert "could not be drawn" not in labels_run.answer.err, labels_run.answer.err
    html = (labels_run.path / "report.html").read_text()
    for text in ("Mean average precision", "average precision (%)", "validation mAP"):
        assert text in html
    assert all(f'<th class="word">{name}</th>' in html for name in NAMES)
    assert "Confusion" not in html and "top-5" not in html
    figures = {path.stem for path in (labels_run.path / "figures").iterdir()}
    assert {"precision_recall", "average_precision_by_size", "reliability"} <= figures
    assert "confusion_matrix" not in figures


def test_explain_names_all_labels_and_explains_one(vit, labels_run, labels_csv, thresholds, here):
    image = labels_csv.parent / "00.png"
    (found,) = python.load(labels_run.path).predict(str(image))
    options = ("--method", "relevance", "--faithfulness", "false")
    assert vit("explain", labels_run.path, image, *options, "--output", "most").code == 0
    assert vit("explain", labels_run.path, image, *options, "--label", "top", "--output", "one").code == 0
    ((most,), (one,)) = (rows(here / name / "explanations.csv") for name in ("most", "one"))
    assert set(most["label"].split("|")) == set(found.labels or ("",)) and most["label"] == one["label"]
    assert most["explained"] == found.top[0][0] and one["explained"] == "top"
    assert float(one["probability"]) == pytest.approx(dict(found.top)["top"], abs=1e-6)


def test_convert_keeps_the_task_and_the_rules(vit, labels_run, here):
    assert vit("convert", labels_run.best, "--output", "a.ckpt").code == 0
    own, copy = (python.load(path).multilabel for path in (labels_run.best, here / "a.ckpt"))
    assert copy.thresholds.tolist() == own.thresholds.tolist()
    assert copy.temperatures.tolist() == own.temperatures.tolist()


def test_convert_for_another_image_size_keeps_no_rules(vit, labels_run, here):
    answer = vit("convert", labels_run.best, "--output", "a.ckpt", "--image_size", 12).ok()
    assert "temperatures and thresholds of the source are not kept" in answer.out
    assert "thresholds of 0.500 to 0.500" in answer.out
    rules = python.load(here / "a.ckpt").multilabel
    assert rules.thresholds.tolist() == [0.5] * 3 and rules.temperatures.tolist() == [1] * 3


@pytest.mark.faults("A9")
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("predict {run} {image} --reject_below 0.5", "--reject_below"),
        ("predict {run} {image} --target_accuracy 0.9", "--target_accuracy"),
        ("predict {run} {image} --coverage 0.9", "--coverage"),
        ("compare {run} {copy}", "vit compare"),
        ("crossval {data}", "vit crossval"),
        ("data check {data} --labels {run}", "--labels"),
    ],
)
def test_rules_for_one_class_are_refused_for_several_labels(vit, labels_run, labels_csv, here, line, word):
    image, copy = labels_csv.parent / "00.png", here / "another"
    if "{copy}" in line:
        shutil.copytree(labels_run.path, copy)
    vit(*shlex.split(line.format(run=labels_run.path, image=image, data=labels_csv, copy=copy))).failed(2, word)


@pytest.mark.faults("A9")
def test_a_rule_in_python_is_refused_too(labels_run):
    model = python.load(labels_run.path)
    with pytest.raises(UsageError, match="gives an image several labels"):
        model.rule = AnswerRule(reject_below=0.5)


@pytest.mark.faults("D7")
def test_data_of_the_other_kind_are_refused(vit, labels_run, labels_csv, digits_run, colors):
    answer = vit("evaluate", labels_run.path, colors)
    assert (
        answer.code == 3 and "images with one class each, and the model is for images with several labels" in answer.err
    )
    answer = vit("evaluate", digits_run.path, labels_csv)
    assert (
        answer.code == 3 and "images with several labels, and the model is for images with one class each" in answer.err
    )
