"""Rows on disk: the same content in every format, safe in a spreadsheet, complete or called partial."""

import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forked import run
from vit.csv_files import records
from vit.errors import ResourceError, StoppedError, UsageError
from vit.inference.prediction import Prediction
from vit.inference.rows import open_writer, to_json, write_tables
from vit.tasks.task import MULTI_LABEL

TOP = (("cat", 0.5), ("dög, the", 0.25), ("=1+1", 0.125))
ROWS = [
    Prediction("a b.png", "ok", "cat", 0.5, TOP),
    Prediction("new\nline,'\".png", "ok", "dög, the", 0.625, (TOP[1], TOP[0], TOP[2])),
    Prediction("broken.png", "unreadable", error='damaged PNG: "x"\ny'),
    Prediction("-rf.png", "ok", "=1+1", 1.0, (TOP[2], TOP[0], TOP[1])),
    Prediction("=HYPERLINK(1).png", "too_large", error="1x300 pixels"),
]
ENDINGS = [".csv", ".jsonl", ".parquet"]


_MORE = ["label_2", "probability_2", "label_3", "probability_3"]
COLUMNS = ["path", "status", "label", "probability", *_MORE, "novelty", "error", "engine"]


def write(path, rows, top_k=3):
    with open_writer(path, top_k) as writer:
        for row in rows:
            writer.write(row)


def read_csv(path):
    return records(path)


def from_json(text):
    """The prediction of a line, by what a program that reads such files finds in it."""
    row = json.loads(text)
    top = tuple((entry["label"], entry["probability"]) for entry in row["top"])
    return Prediction(**{**row, "top": top, "labels": tuple(row.get("labels", ()))})


