"""`vit data check`: its table, its list, its exit codes."""

import os
import shutil

import pytest
from PIL import Image

from tests.commands.following import next_words
from tests.data.parquet.written import rows_of, write
from tests.report.pages import Page
from tests.tables import rows
from vit.data.checks.check import Finding

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def photos(here, scene):
    """A clean folder with train and test."""
    seed = 0
    for split in ("train", "test"):
        for label in ("=cat", "dog"):
            (here / "photos" / split / label).mkdir(parents=True)
            for place in range(5):
                seed += 1
                scene(seed).save(here / "photos" / split / label / f"{place}.png")
    return here / "photos"


def test_a_clean_folder(vit, photos, here):
    answer = vit("data", "check", "photos", "--strict").noted("20 images of photos (train, test), 2 classes")
    assert "\nnothing found\n" in answer.out and os.listdir(here) == ["photos"]
    assert answer.out.strip().splitlines()[-1] == "Next: vit train photos"
    assert "80x60" in answer.out
    assert vit("data", "check", "photos", "--output", "list.csv").code == 0
    assert rows(here / "list.csv") == []


def test_the_next_commands_have_the_options_of_the_data(vit, here, colors):
    images, labels = rows_of(colors, ("blue", "green", "red"))
    columns = {"shape": labels, "size": [label % 2 for label in labels]}
    write(here / "my table.parquet", images, [0.5] * 42, None, columns=columns)
    told = vit("data", "check", "my table.parquet", "--label_column", "size")
    assert told.out.splitlines()[-1] == "Next: vit train 'my table.parquet' --data.label_column size"
    assert vit(*next_words(told), "--dry_run").code == 0
    write(here / "equal.parquet", [images[0]] * 4, [0.5] * 4, None, columns={"shape": [0, 1] * 2, "size": [0, 1] * 2})
    line = ("data", "check", "equal.parquet", "--label_column", "size", "--strict")
    told = vit(*line)
    assert told.code == 5 and next_words(told) == list(line)
    assert vit(*next_words(told)).code == 5


@pytest.mark.faults("D5", "D11", "D16")
def test_errors_are_told_listed_and_fail(vit, photos, here):
    shutil.copy(photos / "train" / "=cat" / "0.png", photos / "test" / "dog" / "\x1b[31mred\n.png")
    (photos / "train" / "dog" / "<script>alert(1)<.jpg").write_text("<html>")
    (photos / "train" / "dog" / "readme.txt").write_text("no image")
    answer = vit("data", "check", "photos").failed(5)
    assert "vit: error[5]: photos has 3 errors and 1 warning; see data_check.csv" in answer.err
    assert "3 errors and 1 warning, listed with what to do in data_check.csv" in answer.out
    assert answer.out.strip().splitlines()[-1] == "Next: vit data check photos"
    assert "data_check.csv has \"'=cat\" for '=cat'" in answer.err  # and this is not a finding
    assert "\x1b" not in answer.out + answer.err and "an HTML page, not an image" in answer.out
    assert "skipped: 1 file ending in .txt" in answer.out
    table = rows(here / "data_check.csv")
    assert list(table[0]) == list(Finding.__dataclass_fields__)
    assert [(row["severity"], row["kind"]) for row in table] == [
        ("error", "unreadable"), ("error", "same_image_across_splits"), ("error", "label_conflict"), ("warning", "note")
    ]  # fmt: skip
    assert table[0]["path"] == "photos/train/dog/<script>alert(1)<.jpg"
    leak = table[1]
    assert leak["path"] == "photos/test/dog/\x1b[31mred\n.png" and leak["other_path"] == "photos/train/=cat/0.png"
    assert (leak["split"], leak["label"], leak["other_split"], leak["other_label"]) == ("test", "dog", "train", "=cat")


def test_warnings_fail_only_where_asked(vit, photos, here):
    Image.new("RGB", (40, 40), (1, 2, 3)).save(photos / "train" / "dog" / "black.png")
    vit("data", "check", "photos").ok("0 errors and 1 warning,", "one color")
    vit("data", "check", "photos", "--strict").failed(5, "see data_check-2.csv")
    assert rows(here / "data_check.csv") == rows(here / "data_check-2.csv")


def test_only_the_first_examples_are_shown(vit, photos, here):
    for place in range(7):
        (photos / "train" / "dog" / f"bad{place}.jpg").write_bytes(b"")
    answer = vit("data", "check", "photos")
    assert answer.out.count("the file is empty") == 3 and "... and 4 more" in answer.out
    assert len(rows(here / "data_check.csv")) == 7


