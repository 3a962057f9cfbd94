"""Data sets that cannot be used, or not quite as they lie, through the command line."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.runs import run_folder
from tests.tables import rows
from vit.commands.training import train_progress
from vit.data.pixels import images

TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 2, "--batch_size", 4, "--wandb", "off",
    "--data.num_workers", 0,
)  # fmt: skip


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (9, 99, 199)).save(path, "PNG")
    return path


def nothing(root):
    return root / "photos"


def an_image(root):
    return image(root / "photo.png")


def splits_one_lower(root):
    for split in ("train", "val"):
        image(root / "sets" / "photos" / split / "cat" / "1.png")
        image(root / "sets" / "photos" / split / "dog" / "1.png")
    image(root / "sets" / "other" / "1.png")
    return root / "sets"


def splits_in_capitals_one_lower(root):
    for split in ("Train", "VAL"):
        image(root / "sets" / "photos" / split / "cat" / "1.png")
    image(root / "sets" / "other" / "1.png")
    return root / "sets"


def classes_one_lower(root):
    for name in ("cat", "dog"):
        image(root / "sets" / "photos" / name / "1.png")
    return root / "sets"


def an_empty_class(root):
    image(root / "photos" / "cat" / "1.png")
    (root / "photos" / "dog").mkdir()
    return root / "photos"


def raw_photographs(root):
    image(root / "photos" / "cat" / "1.png")
    for number in range(3):
        (root / "photos" / "dog").mkdir(exist_ok=True)
        (root / "photos" / "dog" / f"{number}.NEF").touch()
    return root / "photos"


def one_class(root):
    image(root / "photos" / "cat" / "1.png")
    return root / "photos"


def an_image_a_class(root):
    for name in ("cat", "dog"):
        image(root / "photos" / name / "1.png")
    return root / "photos"


def other_classes_in_test(root):
    for place in ("train/cat", "train/dog", "test/Cat", "test/cat"):
        image(root / "photos" / place / "1.png")
    return root / "photos"


def a_zip_that_climbs(root):
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        archive.write(an_image(root), "../climbed.png")
    return root / "photos.zip"


def a_tar_that_climbs(root):
    with tarfile.open(root / "photos.tar.gz", "w:gz") as archive:
        archive.add(an_image(root), "../climbed.png")
    return root / "photos.tar.gz"


def shards_without_an_index(root):
    with tarfile.open(root / "train-000.tar", "w") as archive:
        archive.add(an_image(root), "0.png")
    (root / "photo.png").unlink()
    return root


def a_shard(root):
    return shards_without_an_index(root) / "train-000.tar"


def a_table(root, content):
    image(root / "1.png")
    image(root / "2.png")
    (root / "table.csv").write_bytes(content)
    return root / "table.csv"


def a_table_with_a_missing_file(root):
    return a_table(root, b"path,label\n1.png,cat\n3.png,dog\n")


def a_table_with_a_row_twice(root):
    return a_table(root, b"path,label\n1.png,cat\n2.png,dog\n1.png,cat\n")


def a_table_in_latin_1(root):
    return a_table(root, b"path,label\n1.png,caf\xe9\n2.png,dog\n")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(nothing, ["there is no", "photos", "<class>/<image>"], marks=pytest.mark.faults("D1")),
        pytest.param(an_image, ["photo.png", "path,label"], marks=pytest.mark.faults("D1")),
        pytest.param(splits_one_lower, ["give", "sets/photos"], marks=pytest.mark.faults("D3")),
        pytest.param(splits_in_capitals_one_lower, ["give", "sets/photos"], marks=pytest.mark.faults("D3")),
        pytest.param(classes_one_lower, ["give", "sets/photos"], marks=pytest.mark.faults("D3")),
        pytest.param(an_empty_class, ["photos/dog has no images;", "allow_empty"], marks=pytest.mark.faults("D4")),
        pytest.param(other_classes_in_test, ["'Cat'", "'cat', 'dog'", "rename"], marks=pytest.mark.faults("D6")),
        pytest.param(one_class, ["one class, 'cat'", "two or more"], marks=pytest.mark.faults("D10")),
        pytest.param(
            an_image_a_class, ["2 images of 2 classes are too few", "add images"], marks=pytest.mark.faults("D10")
        ),
        pytest.param(
            raw_photographs,
            ["dog", "3 files ending in .NEF", "convert"],
            marks=pytest.mark.faults("D11"),
        ),
        pytest.param(a_zip_that_climbs, ["photos.zip is an archive", "unpack"], marks=pytest.mark.faults("D20")),
        pytest.param(a_tar_that_climbs, ["photos.tar.gz is an archive"], marks=pytest.mark.faults("D20")),
        pytest.param(shards_without_an_index, ["no class folders", "'vit data index ", "shards of WebDataset"]),
        pytest.param(a_shard, ["train-000.tar is an archive; unpack", "'vit data index ", "shard of WebDataset"]),
        pytest.param(a_table_with_a_missing_file, ["table.csv, line 3", "3.png"], marks=pytest.mark.faults("D24")),
        pytest.param(a_table_with_a_row_twice, ["line 4", "line 2", "keep one"], marks=pytest.mark.faults("D24")),
        pytest.param(a_table_in_latin_1, ["table.csv, line 2", "UTF-8"], marks=pytest.mark.faults("D24")),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_cannot_be_trained_on(vit, tmp_path, make, words):
    (tmp_path / "in").mkdir()
    data = make(tmp_path / "in")
    vit("train", data, *TINY, "--out", tmp_path / "runs").failed(3, *words)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.faults("D4")
@pytest.mark.parametrize(
    ("line", "has_option"),
    [
        (("train",), True),
        (("crossval",), True),
        (("study",), True),
        (("pretrain",), True),
        (("probe", "--backbones", "random:vit_nano_patch2_8"), False),
        (("data", "pack", "shards"), False),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_only_commands_that_have_it_name_the_option_for_empty_classes(vit, tmp_path, monkeypatch, line, has_option):
    monkeypatch.chdir(tmp_path)
    an_empty_class(tmp_path)
    place = 2 if line[0] == "data" else 1
    answer = vit(*line[:place], "photos", *line[place:])
    answer.failed(3, "photos/dog has no images; remove it")
    assert ("allow_empty" in answer.err) is has_option
    if has_option:  # this then gets further, or to another complaint
        assert "dog has no images" not in vit(*line, "photos", "--data.allow_empty", "true", "--dry_run").err


@pytest.fixture
def odd(draw_classes, tmp_path):
    """Classes that are numbers, names of every kind, and much that is not an image or cannot be read."""
    names = [
        b"1",
        b"2",
        b"10",
        b"<script>alert(1)<",
        b"caf\xe9",
        "\U0001f436 new\nline".encode(),
        b"-rf",
        b"CAF",
        b"caf",
    ]
    data = draw_classes(tmp_path / "data", ("1",), 6)
    pictures = sorted((data / "1").iterdir())
    for name in names[1:]:
        folder = data / os.fsdecode(name)
        folder.mkdir()
        for place, picture in enumerate(pictures):
            (folder / os.fsdecode(b"=%d\n\xff.png" % place)).write_bytes(picture.read_bytes())
    for place in ("1/Thumbs.db", "1/._00.png", "1/x.dng", "2/notes.txt", ".ipynb_checkpoints/1.png"):
        (data / place).parent.mkdir(exist_ok=True)
        (data / place).write_bytes(b"no image")
    return data


@pytest.mark.faults("D5", "D8", "D9", "D11", "D15", "H3", "H4")
def test_odd_names_are_trained_on_evaluated_and_predicted(vit, odd, tmp_path):
    answer = vit("train", odd, *TINY, "--out", tmp_path / "runs").ok()
    assert "skipped: 1 file ending in .dng, 1 file ending in .txt, 3 hidden or system files" in answer.out
    assert "differ only in case" in answer.out and "'CAF' (6 images) and 'caf' (6 images)" in answer.out
    assert "\x1b" not in answer.out + answer.err
    run = run_folder(tmp_path / "runs")
    class_names = json.loads((run / "classes.json").read_text())["classes"]
    assert (
        class_names == sorted(set(os.listdir(odd)) - {".ipynb_checkpoints"})
        and class_names.index("10") == class_names.index("1") + 1
    )
    assert "caf\udce9" in class_names and "\U0001f436 new\nline" in class_names
    listed = [row["path"] for row in rows(run / "splits.csv")]
    assert len(listed) == 54 and all(map(os.path.isfile, listed))
    vit("evaluate", run, figures=True).ok()
    answer = vit("predict", run, odd, "--recursive", "--gallery", "--output", tmp_path / "rows.jsonl")
    assert answer.code == 0 and "\x1b" not in answer.out + answer.err, answer.err
    predicted = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {os.fsencode(row["path"]) for row in predicted if row["status"] == "ok"} == set(map(os.fsencode, listed))
    assert {row["label"] for row in predicted} <= {"", *class_names}


def at_step(number):
    def step(self, done, total, loss, images_per_second):
        if done == number:
            raise RuntimeError("the end")

    return step


@pytest.fixture
def damaged(draw_classes, tmp_path):
    """Train and validation folders; two training images are none."""
    for split in ("train", "val"):
        draw_classes(tmp_path / "data" / split, ("dark", "light"), 10)
    for bad in ("dark/03.png", "light/05.png"):
        (tmp_path / "data" / "train" / bad).write_bytes(b"no image")
    return tmp_path / "data"


@pytest.mark.faults("D13")
@pytest.mark.parametrize("cache", ["memory", "none"])
def test_training_images_that_cannot_be_read_are_counted_and_told(vit, damaged, tmp_path, cache):
    answer = vit("train", damaged, *TINY, "--data.test", 0, "--data.cache", cache, "--out", tmp_path / "runs").ok()
    (warning,) = [line for line in answer.err.splitlines() if line.startswith("WARNING: cannot read")]
    assert "cannot read 2 training images; other images take the places" in warning
    assert "dark/03.png: not one of JPEG" in warning and "light/05.png: " in warning
    assert "2 training images; others stood in" in answer.out
    result = json.loads((run_folder(tmp_path / "runs") / "result.json").read_text())
    assert result["unreadable_images"] == 2


@pytest.mark.faults("D13")
def test_what_could_not_be_read_is_remembered_on_resume(vit, damaged, tmp_path, monkeypatch):
    line = ("train", damaged, *TINY, "--data.test", 0, "--data.cache", "none", "--out", tmp_path / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(
            train_progress.TrainProgress, "step", at_step(8)
        )  # of 10; the first epoch has asked for all images
        assert vit(*line).code == 1
    run = run_folder(tmp_path / "runs")
    for bad in ("dark/03.png", "light/05.png"):  # replaced since: it stays true that others stood in
        (damaged / "train" / bad).write_bytes((damaged / "train" / "dark" / "00.png").read_bytes())
    vit("train", "--resume", run).ok()
    assert json.loads((run / "result.json").read_text())["unreadable_images"] == 2


LOADING = (*TINY[:-2], "--data.num_workers", 1, "--data.cache", "none")


@pytest.mark.faults("D22")
def test_a_loading_process_that_is_killed_is_a_resource_error(vit, colors, tmp_path, monkeypatch):
    here, original = os.getpid(), images.decode_image

    def killed(*image):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*image)

    monkeypatch.setattr(images, "decode_image", killed)
    vit("train", colors, *LOADING, "--out", tmp_path).failed(7, "was killed", "--data.num_workers 0", "/dev/shm")
    assert not list(tmp_path.glob("**/result.json"))


@pytest.mark.faults("D22", simulated="PyTorch's error is raised")
def test_too_little_shared_memory_is_said_and_not_waited_for(vit, colors, tmp_path, monkeypatch):
    def full(tensor):
        raise RuntimeError(
            "unable to allocate shared memory(shm) for file </torch_1_2_0>: No space left on device (28)"
        )

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    answer = vit("train", colors, *LOADING, "--out", tmp_path)
    answer.failed(7, "found no room", "--data.num_workers 0", "/dev/shm is small")


@pytest.mark.slow
@pytest.mark.faults("D22")
def test_a_dev_shm_of_64_kilobytes(colors, tmp_path):
    inside = "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "
    line = map(str, (sys.executable, "-m", "vit", "train", colors, *LOADING, "--image_size", 64, "--out", tmp_path))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this machine lends no mount namespace")
    command = ["unshare", "-m", "bash", "-c", inside + shlex.join(line)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 7 and "/dev/shm is small" in done.stderr, done.stderr
