"""One writer and one reader for every CSV: no spreadsheet computes a cell, and rows are read as they were written."""

import ast
import csv
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import vit
from tests.tables import formulas
from vit.csv_files import TableWriter, create, escape, new_table, read_table, records, unescape

HOSTILE = [
    "=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\uff1d1", " =1", "=cmd|'/C calc'!A0", "'=1", "''=1", "'tis",
    "a;=1+1", "a\t=1", "a\n@SUM(1)", "a;'=1", ";;=", "'", "a=1", "a,=1", '"=1', "caf\udce9=1", "",
]  # fmt: skip
texts = st.text(st.sampled_from("='+-@;, \t\r\n\"ab\uff1d\u00a0")) | st.binary().map(os.fsdecode)


@pytest.mark.faults("H2")
@given(st.lists(texts, min_size=1, max_size=4))
@example(HOSTILE)
def test_what_is_read_is_what_was_written(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    columns = [f"column {index}" for index in range(len(cells))]
    with new_table(path, columns) as table:
        table.row(cells)
    assert read_table(path) == (columns, [cells])
    assert formulas(path) == []


@given(texts)
def test_harmless_text_stays_as_it_is(text):
    assert unescape(escape(text)) == text
    if not set(text) & set("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n"):
        assert escape(text) == text


def test_numbers_are_numbers(tmp_path):
    with new_table(tmp_path / "a.csv", ("a", "b", "c", "d"), digits=3) as table:
        table.row((-0.5, -7, None, "-0.5"))
    assert (tmp_path / "a.csv").read_text() == "a,b,c,d\n-0.500,-7,,'-0.5\n"
    with create(tmp_path / "a.csv", "a") as file:
        TableWriter(file).row((-1 / 3, 1e-9, 0, "x"))
    assert records(tmp_path / "a.csv")[1] == {"a": repr(-1 / 3), "b": "1e-09", "c": "0", "d": "x"}


def test_a_row_that_was_cut_short_is_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\r\n1,2\r\n3")
    assert records(tmp_path / "a.csv") == [{"a": "1", "b": "2"}]


def test_nothing_else_writes_tables():
    """Another writer would not escape, so one file alone uses `csv.writer` or `csv.DictWriter`."""
    package = Path(vit.__file__).parent
    files = [*package.rglob("*.py"), *(package.parent / "benchmarks").glob("*.py"), package.parent / "demo.py"]
    users = {
        path.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("writer", "DictWriter", "to_csv", "write_csv"))
        or (isinstance(node, ast.ImportFrom) and node.module == "csv")
    }
    # rows.py has a Parquet writer, and defaults_peer.py runs where vit is not installed
    assert users == {"csv_files.py", "rows.py", "defaults_peer.py"}


@pytest.mark.faults("H2")
def test_class_names_that_a_spreadsheet_would_compute_come_back(tmp_path, draw_classes, capsys, empty_figures):
    """The plan and `vit predict` say how such names stand in a CSV; our reader, and pandas with `unescape`, undo it."""
    photos = draw_classes(tmp_path / "photos", ("+1", "-1", "zero"), 12)
    small = {"network": "vit_nano_patch2_8", "model.network.depth": 1, "image_size": 8}
    run = vit.train(photos, **small, epochs=1, wandb="off", out=tmp_path / "runs")
    assert "CSV files of vit have \"'+1\" for '+1' and 1 more: a spreadsheet would compute" in capsys.readouterr().out
    vit.predict(run, photos / "+1", output=tmp_path / "rows.csv")
    assert "rows.csv has \"'+1\" for '+1' and 1 more" in capsys.readouterr().err
    columns, rows = vit.read_table(str(tmp_path / "rows.csv"))  # as the guide calls it
    labels = [row[columns.index("label")] for row in rows]
    assert len(labels) == 12 and set(labels) <= {"+1", "-1", "zero"}
    with open(tmp_path / "rows.csv", newline="") as file:
        raw = [row["label"] for row in csv.DictReader(file)]
    assert raw != labels and [vit.unescape(label) for label in raw] == labels
    vit.predict(run, photos / "+1", output=tmp_path / "rows.jsonl")
    assert "would compute" not in capsys.readouterr().err
