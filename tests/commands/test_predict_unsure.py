"""`vit predict` where the network is not sure: thresholds, and sets of labels."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import vit as python
from tests.tables import rows
from vit.checkpoints.format import KEY
from vit.checkpoints.validation_scores import ValidationScores
from vit.errors import UsageError
from vit.inference.answers.answers import answer_rule

NUM_IMAGES = 60
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module")
def digit_files(tmp_path_factory):
    """Files of digits; their labels."""
    folder = tmp_path_factory.mktemp("digit_files")
    digits = load_digits()
    for number in range(NUM_IMAGES):
        Image.fromarray((digits.images[number] * 15.9375).astype(np.uint8)).save(folder / f"{number:03d}.png")
    return folder, digits.target[:NUM_IMAGES].astype(str).tolist()


def changed_checkpoint(run, path, change):
    """A copy of a run's checkpoint with another description."""
    content = torch.load(run.best, weights_only=True)
    change(content[KEY])
    torch.save(content, path)
    return path


def test_images_below_the_threshold_have_no_label(vit, digits_run, digit_files, here):
    folder, _ = digit_files
    assert vit("predict", digits_run.path, folder, "--output", "all.csv").code == 0
    every = rows(here / "all.csv")
    falling = sorted(float(row["probability"]) for row in every)
    middle = (falling[NUM_IMAGES // 2 - 1] + falling[NUM_IMAGES // 2]) / 2
    answer = vit("predict", digits_run.path, folder, "--reject_below", middle, "--output", "sure.csv", "--gallery").ok()
    for before, after in zip(every, rows(here / "sure.csv"), strict=True):
        is_sure = float(before["probability"]) >= middle
        assert after["status"] == ("ok" if is_sure else "unsure")
        assert after["label"] == (before["label"] if is_sure else "")
        assert after["probability"] == before["probability"]
        assert is_sure or before["label"] in after["error"]
    assert f"unsure: {NUM_IMAGES // 2} of {NUM_IMAGES}" in answer.out
    page = (here / "sure.html").read_text()
    assert f"{NUM_IMAGES // 2} unsure" in page and page.count("<b>unsure</b>") == NUM_IMAGES // 2


def test_unsure_images_are_not_failures(vit, digits_run, digit_files, here):
    folder, _ = digit_files
    answer = vit("predict", digits_run.path, folder / "000.png", "--reject_below", 0.999999, "--on_bad", "fail")
    assert answer.code == 0 and "unsure: 1 of 1" in answer.out


def test_a_target_accuracy_keeps_the_images_that_validation_images_promise(vit, digits_run, digit_files, here):
    """The threshold is computed here from the run's own table of validation images."""
    from vit.inference.answers.selective import threshold_for

    folder, _ = digit_files
    table = rows(digits_run.path / "predictions" / "validation.csv")
    highest = np.array([float(row["probability"]) for row in table])
    correct = np.array([row["label"] == row["predicted"] for row in table])
    target = correct[highest >= np.quantile(highest, 0.6)].mean() - 0.15
    expected = threshold_for(target, highest, correct)
    answer = vit("predict", digits_run.path, folder, "--target_accuracy", f"{target:.6f}", "--output", "rows.jsonl")
    assert answer.code == 0, answer.err
    assert f"labels from a probability of {expected:.4f}" in answer.err
    for line in (here / "rows.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert (row["status"] == "ok") == (row["probability"] >= expected - 1e-6)


@pytest.mark.parametrize("method", ["lac", pytest.param("aps", marks=pytest.mark.slow), "class_conditional"])
def test_sets_of_labels_in_every_format(vit, digits_run, digit_files, here, method):
    folder, labels = digit_files
    found = {}
    for ending in ("csv", "jsonl", "parquet"):
        words = ("--coverage", 0.7, "--sets", method, "--output", f"rows.{ending}")
        assert vit("predict", digits_run.path, folder, *words).code == 0
    found["csv"] = [row["labels"].split("|") for row in rows(here / "rows.csv")]
    found["jsonl"] = [json.loads(line)["labels"] for line in (here / "rows.jsonl").read_text().splitlines()]
    found["parquet"] = pq.read_table(here / "rows.parquet")["labels"].to_pylist()
    assert found["csv"] == found["jsonl"] == found["parquet"]
    assert all(row["label"] == chosen[0] for row, chosen in zip(rows(here / "rows.csv"), found["csv"], strict=True))
    hits = sum(label in chosen for label, chosen in zip(labels, found["csv"], strict=True))
    assert hits >= 0.5 * NUM_IMAGES  # 70 % are promised on average over validation images


def test_the_set_of_an_image_does_not_depend_on_the_others(digits_run, digit_files):
    from vit.inference.answers.answers import answer_rule

    folder, _ = digit_files
    model = python.load(digits_run.path)
    model.rule = answer_rule(model.validation_scores, model.class_names, coverage=0.8, sets="aps")
    together = {one.path: one.labels for one in model.predict(folder)}
    files = sorted(together)[::7]
    assert [one.labels for one in model.predict(files, batch_size=2)] == [together[path] for path in files]


@pytest.mark.faults("A1")
@pytest.mark.parametrize("option", ["--target_accuracy", "--coverage"])
def test_without_validation_images_there_is_no_rule(vit, digits_run, digit_files, here, option):
    path = changed_checkpoint(digits_run, here / "bare.ckpt", lambda plain: plain.pop("validation_scores"))
    vit("predict", path, digit_files[0], option, 0.9).failed(2, option, "validation images")
    assert vit("predict", path, digit_files[0], "--reject_below", 0.5).code == 0


@pytest.mark.faults("A2")
@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["--target_accuracy", "0.9999"], "more validation images"),
        (["--coverage", "0.9999"], "9,999 validation images"),
        (["--coverage", "0.99", "--sets", "class_conditional"], "99 validation images of each class"),
        (["--target_accuracy", "1.2"], ">0 and <1"),
        (["--reject_below", "50"], ">0 and <1"),
        (["--coverage", "0"], ">0 and <1"),
        (["--reject_below", "0.5", "--target_accuracy", "0.9"], "give one"),
        (["--sets", "aps"], "--coverage 0.9"),
        (["--coverage", "0.9", "--sets", "las"], "lac"),
    ],
)
def test_what_cannot_be_promised(vit, digits_run, digit_files, here, words, fix):
    vit("predict", digits_run.path, digit_files[0], *words).failed(2, fix)
    assert not list(here.iterdir())