def read_json(path):
    return [from_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_format_holds_the_same(tmp_path):
    for ending in ENDINGS:
        write(tmp_path / f"rows{ending}", ROWS)
    assert sorted(os.listdir(tmp_path)) == ["rows.csv", "rows.jsonl", "rows.parquet"]
    assert read_json(tmp_path / "rows.jsonl") == ROWS
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    for flat, row, cells in zip(table, ROWS, read_csv(tmp_path / "rows.csv"), strict=True):
        assert list(flat) == list(cells) == COLUMNS
        assert (flat["path"], flat["status"], flat["error"]) == (row.path, row.status, row.error)
        assert (flat["label"], flat["probability"]) == (row.label or None, row.probability)
        assert [(flat[f"label_{n}"], flat[f"probability_{n}"]) for n in (2, 3)] == [*row.top[1:]] or not row.top
        for name, cell in cells.items():
            value = flat[name]
            if isinstance(value, float):
                assert float(cell) == pytest.approx(value, abs=5e-7)
            else:
                assert cell == (value or "")


@pytest.mark.faults("D15")
@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_any_text_survives_every_format(tmp_path_factory, path, label):
    folder = tmp_path_factory.mktemp("text")
    row = Prediction(path, "ok", label, 0.25, ((label, 0.25),))
    for ending in ENDINGS:
        write(folder / f"rows{ending}", [row], top_k=1)
    assert read_json(folder / "rows.jsonl") == [row]
    (cells,) = read_csv(folder / "rows.csv")
    assert (cells["path"], cells["label"]) == (path, label)
    (flat,) = pq.read_table(folder / "rows.parquet").to_pylist()
    assert (flat["path"], flat["label"]) == (path, label)


def test_names_that_are_no_utf8(tmp_path):
    row = Prediction(os.fsdecode(b"caf\xe9.png"), "ok", "cat", 0.5, (("cat", 0.5),))
    for ending in ENDINGS:
        write(tmp_path / f"rows{ending}", [row], top_k=1)
    assert b"\ncaf\xe9.png,ok" in (tmp_path / "rows.csv").read_bytes()
    assert os.fsencode(read_json(tmp_path / "rows.jsonl")[0].path) == b"caf\xe9.png"
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist()[0]["path"] == "caf\\udce9.png"


@pytest.mark.faults("R11", simulated="KeyboardInterrupt is raised")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_writer_that_is_interrupted_keeps_its_rows_under_another_name(tmp_path, ending):
    path = tmp_path / f"rows{ending}"

    def some():
        yield from ROWS[:2]
        assert os.listdir(tmp_path) == [f"rows{ending}.partial"]
        raise KeyboardInterrupt

    with pytest.raises(StoppedError, match=r"rows so far are in .*\.partial; the same command starts again"):
        write(path, some())
    assert os.listdir(tmp_path) == [f"rows{ending}.partial"]
    kept = path.with_name(f"{path.name}.partial")
    if ending == ".csv":
        assert [cells["label"] for cells in read_csv(kept)] == ["cat", "dög, the"]
    elif ending == ".jsonl":
        assert read_json(kept) == ROWS[:2]
    else:
        assert pq.read_table(kept).num_rows == 2


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_rows_are_a_file_too(tmp_path, ending):
    write(tmp_path / f"rows{ending}", [])
    assert os.listdir(tmp_path) == [f"rows{ending}"]


def test_many_rows_come_out_in_order(tmp_path):
    rows = [Prediction(f"{i}.png", "ok", "cat", 0.5, (("cat", 0.5),)) for i in range(9000)]
    write(tmp_path / "rows.parquet", rows, top_k=1)
    assert pq.read_table(tmp_path / "rows.parquet")["path"].to_pylist() == [row.path for row in rows]


def test_fewer_classes_than_columns_leave_cells_empty(tmp_path):
    write(tmp_path / "rows.csv", [Prediction("a", "ok", "cat", 1.0, (("cat", 1.0),))], top_k=2)
    assert read_csv(tmp_path / "rows.csv")[0]["label_2"] == ""


@pytest.mark.parametrize("name", ["rows.xlsx", "rows", "rows.csv.gz"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(UsageError, match=name):
        open_writer(tmp_path / name, 3)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot write"):
        write(tmp_path / "file" / "rows.csv", ROWS)


def test_json_is_plain():
    assert from_json(json.dumps(to_json(ROWS[1]))) == ROWS[1]


def test_an_image_without_any_of_several_labels_is_ok_in_every_format(tmp_path):
    top = (("cat", 0.4), ("dog", 0.3))
    many = [
        Prediction("a", "ok", top=(("dog", 0.9), ("cat", 0.8)), labels=("dog", "cat")),
        Prediction("b", "ok", top=top),
        Prediction("c", "unreadable", error="cut"),
    ]
    for ending in ENDINGS:
        writer = open_writer(tmp_path / f"rows{ending}", 2)
        writer.task = MULTI_LABEL
        with writer:
            for row in many:
                writer.write(row)
    assert read_json(tmp_path / "rows.jsonl") == many
    assert '"labels": []' in (tmp_path / "rows.jsonl").read_text().splitlines()[1]


def test_a_name_with_a_bar_is_in_no_list_of_a_csv(tmp_path):
    path = tmp_path / "merged.csv"
    with pytest.raises(UsageError, match=r"separated by '\|' in a CSV, and 'a\|b' contains it"):
        write_tables(path, [pa.table({"path": ["1.png"], "labels": [["a|b", "a"]]})])
    assert not path.exists()
    write_tables(tmp_path / "merged.parquet", [pa.table({"path": ["1.png"], "labels": [["a|b", "a"]]})])
    assert pq.read_table(tmp_path / "merged.parquet")["labels"].to_pylist() == [["a|b", "a"]]


WRITE = """
import sys; from pathlib import Path; from vit.inference.rows import open_writer
with open_writer(Path(sys.argv[1]), 1) as writer: print('opened')
"""


@pytest.mark.faults("R18")
@pytest.mark.parametrize("ending", ENDINGS)
def test_two_processes_never_write_one_file(tmp_path, ending):
    """The second one's rows went into the first one's file, and both said that theirs were there."""
    path = tmp_path / f"rows{ending}"

    def other():
        return run([sys.executable, "-c", WRITE, path], timeout=120)

    with open_writer(path, 1) as writer:
        writer.write(ROWS[0])
        refused = other()
        writer.write(ROWS[1])
    assert refused.returncode and "another vit predict writes" in refused.stderr and not refused.stdout
    size = path.stat().st_size
    late = other()  # its name was free when it began
    assert late.returncode and "exists" in late.stderr and not late.stdout
    assert path.stat().st_size == size and os.listdir(tmp_path) == [path.name]


@pytest.mark.faults("F8")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, ending):
    path = tmp_path / f"rows{ending}"

    def rows():
        yield ROWS[0]
        path.write_text("of another program")

    with pytest.raises(ResourceError, match=r"is kept, and the rows are in .*partial"):
        write(path, rows())
    assert path.read_text() == "of another program" and (tmp_path / f"rows{ending}.partial").stat().st_size
    table = pa.table({"path": ["a"]})
    if ending != ".jsonl":
        with pytest.raises(ResourceError, match=rf"it is kept, and the new file is .*rows-\w+{ending}"):
            write_tables(path, iter([table]))
        assert path.read_text() == "of another program"


@pytest.mark.faults("F8")
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.partial"])
def test_links_are_not_followed(tmp_path, name):
    victim, path = tmp_path / "victim.txt", tmp_path / "rows.csv"
    (tmp_path / name).symlink_to(victim)
    for content in ("", "precious"):
        if content:
            victim.write_text(content)
        with pytest.raises(UsageError, match=r"exists|is a link"):
            write(path, ROWS)
        assert (tmp_path / name).is_symlink()
        assert (victim.read_text() if victim.exists() else "") == content
