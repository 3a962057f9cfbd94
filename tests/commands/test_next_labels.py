"""`vit data next`: images to label, as a page and as a table that `vit train` reads when it is filled in."""

import numpy as np
import pytest

from tests.commands.following import next_words
from vit.csv_files import new_table, read_table, records
from vit.data.sources.sources import open_source
from vit.data.splits.split import read_splits
from vit.errors import DataError
from vit.inference.answers.nearest import choose_doubtful, doubts
from vit.layout import RunLayout

SMALL = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8)


@pytest.fixture(scope="module")
def colors_run(vit, colors, tmp_path_factory):
    """A run of two epochs on three colors."""
    out = tmp_path_factory.mktemp("colors_run")
    options = (*SMALL, "--epochs", 1, "--batch_size", 8, "--wandb", "off")
    assert vit("train", colors, *options, "--out", out).code == 0
    (config,) = out.glob("**/config.yaml")
    return config.parent


def test_a_small_margin_is_a_doubt():
    found = doubts(np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0], [0.2, 0.5, 0.3]], dtype=np.float32))
    assert found == pytest.approx([1.0, 0.2, 0.8], abs=1e-6)


def test_doubtful_images_that_differ_are_chosen():
    """Three places of features with doubtful images in one half each: every place is there, and nothing sure is."""
    generator = np.random.default_rng(0)
    place = np.arange(300) % 3
    vectors = (np.eye(3)[place] + generator.normal(size=(300, 3)) / 50).astype(np.float32)
    sure = np.arange(300) < 150
    first = np.where(sure, 0.999, 0.55).astype(np.float32)
    probabilities = np.stack([first, 1 - first], axis=1)
    chosen = choose_doubtful(probabilities, vectors, 3, seed=0)
    assert set(place[chosen]) == {0, 1, 2} and not sure[chosen].any()
    assert np.array_equal(chosen, choose_doubtful(probabilities, vectors, 3, seed=0))
    certain = np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (300, 1))
    assert len(set(choose_doubtful(certain, vectors, 5, seed=0))) == 5  # no doubt at all


def test_no_image_is_chosen_twice_where_the_pool_repeats_itself():
    """Pictures that were saved again have the same features: k-means++ alone gives the first image again and again."""
    first = np.linspace(0.51, 0.8, 30).astype(np.float32)
    vectors = np.eye(3, dtype=np.float32)[np.arange(30) % 3]
    chosen = choose_doubtful(np.stack([first, 1 - first], axis=1), vectors, 8, seed=0)
    assert len(set(chosen)) == 8 and set(chosen[:3] % 3) == {0, 1, 2}


@pytest.mark.parametrize("by", ["random", "doubt"])
def test_the_table_trains_when_it_is_filled_in(vit, colors_run, draw_classes, here, by):
    draw_classes(here / "pool", ("blue", "violet"), 14)
    (here / "pool" / "violet" / "copy.png").write_bytes((here / "pool" / "violet" / "03.png").read_bytes())
    (here / "pool" / "violet" / "bad.png").write_bytes(b"nothing")
    answer = vit("data", "next", colors_run, "pool", "--recursive", "--count", 6, "--by", by).ok()
    assert "14 images to choose from; left out: 15 known ones or copies" in answer.err  # the run knows all blue ones
    assert "WARNING: 1 image cannot be read" in answer.err and "  pool/violet/bad.png: " in answer.err
    assert next_words(answer) == ["train", "to_label.csv"]
    header, rows = read_table(here / "to_label.csv")
    assert header == ["path", "label", "suggested", "probability", "split"]
    listed = read_splits(RunLayout(colors_run).splits_path)
    assert len(rows) == 6 + sum(map(len, listed.values()))
    assert all(row[0].startswith(str(here / "pool" / "violet")) and row[1] == "" for row in rows[:6])
    assert (here / "to_label.html").read_text().count("<img ") == 6
    with pytest.raises(DataError, match="line 2: an empty label"):
        open_source("to_label.csv", None)
    with new_table(here / "filled.csv", header) as table:
        for row in records(here / "to_label.csv"):
            table.row({**row, "label": row["label"] or "violet"}.values())
    source = open_source("filled.csv", None)
    assert source.class_names == ("blue", "green", "red", "violet")
    assert {split: len(samples) for split, samples in source.splits.items()} == {
        split: len(part) + 6 * (split == "train") for split, part in listed.items()
    }


def test_new_images_of_a_run_with_groups_need_a_group_too(vit, colors, draw_classes, here):
    """The command named the label alone, and the training that it advised refused the empty groups."""
    options = (*SMALL, "--epochs", 1, "--batch_size", 8, "--wandb", "off")
    assert vit("train", colors, *options, "--data.groups", "([0-9]+)", "--out", "runs").code == 0
    (config,) = (here / "runs").glob("**/config.yaml")
    draw_classes(here / "pool", ("violet",), 3)
    answer = vit("data", "next", config.parent, "pool", "--recursive", "--count", 2)
    assert "fill in the columns label and group of the first 2 lines" in answer.out, answer.err
    with new_table(here / "filled.csv", read_table(here / "to_label.csv")[0]) as table:
        for row in records(here / "to_label.csv"):
            table.row({**row, "label": row["label"] or "violet", "group": row["group"] or "new"}.values())
    assert "violet" in open_source("filled.csv", None).class_names
    config.write_text(config.read_text().replace(str(colors), "/gone"))  # the table would name files that are not there
    vit("data", "next", config.parent, "pool", "--recursive").failed(3, "/gone, which held the images of")


def test_what_cannot_be_chosen_from_is_refused(vit, colors, colors_run, labels_run, digits_run, here):
    answer = vit("data", "next", colors_run, colors, "--recursive")
    assert answer.code == 3 and "the pool has no image to label: the run knows 42 of 42 files" in answer.err
    vit("data", "next", labels_run.path, colors, "--recursive").failed(2, "takes a run of one class for an image")
    vit("data", "next", colors_run, colors, "--output", "new.html").failed(2, "give a name that ends in .csv")
    vit("data", "next", colors_run, colors, "--seed", -1).failed(2, "--seed is -1")
    (here / "lone.ckpt").write_bytes(digits_run.best.read_bytes())
    vit("data", "next", "lone.ckpt", colors / "red").failed(2, "lone.ckpt is not in a run folder")
    answer = vit("data", "next", digits_run.path, colors / "red", "--count", 20)
    assert answer.code == 0 and "WARNING: the pool has 14 images to label, and 20 were asked for" in answer.err
    assert "the images of the run are not files, so the table lists the new images alone" in answer.err
    assert len(read_table(here / "to_label.csv")[1]) == 14
