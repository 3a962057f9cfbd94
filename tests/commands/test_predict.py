"""`vit predict`: its files, its exit codes, and what it says."""

import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

from tests.tables import rows
from vit.data.checks.contents import read_contents
from vit.data.core.image_header import holds_frames
from vit.data.core.samples import Samples, Source
from vit.inference.predictor import Predictor

MIXED_BAD = 6  # of the fixture `mixed`


pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.faults("I1")
def test_one_row_per_file_and_the_bad_ones_are_told(vit, digits_run, mixed, here):
    answer = vit("predict", digits_run.path, mixed).ok()
    table = rows(here / "predictions.csv")
    assert len(table) == sum(not name.startswith(".") for name in os.listdir(mixed)) - 1  # the folder in it
    bad = [row for row in table if row["status"] != "ok"]
    assert len(bad) == MIXED_BAD and all(row["error"] and not row["label"] for row in bad)
    assert f"WARNING: {MIXED_BAD} of {len(table)} files have no label: " in answer.err
    assert f"{len(table)} rows in predictions.csv" in answer.out
    assert all(f"{mixed / name}: " in answer.err for name in ("cut.png", "notes.txt"))
    assert f"1 folder in {mixed} was not read (--recursive reads it)" in answer.err.splitlines()
    assert "\x1b" not in answer.out + answer.err
    assert answer.out.strip().splitlines()[-1].startswith(f"Next: vit evaluate {digits_run.path} ")
    assert os.listdir(here) == ["predictions.csv"]


def test_its_table_is_not_taken_for_labels(vit, digits_run, mixed, here):
    """A run had every one of its own predictions right."""
    assert vit("predict", digits_run.path, mixed).code == 0
    for words in (("evaluate", digits_run.path), ("train",), ("data", "check")):
        answer = vit(*words, "predictions.csv")
        assert (
            answer.code == 3 and "predictions.csv is a table of 'vit predict': its labels are predictions" in answer.err
        )
    assert "are predictions" not in vit("data", "check", "predictions.csv", "--label_column", "label").err


@pytest.mark.faults("I1")
def test_bad_files_can_be_a_failure(vit, digits_run, mixed, here):
    answer = vit("predict", digits_run.path, mixed, "--on_bad", "fail", "--output", "rows.jsonl")
    assert answer.code == 5 and f"[5]: {MIXED_BAD} files without a label; see the rows in rows.jsonl" in answer.err
    assert len((here / "rows.jsonl").read_text().splitlines()) == len(os.listdir(mixed)) - 2
    answer = vit("predict", digits_run.path, mixed / "a b.png", "--on_bad", "fail")
    assert answer.code == 0 and "WARNING" not in answer.err


@pytest.mark.faults("K9")
def test_outputs_are_numbered_and_never_overwritten(vit, digits_run, mixed, here):
    picture = mixed / "a b.png"
    for _ in range(2):
        assert vit("predict", digits_run.path, picture).code == 0
    assert vit("predict", digits_run.path, picture, "--gallery").code == 0
    assert sorted(os.listdir(here)) == [
        "predictions-2.csv", "predictions-3.csv", "predictions-3.html", "predictions.csv"
    ]  # fmt: skip
    (here / "mine.csv").write_text("mine")
    answer = vit("predict", digits_run.path, picture, "--output", "mine.csv")
    assert answer.code == 2 and "mine.csv exists" in answer.err and (here / "mine.csv").read_text() == "mine"
    (here / "page.html").write_text("mine")
    answer = vit("predict", digits_run.path, picture, "--output", "page.csv", "--gallery")
    assert answer.code == 2 and "--output: the page page.html exists" in answer.err
    assert (here / "page.html").read_text() == "mine" and not (here / "page.csv").exists()
    (here / "predictions-4.csv.partial").write_text("rows of a run that was stopped, or still goes on")
    assert vit("predict", digits_run.path, picture).code == 0
    assert (here / "predictions-5.csv").is_file()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_output_may_lie_in_a_new_folder(vit, digits_run, mixed, here, ending):
    answer = vit("predict", digits_run.path, mixed / "a b.png", "--output", f"new/folder/rows.{ending}")
    assert answer.code == 0 and os.listdir(here / "new" / "folder") == [f"rows.{ending}"]


def test_top_k_is_the_number_of_columns(vit, digits_run, mixed, here):
    for top_k, columns in ((1, 7), (3, 11), (50, 25)):
        assert (
            vit("predict", digits_run.path, mixed / "a b.png", "--top_k", top_k, "--output", f"{top_k}.csv").code == 0
        )
        assert len(rows(here / f"{top_k}.csv")[0]) == columns