@pytest.mark.faults("A3")
@pytest.mark.parametrize("damage", [{"own": "AAAA"}, {"labels": "!"}, {"highest": 7}, "text"])
def test_damaged_scores_in_a_checkpoint_are_refused(vit, digits_run, digit_files, here, damage):
    def change(plain):
        plain["validation_scores"] = damage if isinstance(damage, str) else {**plain["validation_scores"], **damage}

    path = changed_checkpoint(digits_run, here / "damaged.ckpt", change)
    vit("predict", path, digit_files[0]).failed(4, "damaged.ckpt")


@pytest.mark.faults("A4")
def test_a_class_name_that_would_read_as_two(vit, digits_run, digit_files, here):
    def rename(plain):
        plain["classes"] = ["a|b", *plain["classes"][1:]]

    path = changed_checkpoint(digits_run, here / "renamed.ckpt", rename)
    vit("predict", path, digit_files[0], "--coverage", 0.7).failed(2, "'a|b'", ".jsonl")
    assert vit("predict", path, digit_files[0], "--coverage", 0.7, "--output", "rows.jsonl").code == 0


def test_evaluate_measures_thresholds_and_sets_on_the_test_images(vit, digits_run, here):
    answer = vit("evaluate", digits_run.path, "--output", "measured").ok()
    answers = json.loads((here / "measured" / "metrics.json").read_text())["answers"]
    assert {row["method"] for row in answers["sets"]} == {"lac", "aps", "class_conditional"}
    assert all(row["threshold"] is None for row in answers["thresholds"]), "about half of the answers are right"
    assert "no --target_accuracy of 0.9 or more can be guaranteed: the network errs too often" in answer.out
    assert "--coverage" in answer.out
    # lac at 90 % by hand, from the two tables of the run
    validation = rows(digits_run.path / "predictions" / "validation.csv")
    own = np.sort(np.exp([-float(row["loss"]) for row in validation]))
    limit = own[int(np.floor((len(own) + 1) * 0.1)) - 1]
    test = rows(digits_run.path / "predictions" / "test.csv")
    hits = [np.exp(-float(row["loss"])) >= limit - 1e-6 or row["label"] == row["predicted"] for row in test]
    (lac,) = [row for row in answers["sets"] if row["method"] == "lac" and row["coverage"] == 0.9]
    assert lac["measured"]["value"] == pytest.approx(np.mean(hits), abs=0.006)
    stored = json.loads((digits_run.path / "result.json").read_text())["answers"]
    assert stored["thresholds"] == answers["thresholds"]