def test_the_list_never_takes_the_place_of_a_file(vit, photos, here):
    (here / "mine.csv").write_text("mine")
    answer = vit("data", "check", "photos", "--output", "mine.csv")
    assert answer.code == 2 and "mine.csv exists" in answer.err and (here / "mine.csv").read_text() == "mine"


def test_a_list_in_a_new_folder(vit, photos, here):
    assert vit("data", "check", "photos", "--output", "new/list.csv").code == 0
    assert os.listdir(here / "new") == ["list.csv"]


def test_data_sets_that_come_by_name(vit, here):
    answer = vit("data", "check", "digits")
    assert "1,797 images of digits (train), 10 classes" in answer.err and "8x8" in answer.out
    assert "tiny" not in answer.out


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ([], 2, "vit data check photos/"),
        (["chek", "photos"], 2, "did you mean 'check'?"),
        (["photos"], 2, "'photos'"),
        (["check"], 2, "data"),
        (["check", "photos", "--strcit"], 2, "'--strict'"),
        (["check", "nothing/"], 3, "there is no nothing/"),
        (["check", "cifar1"], 2, "'cifar10'"),
        (["check", "cifar10", "--root", "."], 3, "cifar10 could not be read"),
        (["check", "photos", "--output", "/proc/nothing/list.csv"], 7, "/proc/nothing/list.csv"),
    ],
)
def test_what_cannot_be_checked(vit, photos, here, line, code, words):
    answer = vit("data", *line).failed(code, words)
    assert answer.err.splitlines()[-1].startswith(f"vit: error[{code}]: ") and os.listdir(here) == ["photos"]


def test_help_is_that_of_all_actions(vit):
    said, whole = vit("data", "--help").out, vit("data", "--help", "all").out
    assert said == vit("data", "-h").out
    for action in ("check", "pack", "index"):
        assert f"vit data {action}:" in said and vit("data", action, "-h", "all").out.strip() in whole


def test_a_page_shows_equal_images_side_by_side(vit, photos, here):
    train = photos / "train"
    shutil.copy(train / "=cat" / "0.png", photos / "test" / "dog" / "copy.png")
    for place in range(8):
        shutil.copy(train / "dog" / "1.png", train / "dog" / f"again{place}.png")
    (train / "dog" / "<script>alert(1)<.jpg").write_text("<html>")
    Image.new("RGB", (40, 40), (1, 2, 3)).save(train / "dog" / "black.png")
    answer = vit("data", "check", "photos", "--page", "pages/check.html")
    assert answer.code == 5 and "page in pages/check.html" in answer.out
    page = Page((here / "pages" / "check.html").read_text())
    titles = ["The same image in two splits", "The same image with two labels", "The same image twice", "One color"]
    places = [page.text.index(f" {title} ") for title in titles]
    assert places == sorted(places), "images in two splits come first"
    groups = [
        [image["alt"] for image in Page(part).of("img")] for part in page.html.split('<div class="group pair">')[1:]
    ]
    both = ["photos/train/=cat/0.png", "photos/test/dog/copy.png"]
    assert groups[0] == groups[1] == both
    assert len(groups[2]) >= 6 and "3 more images of this group" in page.text
    assert {"href": "../photos/test/dog/copy.png"} in page.of("a"), "a picture opens its file"
    assert page.text.count("<script>alert(1)<.jpg") == 1 and len(page.of("script")) == 1
    assert "an HTML page, not an image" in page.text and str(here) not in page.html


def test_pairs_without_a_page_are_told_where_to_be_seen(vit, photos):
    shutil.copy(photos / "train" / "=cat" / "0.png", photos / "train" / "=cat" / "copy.png")
    assert "--page FILE shows the images of each pair side by side" in vit("data", "check", "photos").out


@pytest.mark.faults("K9")
def test_the_page_never_takes_the_place_of_a_file(vit, photos, here):
    (here / "mine.html").write_text("mine")
    vit("data", "check", "photos", "--page", "mine.html").failed(2, "--page mine.html exists")
    assert (here / "mine.html").read_text() == "mine" and not (here / "data_check.csv").exists()


def test_the_page_of_several_labels_and_of_arrays(vit, labels_csv, here):
    answer = vit("data", "check", labels_csv, "--page", "labels.html")
    assert answer.code in (0, 5), answer.err
    assert "90 images, 3 labels" in Page((here / "labels.html").read_text()).text
    assert vit("data", "check", "digits", "--page", "digits.html").code in (0, 5)
    page = Page((here / "digits.html").read_text())
    assert "1,797 images, 10 classes" in page.text and not [link for link in page.of("a") if link["href"][0] != "#"]
