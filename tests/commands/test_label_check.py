"""`vit data check --labels`: suspicious labels as a page and as a table that `vit train` reads."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vit.commands.measuring.label_check import can_be_listed
from vit.csv_files import new_table, read_table, records
from vit.data.checks.contents import read_contents
from vit.data.sources.sources import open_source
from vit.data.splits.split import write_splits
from vit.study.fold_table import FoldPredictions

LABELS = ("blue", "<b>red</b>")


@pytest.fixture
def photos(here, draw_classes):
    """A CSV of two classes, one with markup in its name, of which three labels are wrong; and made-up predictions."""
    folder = draw_classes(here / "photos", ("a", "b"), 20)
    truth = {f"photos/{name}/{index:02d}.png": number for number, name in enumerate("ab") for index in range(20)}
    wrong = ["photos/a/03.png", "photos/a/07.png", "photos/b/11.png"]
    given = {path: 1 - label if path in wrong else label for path, label in truth.items()}
    with new_table(here / "photos.csv", ("path", "label", "group")) as rows:
        for path, label in given.items():
            rows.row((path, LABELS[label], f"p{path[-5]}"))
    sure = np.random.default_rng(0).uniform(0.8, 0.99, len(truth))
    sure[list(truth).index("photos/b/11.png")] = 0.999
    probabilities = np.array([[one, 1 - one] if label == 0 else [1 - one, one]
                              for one, label in zip(sure, truth.values(), strict=True)], dtype=np.float32)  # fmt: skip
    paths = tuple(str(here / path) for path in given)
    labels = np.array(list(given.values()))
    predictions = FoldPredictions(LABELS, paths, labels, probabilities, np.arange(40) % 5 + 1, ("",) * 40)
    predictions.write(here / "folds" / "predictions.csv")
    (here / "folds" / "crossval.json").write_text(json.dumps({"cells": []}))
    assert folder.is_dir()
    return here / "photos.csv", wrong


def test_wrong_labels_come_first_and_corrected_lines_win(vit, photos, here):
    data, wrong = photos
    answer = vit("data", "check", data, "--labels", "folds").ok("found in files and classes", "3 of 40 labels are")
    assert "Next: vit train data_check_labels.csv" in answer.out
    header, rows = read_table(here / "data_check_labels.csv")
    assert header == ["path", "label", "suggested", "label_probability", "rank", "group"]
    assert len(rows) == 40
    assert {row[0] for row in rows[:3]} == {str(here / path) for path in wrong}
    assert rows[0][0].endswith("photos/b/11.png")
    assert [row[4] for row in rows[:4]] == ["1", "2", "3", ""]
    rows[0][1] = rows[0][2]
    with new_table(here / "corrected.csv", header) as table:
        for row in rows[:-1]:  # and one image is thrown away
            table.row(row)
    source = open_source("corrected.csv")
    train = source.splits["train"]
    assert len(train) == 39
    assert source.class_names[train.labels[0]] == LABELS[1] == rows[0][2]
    assert train.groups[0] == "p1"
    vit("data", "check", "corrected.csv", "--labels", "folds", "--output", "second.csv").ok()
    first = [row["path"] for row in records(here / "second_labels.csv")[:2]]
    assert set(first) == {str(here / path) for path in wrong[:2]}


def test_suggestions_of_networks_that_may_guess_are_a_warning(vit, photos, here):
    """Half of the labels of two classes were suspicious, though the networks had predicted at random."""
    warning = "WARNING: the networks are not shown to be better than guessing: the balanced accuracy is"
    assert warning not in vit("data", "check", photos[0], "--labels", "folds").out
    sure = FoldPredictions.read(here / "folds" / "predictions.csv")
    turned = np.where((np.arange(40) % 2)[:, None], sure.probabilities, sure.probabilities[:, ::-1])
    replace(sure, probabilities=turned).write(here / "folds" / "predictions.csv")
    answer = vit("data", "check", photos[0], "--labels", "folds", "--output", "guesses.csv")
    assert answer.code == 0 and warning in answer.out, answer.err
    assert warning in " ".join((here / "guesses_labels.html").read_text().split())


def test_a_page_shows_pictures_and_escapes_names(vit, photos, here):
    assert vit("data", "check", photos[0], "--labels", "folds").code == 0
    page = (here / "data_check_labels.html").read_text()
    assert "<b>red</b>" not in page.replace("<b>&lt;b&gt;red&lt;/b&gt;</b>", "")
    assert "&lt;b&gt;red&lt;/b&gt;" in page
    assert page.count('src="data:image/png;base64,') == 3
    assert vit("data", "check", photos[0], "--labels", "folds").code == 0
    assert (here / "data_check_labels-2.html").is_file()
    assert (here / "data_check_labels.html").read_text() == page


def test_images_of_more_than_8_bits_have_pictures(vit, photos, here):
    for file in (here / "photos").rglob("*.png"):
        with Image.open(file) as picture:
            values = np.asarray(picture.convert("L"), dtype=np.uint16) * 10
        Image.fromarray(values).save(file)
    assert vit("data", "check", photos[0], "--labels", "folds").code == 0
    page = (here / "data_check_labels.html").read_text()
    assert page.count('src="data:image/png;base64,') == 3 and "no picture" not in page


def test_a_table_of_web_addresses_can_be_trained_on(tmp_path):
    rows = [f"http://127.0.0.1:9/{number}.png,{'ab'[number % 2]}" for number in range(12)]
    (tmp_path / "far.csv").write_text("\n".join(["path,label", *rows]))
    for data, is_listed in ((tmp_path / "far.csv", True), ("digits", False)):
        assert can_be_listed(open_source(str(data))) == is_listed


@pytest.mark.faults("K16")
def test_predictions_of_something_else_are_refused(vit, photos, here, colors):
    data, _ = photos
    vit("data", "check", data, "--labels", "photos").failed(2, "vit crossval DATA")
    vit("data", "check", colors, "--labels", "folds").failed(3, "of other images than colors")
    text = data.read_text().replace(",blue,p3", ",green,p3", 1)
    data.write_text(text)
    vit("data", "check", data, "--labels", "folds").failed(3, "has the label 'green'")
    (here / "folds" / "predictions.csv").write_text("path,label\na,b\n")
    vit("data", "check", data, "--labels", "folds").failed(3, "is not a table of folds")
    assert not list(here.glob("*labels*"))


def test_a_run_checks_the_images_that_it_has_not_trained_on(vit, digits_run, here):
    answer = vit("data", "check", "digits", "--labels", digits_run.path).ok()
    assert "has not trained on 538 images" in answer.err
    assert "1,259 images not checked; without a prediction: 1,259" in answer.out
    rows = records(here / "data_check_labels.csv")
    assert len(rows) == 1797
    assert sum(bool(row["suggested"]) for row in rows) == 538


@pytest.mark.faults("D28")
def test_a_group_in_two_splits_is_an_error(vit, here, draw_classes):
    for split in ("train", "test"):
        draw_classes(here / "photos" / split, ("blue", "red"), 3, side=20 if split == "train" else 24)
    answer = vit("data", "check", "photos", "--groups", "([0-9]+)[.]png").failed(5)
    assert "group across splits" in answer.out
    row = next(row for row in records(here / "data_check.csv") if row["kind"] == "group_across_splits")
    assert (row["split"], row["other_split"], row["detail"]) == ("train", "test", "group '00' has images in both")


def test_the_page_says_that_networks_knew_images_before(vit, photos, here):
    """It said that they had not trained on the image, beside a warning on the terminal that they had."""
    data, _ = photos
    told = "the run old, from which this training starts, has trained on 3 of 40 test images"
    assert vit("data", "check", data, "--labels", "folds", "--output", "plain.csv").code == 0
    (here / "folds" / "crossval.json").write_text(json.dumps({"cells": [], "seen_before": [told]}))
    assert vit("data", "check", data, "--labels", "folds", "--output", "warned.csv").code == 0
    plain, warned = (" ".join((here / name).read_text().split()) for name in
                     ("plain_labels.html", "warned_labels.html"))  # fmt: skip
    assert "that have not trained on the image." in plain and told not in plain
    assert "that have not trained on the image." not in warned and told in warned


@pytest.fixture
def listed(photos, here):
    """The files of `photos`; the folds have a run that has tested all of them, and lists their contents."""
    (here / "folds" / "crossval.json").write_text(json.dumps({"cells": ["cells/fold1"]}))
    source = open_source(str(photos[0]))
    tested = replace(source, splits={"train": source.splits["train"].select([]), "test": source.splits["train"]})
    (here / "folds" / "cells" / "fold1").mkdir(parents=True)
    write_splits(tested, here / "folds" / "cells" / "fold1" / "splits.csv", read_contents(tested).hashes)
    return photos


def repaint(path):
    """Another picture under the name of a file."""
    with Image.open(path) as picture:
        pixels = 255 - np.asarray(picture)
    Image.fromarray(pixels).save(path)


@pytest.mark.faults("K16")
def test_images_that_were_replaced_are_not_judged_by_old_predictions(vit, listed, here):
    """An old prediction stood beside another picture, and called its label suspicious."""
    data, wrong = listed
    assert "3 of 40 labels" in vit("data", "check", data, "--labels", "folds", "--output", "as_predicted.csv").out
    moved = (here / "photos").rename(here / "moved")
    (here / "moved.csv").write_text(data.read_text().replace("photos/", "moved/"))
    assert "3 of 40 labels" in vit("data", "check", "moved.csv", "--labels", "folds", "--output", "moved_check.csv").out
    moved.rename(here / "photos")
    repaint(here / wrong[0])
    answer = vit("data", "check", data, "--labels", "folds").ok("2 of 39 labels are suspicious")
    said = "1 image not checked; changed since the prediction, or not readable: 1"
    assert said in answer.out and "no prediction" not in answer.out
    rows = records(here / "data_check_labels.csv")
    assert rows[-1]["path"].endswith(wrong[0]) and not rows[-1]["suggested"]
    assert said in (here / "data_check_labels.html").read_text()
    for path in (here / "photos").rglob("*.png"):
        if not str(path).endswith(wrong[0]):
            repaint(path)
    vit("data", "check", data, "--labels", "folds").failed(3, "all 40 images with predictions in folds have changed")


def test_labels_without_a_doubt_need_no_correction(vit, listed, here):
    """An empty table came with the advice to correct its first lines, and to train on it."""
    data, wrong = listed
    text = data.read_text()
    for path in wrong:
        (line,) = [line for line in text.splitlines() if line.startswith(f"{path},")]
        right = LABELS[0] if LABELS[1] in line else LABELS[1]
        text = text.replace(line, line.replace(LABELS[0] if right == LABELS[1] else LABELS[1], right))
    data.write_text(text)
    answer = vit("data", "check", data, "--labels", "folds")
    assert (
        answer.code == 0
        and "0 of 40 labels are suspicious" in answer.out
        and "there is nothing to correct" in answer.out
    )
    assert "correct the column" not in answer.out and "suggested" not in answer.out
    assert answer.out.splitlines()[-1] == f"Next: vit train {data}"
