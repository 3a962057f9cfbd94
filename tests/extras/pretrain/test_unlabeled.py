"""Images without labels: which files they are, and what is left out."""

import shutil

import pytest

from vit.data.core.groups import with_groups
from vit.errors import DataError, UsageError
from vit.extras.pretrain import images
from vit.extras.pretrain.images import with_more_images
from vit.extras.shards.packing import pack
from vit.training.recipes.pretrain_recipe import PretrainDataConfig


def open_images(source, labels="auto"):
    return images.open_images(PretrainDataConfig(source, labels=labels))


SPLITS = {"red/00": "train", "red/01": "test", "blue/00": "", "blue/01": "x"}


@pytest.fixture
def albums(colors, tmp_path):
    """Pictures at two depths, beside other files, a hidden file and a run of this program."""
    folder = tmp_path / "albums"
    (folder / "2024" / "summer").mkdir(parents=True)
    for place, name in (("red/00.png", "a.png"), ("red/01.png", "2024/b.png"), ("blue/00.png", "2024/summer/c.png")):
        shutil.copy(colors / place, folder / name)
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.png").write_bytes(b"")
    run = folder / "runs" / "data" / "net" / "20260101-000000"
    (run / "figures").mkdir(parents=True)
    for name in ("config.yaml", "splits.csv"):
        (run / name).write_text("")
    shutil.copy(colors / "red" / "00.png", run / "figures" / "curves.png")
    return folder


def test_images_lie_at_any_depth_and_pictures_of_runs_are_none(albums):
    source = open_images(str(albums))
    assert list(source.splits["train"].paths) == ["2024/b.png", "2024/summer/c.png", "a.png"]
    assert source.class_names == () and set(source.splits["train"].labels.tolist()) == {-1}
    assert any("1 folder that vit wrote" in note for note in source.notes)


def test_class_folders_are_labels_unless_they_are_not_wanted(colors):
    labeled, unlabeled = open_images(str(colors)), open_images(str(colors), labels="none")
    assert labeled.class_names == ("blue", "green", "red") and unlabeled.class_names == ()
    assert sorted(labeled.splits["train"].paths) == list(unlabeled.splits["train"].paths)


def test_a_table_of_paths_needs_no_labels(colors):
    table = colors.parent / "paths.csv"
    table.write_text("path,split\ncolors/red/00.png,train\ncolors/red/01.png,test\ncolors/blue/00.png,\n")
    assert list(open_images(str(table)).splits["train"].paths) == ["colors/red/00.png", "colors/blue/00.png"]


@pytest.mark.parametrize("columns", ["path,split", "path,label,split", "path,split,bright,left"])
def test_all_images_of_a_table_are_learned_from_where_labels_do_not_count(vit, colors, columns):
    """Before, the rows of the split train alone, but all rows of a parquet table."""
    table = colors.parent / "table.csv"
    cells = {"label": "red", "bright": "1", "left": "0"}
    names = {f"colors/{file}.png": split for file, split in SPLITS.items()}
    rows = [{"path": path, "split": split, **cells} for path, split in names.items()]
    table.write_text("\n".join([columns, *(",".join(row[name] for name in columns.split(",")) for row in rows)]) + "\n")
    source = open_images(str(table), labels="none")
    assert source.class_names == () and list(source.splits) == ["train"]
    assert list(source.splits["train"].paths) == [*names]
    words = (
        "--data.labels", "none", "--batch_size", 2, "--network", "vit_nano_patch2_8", "--wandb", "off", "--dry_run",
    )  # fmt: skip
    vit("pretrain", table, *words).ok("4 images to learn from")


def test_a_table_without_rows_has_no_images(tmp_path):
    (tmp_path / "empty.csv").write_text("path,split\n")
    for labels, words in (("auto", "no training images; leave split empty"), ("none", "no images; give a table")):
        with pytest.raises(DataError, match=f"empty.csv has {words}"):
            open_images(str(tmp_path / "empty.csv"), labels=labels)


def test_a_folder_of_shards_is_its_index(colors, tmp_path):
    (tmp_path / "shards").mkdir()
    pack(open_images(str(colors)), tmp_path / "shards", 100_000, lambda done, total: None)
    source = open_images(str(tmp_path / "shards"))
    assert source.class_names == ("blue", "green", "red") and len(source.splits["train"]) == 42


def test_more_images_come_after_those_of_data_and_without_a_label(colors, albums):
    source = with_more_images(open_images(str(colors)), str(albums))
    train = source.splits["train"]
    assert len(train) == 45 and train.labels[-3:].tolist() == [-1, -1, -1] and (train.labels[:42] >= 0).all()
    assert train.file(44) == albums / "a.png" and train.file(0).is_file() and train.groups is None


def test_images_of_groups_keep_them_and_more_images_stand_alone(colors, albums):
    source = with_groups(open_images(str(colors)), "^([a-z]+)")
    train = with_more_images(source, str(albums)).splits["train"]
    assert train.groups[:42] == source.splits["train"].groups and len({"red", *train.groups[42:]}) == 4


def test_files_that_data_has_already_are_left_out(colors):
    one_class = colors / "red"
    source = open_images(str(colors))
    with pytest.raises(DataError, match="no images that DATA lacks"):
        with_more_images(source, str(one_class))


@pytest.mark.faults("L1")
def test_a_folder_without_images_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("no picture")
    with pytest.raises(DataError, match=r"has no images .1 file ending in .txt"):
        open_images(str(tmp_path))


@pytest.mark.faults("L2")
def test_a_folder_of_further_images_that_does_not_exist_is_refused(colors, tmp_path):
    with pytest.raises(DataError, match=r"--data.unlabeled .*nowhere: there is no such folder"):
        with_more_images(open_images(str(colors)), str(tmp_path / "nowhere"))


@pytest.mark.faults("L3")
def test_files_do_not_go_beside_a_data_set_in_memory(albums):
    with pytest.raises(UsageError, match="those of digits are not files"):
        with_more_images(open_images("digits"), str(albums))


@pytest.mark.faults("L4")
def test_splits_without_class_folders_are_refused_and_test_images_not_taken_for_more(colors, tmp_path):
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        shutil.copy(colors / "red" / "00.png", tmp_path / split)
    with pytest.raises(DataError, match=r"has no class folders; give .*train as DATA: its images need no labels"):
        open_images(str(tmp_path))
