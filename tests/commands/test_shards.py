"""`vit data pack` and `vit data index`, and the other commands on shards."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.runs import trained
from tests.tables import rows
from vit.data.splits.split import read_splits
from vit.extras.shards import packing

pytestmark = pytest.mark.usefixtures("here")
TINY = ("--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--data.num_workers", 0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory, colors, vit):
    """The shards of the colors, of one image each. Tests must not write to them."""
    out = tmp_path_factory.mktemp("packed") / "shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vit.commands.measuring.shards._MEGABYTE", 2000)
        answer = vit("data", "pack", colors, out, "--shard_mb", 1)
    assert answer.code == 0 and "42 images in" in answer.out, answer.err
    assert answer.out.strip().splitlines()[-1] == f"Next: vit train {out}"
    return out


def test_train_evaluate_predict_and_check(vit, shards, colors, here):
    """A run on shards is the run on their files: the same order of splits, the same names and hashes."""
    run = trained(here / "runs", shards, *TINY, "--epochs", 2, "--batch_size", 8, "--wandb", "off")
    listed = rows(run / "splits.csv")
    assert {row["path"] for row in listed} == {f"{name}/{i:02}" for name in ("blue", "green", "red") for i in range(14)}
    assert all(row["content"] for row in listed)
    vit("evaluate", run).ok()
    vit("evaluate", run, colors).noted("left out")  # recognized by content
    vit("predict", run, shards, "--output", "p.csv", "--gallery").ok()
    by_key = {row["path"]: row["probability"] for row in rows(here / "p.csv")}
    assert vit("predict", run, colors, "--recursive", "--output", "q.csv").code == 0
    by_file = {Path(row["path"]).relative_to(colors).with_suffix(""): row for row in rows(here / "q.csv")}
    assert {name: float(value) for name, value in by_key.items()} == pytest.approx(
        {str(name): float(row["probability"]) for name, row in by_file.items()}, abs=1e-5
    )
    assert (here / "p.html").read_text().count('<img src="data:image') == 42
    assert vit("data", "check", shards).code == 0


@pytest.mark.faults("S3")
def test_data_check_lists_images_that_changed(vit, shards, here):
    copy = shutil.copytree(shards, here / "copy")
    first = copy / "train-000000.tar"
    first.write_bytes(bytes(byte ^ 1 for byte in first.read_bytes()))
    vit("data", "check", copy).failed(5)
    assert any("another sha256" in row["detail"] for row in rows(here / "data_check.csv"))


def test_an_index_of_the_same_shards(vit, shards, here):
    copy = shutil.copytree(shards, here / "copy")
    (copy / "index.parquet").unlink()
    answer = vit("data", "index", copy).ok("3 classes from .cls")
    assert "(42 train)" in answer.out and (copy / "index.parquet").is_file()
    vit("data", "index", copy / "nothing").failed(3, "is not a folder")
    (here / "empty").mkdir()
    assert "has no .tar files" in vit("data", "index", "empty").err
    vit("data", "index", copy, "--output", "empty/index.parquet").failed(2, "is not a .parquet file in")


@pytest.mark.faults("S10")
def test_nothing_is_overwritten(vit, shards, colors, here):
    (here / "mine").mkdir()
    vit("data", "pack", colors, "mine").failed(2, "OUT mine exists")
    before = (shards / "index.parquet").read_bytes()
    said = f"index.parquet exists; 'vit train {shards}/index.parquet' reads it"
    vit("data", "index", shards).failed(2, said)
    assert (shards / "index.parquet").read_bytes() == before


@pytest.mark.faults("A14")
def test_a_pack_that_fails_leaves_nothing(vit, colors, here, monkeypatch):
    real = packing.write_index

    def full(*arguments):
        real(*arguments)
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(packing, "write_index", full)
    answer = vit("data", "pack", colors, "out")
    assert answer.code == 7 and "No space left" in answer.err and os.listdir(here) == []
    monkeypatch.undo()
    for name, age in (("old", 7200), ("new", 0)):
        left = here / f".out.{name}.partial"
        left.mkdir()
        (left / "x.tar").write_bytes(b"")
        for path in (left / "x.tar", left):
            os.utime(path, (time.time() - age, time.time() - age))
    monkeypatch.chdir(here)
    assert vit("data", "pack", colors, "out").code == 0
    assert sorted(os.listdir(here)) == [".out.new.partial", "out"]


@pytest.mark.faults("S1")
def test_what_is_left_out_is_listed(vit, mixed, colors, here):
    (here / "photos").mkdir()
    (here / "photos" / "odd").symlink_to(mixed)
    shutil.copytree(colors / "red", here / "photos" / "red")
    (here / "photos" / "red" / "raw.dng").write_bytes(b"II*")
    answer = vit("data", "pack", "photos", "out")
    assert "ending in .dng" in answer.err
    assert answer.code == 0 and "WARNING: left out 2 images" in answer.err
    assert sorted(Path(row["path"]).name for row in rows(here / "out" / "left_out.csv")) == ["empty.jpg", "thin.png"]
    assert all(row["reason"] and row["split"] == "train" for row in rows(here / "out" / "left_out.csv"))


@pytest.mark.slow
def test_images_of_a_run_in_memory_are_known_in_their_shards(vit, digits_run, here):
    assert vit("data", "pack", "digits", "shards").code == 0
    answer = vit("evaluate", digits_run.path, "shards", "--output", "found")
    counts = {split: len(rows) for split, rows in read_splits(digits_run.path / "splits.csv").items()}
    assert answer.code == 0 and f"left out: {counts['train']:,} images that the run trained on" in answer.err
    assert f"{counts['test']} of 1,797 images are measured" in answer.err