@pytest.mark.faults("D15")
def test_names_with_odd_bytes_and_a_leading_dash(vit, digits_run, mixed, here):
    odd = os.fsdecode(os.path.join(os.fsencode(mixed), b"caf\xe9.png"))
    (here / "-rf.png").write_bytes((mixed / "a b.png").read_bytes())
    vit("predict", digits_run.path, odd, "./-rf.png", "--output", "rows.jsonl").ok()
    table = [json.loads(line) for line in (here / "rows.jsonl").read_text().splitlines()]
    assert [row["path"] for row in table] == [odd, "./-rf.png"] and {row["status"] for row in table} == {"ok"}


def test_the_rows_agree_with_python(vit, digits_run, mixed, here):
    from vit import load

    assert vit("predict", digits_run.path, mixed, "--output", "rows.jsonl", "--batch_size", 3).code == 0
    table = [json.loads(line) for line in (here / "rows.jsonl").read_text().splitlines()]
    for row, prediction in zip(table, load(digits_run.path).predict(mixed), strict=True):
        for name in ("path", "status", "label", "error"):
            assert row[name] == getattr(prediction, name)
        top = {entry["label"]: entry["probability"] for entry in row["top"]}
        assert top == pytest.approx(dict(prediction.top), abs=1e-6)


@pytest.mark.faults("H1")
def test_the_page_shows_every_file(vit, digits_run, mixed, here):
    vit("predict", digits_run.path, mixed, "--gallery", "--recursive", "--output", "rows.csv").ok("page in rows.html")
    html = (here / "rows.html").read_text()
    assert html.count("<figure ") == len(rows(here / "rows.csv")) and "<script" not in html


@pytest.mark.faults("R11", simulated="KeyboardInterrupt is raised")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_prediction_keeps_its_rows_as_partial(vit, digits_run, mixed, here, monkeypatch, kind):
    original, calls = Predictor._predict_batch, []

    def once(self, part, top_k):
        calls.append(part)
        if len(calls) > 2:
            raise kind
        return original(self, part, top_k)

    monkeypatch.setattr(Predictor, "_predict_batch", once)
    answer = vit("predict", digits_run.path, mixed, "--batch_size", 4)
    assert answer.code == (130 if kind is KeyboardInterrupt else 1)
    assert kind is RuntimeError or "interrupted; the rows so far are in predictions.csv.partial;" in answer.err
    assert os.listdir(here) == ["predictions.csv.partial"] and len(rows(here / "predictions.csv.partial")) == 8


@pytest.fixture
def listed(mixed, here):
    """A folder with a picture, and a table of it, of one that is not there, of a broken one, and of the first again."""
    (here / "lists").mkdir()
    picture = mixed / "a b.png"
    (here / "lists" / "a b.png").write_bytes(picture.read_bytes())
    (here / "lists" / "cut.png").write_bytes(picture.read_bytes()[:99])
    return here / "lists", ["a b.png", "gone.png", "cut.png", "a b.png"]


@pytest.mark.parametrize(
    ("name", "line"),
    [("list.csv", "{},x"), ("list.txt", "{}"), ("semicolons.csv", "{};x"), ("tabs.tsv", "{}\tx")],
)
def test_a_list_gives_a_row_for_each_line_in_order(vit, digits_run, listed, here, name, line):
    folder, names = listed
    header = [] if name.endswith(".txt") else [line.format("Filename")]
    (folder / name).write_text("\n".join([*header, *(line.format(name) for name in names)]) + "\n\n")
    vit("predict", digits_run.path, f"lists/{name}").ok()
    table = rows(here / "predictions.csv")
    assert [row["path"] for row in table] == [f"lists/{name}" for name in names]
    assert [row["status"] for row in table] == ["ok", "unreadable", "unreadable", "ok"]
    assert table[1]["error"] == "No such file or directory" and table[0]["label"] == table[3]["label"] != ""


def test_a_list_names_files_as_a_table_of_a_training_does(vit, digits_run, listed, here):
    """Every row was "No such file or directory", where train and evaluate had read the same names."""
    folder, _ = listed
    (folder / "cut.jpg").write_bytes((folder / "a b.png").read_bytes())
    (folder / "list.csv").write_text("id\na b\n..\\lists\\a b.png\ngone\ncut\na b.png\n")
    answer = vit("predict", digits_run.path, "lists/list.csv").ok()
    assert answer.err.startswith(
        "list.csv: read 'id' as path; list.csv: 2 names are read as other ones, such as 'a b' "
    )
    table, names = rows(here / "predictions.csv"), ["a b.png", "../lists/a b.png", "gone", "cut", "a b.png"]
    assert [row["path"] for row in table] == [f"lists/{name}" for name in names]
    assert [row["status"] for row in table] == ["ok", "ok", "unreadable", "unreadable", "ok"]  # cut.png or cut.jpg