def test_validation_images_are_not_measured_with_what_was_fitted_to_them(vit, digits_run, here):
    assert vit("evaluate", digits_run.path, "--split", "validation", "--output", "measured").code == 0
    assert "answers" not in json.loads((here / "measured" / "metrics.json").read_text())


def test_the_page_of_a_run_has_the_curve_and_the_tables(digits_run, here):
    page = (digits_run.path / "report.html").read_text()
    for words in ("When it is not sure", "--target_accuracy", "area under the curve", "by class"):
        assert words in page


def test_a_refused_target_says_whether_images_or_right_answers_are_missing():
    generator = np.random.default_rng(0)
    for count, words in (
        (100, "at least 299 of them would have to be right, without an error"),
        (400, "errs too often"),
    ):
        labels = generator.integers(0, 2, count)
        predicted = np.where(np.arange(count) % 20, labels, 1 - labels)  # 95 % are right
        probabilities = np.where(predicted[:, None] == np.arange(2), 0.9, 0.1).astype(np.float32)
        scores = ValidationScores.of(labels, probabilities, None, "validation")
        with pytest.raises(UsageError, match=words):
            answer_rule(scores, ("a", "b"), target_accuracy=0.99)


@pytest.mark.slow
def test_an_image_without_a_sure_class_has_the_sure_group_as_answer(vit, digits_run, digit_files, here):
    """Classes of digits with and without a loop, in all formats, and of an ensemble."""
    names = [f"{'loop' if digit in '0689' else 'open'}/{digit}" for digit in "0123456789"]

    def renamed(plain):
        plain["classes"] = names

    path = changed_checkpoint(digits_run, here / "paths.ckpt", renamed)
    folder, labels = digit_files
    answer = vit("predict", path, folder, "--reject_below", 0.9, "--probabilities", "--output", "rows.csv")
    assert answer.code == 0 and "have a group of classes as answer" in answer.out
    found, groups = rows(here / "rows.csv"), set()
    for row in found:
        sums = {
            group: sum(float(row[f"p_{name}"]) for name in names if name.startswith(group))
            for group in ("loop", "open")
        }
        best = max(sums, key=lambda group: sums[group])
        expected = row["label"] or (best if sums[best] >= 0.9 else "")
        assert row["answer"] == expected and (row["status"] == "ok") == bool(row["label"])
        groups.add(expected)
    assert {"loop", "open"} & groups
    for words in (("--output", "rows.jsonl"), ("--output", "rows.parquet")):
        assert vit("predict", path, folder, "--reject_below", 0.9, *words).code == 0
    lines = [json.loads(line) for line in (here / "rows.jsonl").read_text().splitlines()]
    assert [line.get("answer", "") for line in lines] == [row["answer"] for row in found]
    assert [one or "" for one in pq.read_table(here / "rows.parquet")["answer"].to_pylist()] == [
        row["answer"] for row in found
    ]
    content = torch.load(path, weights_only=True)
    state = content["state_dict"]
    state[next(name for name in state if name.endswith("head.bias"))] += 1e-6  # a model given twice is refused
    torch.save(content, here / "again.ckpt")
    assert vit("predict", path, here / "again.ckpt", folder, "--reject_below", 0.9, "--output", "both.csv").code == 0
    assert [row["answer"] for row in rows(here / "both.csv")] == [row["answer"] for row in found]
    assert vit("predict", path, folder, "--output", "plain.csv").code == 0
    assert "answer" not in rows(here / "plain.csv")[0]

    table = "path,label\n" + "".join(f"{folder}/{n:03d}.png,{names[int(one)]}\n" for n, one in enumerate(labels))
    (here / "digits.csv").write_text(table)
    vit("evaluate", path, "digits.csv", "--output", "measured").ok("accuracy by level")
    (level,) = json.loads((here / "measured" / "metrics.json").read_text())["levels"]
    assert level["num_groups"] == 2 and level["accuracy"]["value"] > 0.5
    page = (here / "measured" / "report.html").read_text()
    assert f"{100 * level['accuracy']['value']:.2f}" in page and "groups such as open (2)" in page
