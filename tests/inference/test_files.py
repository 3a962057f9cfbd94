"""IMAGES -> files: each once, in one order, byte for byte."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vit.atomic_files import free_name, made_folder
from vit.errors import DataError
from vit.inference.files import list_files, list_images


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.png", "a.png", "10.png", "9.png", ".hidden.png", "sub/c.png", "sub/deeper/d.txt", "empty/.keep"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def test_a_folder_gives_its_files_sorted(tree):
    assert list_files(["."], recursive=False).paths == ["./10.png", "./9.png", "./a.png", "./b.png"]
    assert list_files([tree], recursive=False).paths == [
        str(tree / name) for name in ("10.png", "9.png", "a.png", "b.png")
    ]
    assert list_files([f"{tree}/"], recursive=False).paths == [
        f"{tree}/{n}" for n in ("10.png", "9.png", "a.png", "b.png")
    ]


def test_folders_below_are_read_when_asked(tree):
    found = list_files(["."], recursive=True).paths
    assert found == ["./10.png", "./9.png", "./a.png", "./b.png", "./sub/c.png", "./sub/deeper/d.txt"]


def test_files_and_patterns_stand_as_given_and_once(tree):
    assert list_files(["b.png", "a.png", "b.png"], recursive=False).paths == ["b.png", "a.png"]
    assert list_files(["[ab].png", "a.png"], recursive=False).paths == ["a.png", "b.png"]
    assert list_files(["sub", f"{tree}/sub", "./sub", "sub/c.png"], recursive=False).paths == ["sub/c.png"]
    found = list_files(["**"], recursive=False).paths  # which names a folder and what is in it
    assert len(found) == len(set(found)) > 1
    (tree / "sub" / "link").symlink_to(tree / "empty")  # link/../a.png is tree/a.png, and not sub/a.png
    (tree / "sub" / "a.png").write_bytes(b"y")
    assert list_files(["sub/a.png", "sub/link/../a.png"], recursive=False).paths == ["sub/a.png", "sub/link/../a.png"]
    assert list_files(["**/*.txt"], recursive=False).paths == ["sub/deeper/d.txt"]
    assert list_files([".hidden.png"], recursive=False).paths == [".hidden.png"]


def test_a_program_gets_every_file_as_often_as_it_gives_it(tree):
    listed = list_files(["[ab].png", "a.png", "sub", "a.png"], recursive=False, keep_repeats=True)
    assert listed.paths == ["a.png", "b.png", "a.png", "sub/c.png", "a.png"] and listed.counts == (2, 1, 1, 1)


def test_a_name_that_looks_like_a_pattern_is_a_name_first(tree):
    (tree / "[ab].png").write_bytes(b"x")
    assert list_files(["[ab].png"], recursive=False).paths == ["[ab].png"]


@pytest.mark.faults("K8")
def test_the_home_folder(tree, monkeypatch):
    monkeypatch.setenv("HOME", str(tree))
    assert list_files(["~/a.png"], recursive=False).paths == [str(tree / "a.png")]


@pytest.mark.faults("D15")
def test_names_keep_their_bytes(tree):
    name = b"caf\xe9 \n-.png"
    with open(os.path.join(os.fsencode(tree), b"sub", name), "wb") as file:
        file.write(b"x")
    (found,) = (path for path in list_files(["sub"], recursive=False).paths if path != "sub/c.png")
    assert os.fsencode(found) == b"sub/" + name and os.path.isfile(found)


@pytest.mark.faults("D15")
def test_a_list_ends_a_name_at_the_end_of_a_line_alone(tree):
    names = [" a.png", "b.png ", "a\u2028b.png", "a\x85b.png", "a\x1cb.png", "a\x0cb.png"]
    (tree / "list.txt").write_bytes("\r\n".join(["\ufeff" + names[0], *names[1:], "", ""]).encode())
    assert list_files(["list.txt"], recursive=False).paths == names
    beside = list_files(["list.txt", "a.png"], recursive=False)
    assert beside.paths == ["list.txt", "a.png"]
    assert beside.remarks == "not read as a list, because IMAGES has other inputs, too: list.txt"


@pytest.mark.faults("D12")
def test_links_that_go_round_are_read_once(tree):
    (tree / "sub" / "up").symlink_to(tree)
    (tree / "sub" / "self").symlink_to(tree / "sub")
    (tree / "broken.png").symlink_to(tree / "nowhere")
    found = list_files(["."], recursive=True).paths
    assert [path for path in found if path.endswith("c.png")] == ["./sub/c.png"]
    assert "./broken.png" in found  # it gets its row


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["nothing.png"], "there is no nothing.png"),
        (["a.png", "nothing/"], "there is no nothing/"),
        (["emptyy/"], "there is no emptyy/, did you mean 'empty'"),
        (["sub/cc.png"], "there is no sub/cc.png, did you mean 'sub/c.png'"),
        (["*.jpg"], r"\*\.jpg matches no file"),
        (["empty"], "holds no files"),
        ([], "an empty list holds no files"),
    ],
)
def test_inputs_that_name_nothing(tree, given, words):
    with pytest.raises(DataError, match=words):
        list_files(given, recursive=True)


def test_a_folder_of_folders_says_how_to_read_them(tree):
    (tree / "outer" / "inner").mkdir(parents=True)
    with pytest.raises(DataError, match=r"1 folder in it.*--recursive"):
        list_files(["outer"], recursive=False)


def test_folders_that_are_not_read_are_counted(tree):
    (tree / "outer" / "inner").mkdir(parents=True)
    (tree / "outer" / "other").mkdir()
    (tree / "outer" / ".hidden").mkdir()
    (tree / "outer" / "d.png").write_bytes(b"x")
    assert list_images(["sub"], recursive=False).remarks == "1 folder in sub was not read (--recursive reads it)"
    listed = list_images(["outer", "a.png", "outer", "empty"], recursive=False)
    assert listed.remarks == "2 folders in outer were not read (--recursive reads them)"
    listed = list_images(["outer", "sub"], recursive=False)
    assert listed.remarks == "3 folders in outer and sub were not read (--recursive reads them)"
    assert list_images(["outer", "sub", "."], False).remarks.startswith("6 folders in 3 of the given folders were")
    assert not list_images(["outer"], recursive=True).remarks and not list_images(["*"], recursive=False).remarks


def test_a_table_among_images_is_a_file_of_their_folder(tree):
    """The images were left out without a word, or refused for the rows of an earlier prediction."""
    table = pa.table({"image": [b"x"], "label": ["a"]})
    for name in ("photos", "tables"):
        (tree / name).mkdir()
    (tree / "photos" / "c.png").write_bytes(b"x")
    pq.write_table(table, "photos/old.parquet")
    assert list_images(["photos"], recursive=False).paths == [
        f"photos{os.sep}{name}" for name in ("c.png", "old.parquet")
    ]
    pq.write_table(table, "tables/new.parquet")
    assert list_images(["tables"], recursive=False).paths == ["new/000000"]


def test_a_free_name_is_numbered(tmp_path):
    path = tmp_path / "rows.csv"
    assert free_name(path) == path
    path.touch()
    assert free_name(path) == tmp_path / "rows-2.csv"
    (tmp_path / "rows-2.csv").touch()
    assert free_name(path) == tmp_path / "rows-3.csv"
    (tmp_path / "rows-3.html").touch()
    (tmp_path / "rows-4.csv.partial").touch()
    assert free_name(path) == tmp_path / "rows-3.csv"
    assert free_name(path, beside=(".html", ".csv.partial")) == tmp_path / "rows-5.csv"


def test_a_link_to_itself_is_a_file_that_cannot_be_read(tree):
    """It ended the command with an internal error."""
    (tree / "sub" / "loop.png").symlink_to("loop.png")
    assert str(Path("sub", "loop.png")) in list_images(["sub"], recursive=True).paths


@pytest.mark.faults("R18")
def test_a_new_folder_is_made_by_one_of_many_that_ask(tmp_path):
    """Two evaluations at a time wrote into one folder."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: made_folder(tmp_path / "new"), range(40)))
    assert len(set(made)) == 40 and all(one.is_dir() for one in made)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        made_folder(tmp_path / "file" / "new")