def test_a_list_without_paths_and_one_among_files(vit, digits_run, listed, here):
    folder, _ = listed
    (folder / "list.csv").write_text("color,label\nred,x\n")
    answer = vit("predict", digits_run.path, "lists/list.csv")
    assert answer.code == 3 and "lacks the column path; its columns are 'color', 'label'" in answer.err
    assert answer.err.endswith("; or give --image_column\n")  # an option of this command
    (folder / "empty.txt").write_text("\n")
    assert vit("predict", digits_run.path, "lists/empty.txt").code == 3
    answer = vit("predict", digits_run.path, "lists/a b.png", "lists/list.csv")  # as a shell's lists/* gives them
    assert answer.code == 0 and [row["status"] for row in rows(here / "predictions.csv")] == ["ok", "not_image"]


@pytest.mark.faults("I1")
def test_nothing_but_bad_files_is_a_failure(vit, digits_run, listed, here):
    answer = vit("predict", digits_run.path, "lists/cut.png")
    assert answer.code == 5 and "1 file without a label" in answer.err and answer.out.count("\n") == 2
    assert [row["status"] for row in rows(here / "predictions.csv")] == ["unreadable"]


def test_up_to_ten_files_are_shown_one_by_one(vit, digits_run, mixed, here):
    picture = (mixed / "a b.png").read_bytes()
    for place in range(11):
        (here / f"{place:02d}.png").write_bytes(picture)
    answer = vit("predict", digits_run.path, *(f"{place:02d}.png" for place in range(10)))
    row = rows(here / "predictions.csv")[3]
    shown = f"{row['label']}{100 * float(row['probability']):.2f}%"
    lines = ["".join(line.split()) for line in answer.out.splitlines()]
    assert lines[0] == "filelabelprobability" and lines[4] == f"03.png{shown}" and len(lines) == 16
    answer = vit("predict", digits_run.path, "*.png")
    assert "".join(answer.out.split()).startswith(f"labelfiles{row['label']}11")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["RUN", "nothing.png"], 3, "there is no nothing.png"),
        (["RUN", "."], 3, "holds no files"),
        (["nothing", "IMAGE"], 4, "there is no checkpoint nothing"),
        (["IMAGE", "IMAGE"], 4, "not a PyTorch file"),
        (["RUN", "IMAGE", "--output", "rows.txt"], 2, "rows.txt"),
        (["RUN", "IMAGE", "--device", "cpuu"], 2, "'cpu'"),
        (["RUN", "IMAGE", "--output", "/proc/nothing/rows.csv"], 7, "/proc/nothing/rows.csv"),
        (["https://host/best.ckpt", "IMAGE"], 4, "download it first"),
    ],
)
def test_what_cannot_be_predicted(vit, digits_run, mixed, here, line, code, words):
    places = {"RUN": digits_run.path, "IMAGE": mixed / "a b.png"}
    vit("predict", *(places.get(word, word) for word in line)).failed(code, words)
    assert os.listdir(here) == []


def test_images_of_another_size_and_mode_are_fitted(vit, digits_run, here):
    Image.new("RGBA", (33, 21), (9, 9, 9, 128)).save(here / "a.png")
    Image.new("L", (1, 1)).save(here / "b.png")
    assert vit("predict", digits_run.path, "a.png", "b.png").code == 0
    assert [row["status"] for row in rows(here / "predictions.csv")] == ["ok", "ok"]


@pytest.mark.faults("I9")
def test_files_of_several_frames_are_counted(vit, digits_run, here):
    frames = [Image.new("L", (8, 8), value) for value in (10, 120, 240)]
    (here / "pictures").mkdir()
    for name in ("a.tif", "b.gif", "c.webp", "d.png"):
        frames[0].save(here / "pictures" / name, save_all=True, append_images=frames[1:])
    frames[0].save(here / "pictures" / "e.tif")
    words = "WARNING: 4 files with several frames or pages, such as pictures/a.tif: only the first was read"
    content = torch.load(digits_run.best, weights_only=True)
    content["state_dict"]["network.head.bias"] += 0.1
    torch.save(content, "other.ckpt")
    for models in ((digits_run.path,), (digits_run.path, "other.ckpt")):
        vit("predict", *models, "pictures").noted(words)
    assert words not in vit("predict", digits_run.path, "pictures/e.tif").err
    assert words in vit("embed", digits_run.path, "pictures").err
    samples = Samples(sorted(os.listdir("pictures")), np.zeros(5, dtype=np.int64), here / "pictures")
    assert len(read_contents(Source("pictures", ("a",), {"train": samples})).frames) == 4
    header = bytes(128) + b"DICM\x28\0\x08\0IS\2\0"
    assert holds_frames(header + b"12") and not holds_frames(header + b"1 ")
