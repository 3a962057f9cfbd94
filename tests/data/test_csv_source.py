"""DATA as a CSV file: class names and images of each split."""

from pathlib import Path

import pytest
from PIL import Image

from tests.data.test_sources import labels
from vit.commands.measuring.measured_images import of_same_task
from vit.data.core.dataset_names import TableColumns
from vit.data.core.groups import group_notes
from vit.data.core.samples import Source
from vit.data.sources.csv_source import other_columns
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL


def table(root: Path, content: str | bytes) -> Path:
    """A CSV beside four image files."""
    for name in ("1.jpg", "2.jpg", "3.jpg", "odd, name\n.jpg"):
        (root / name).touch()
    path = root / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_table_without_splits_is_all_training(tmp_path: Path) -> None:
    source = open_source(str(table(tmp_path, "\ufefflabel,path,note\nb,1.jpg,\na,2.jpg,x\n")))
    assert source.class_names == ("a", "b") and source.name == "table" and list(source.splits) == ["train"]
    assert labels(source, "train") == {"1.jpg": "b", "2.jpg": "a"}
    assert source.splits["train"].file(0) == tmp_path / "1.jpg"


def test_a_table_with_splits(tmp_path: Path) -> None:
    rows = f'path,label,split\n1.jpg,a,\n{tmp_path}/2.jpg,b,Train\n3.jpg,b,val\n"odd, name\n.jpg",a,testing\n'
    source = open_source(str(table(tmp_path, rows)))
    assert labels(source, "train") == {"1.jpg": "a", f"{tmp_path}/2.jpg": "b"}
    assert labels(source, "validation") == {"3.jpg": "b"} and labels(source, "test") == {"odd, name\n.jpg": "a"}
    assert source.splits["train"].file(1) == tmp_path / "2.jpg"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("filename,class\n1.jpg,b\n2.jpg,a\n", "'filename' as path, 'class' as label"),
        ("path;label\n1.jpg;b\n2.jpg;a\n", "separated by semicolons"),
        ("\ufeffImage Path\tCategory\tx\n1.jpg\tb\ty\n2.jpg\ta\tz\n", "'Image Path' as path, 'Category' as label, sep"),
        ('class;note;path\nb;"c,d";1.jpg\na;"e;f";2.jpg\n', "'class' as label, separated by semicolons"),
        ("image,class,subset\n1.jpg,b,train\n2.jpg,a,train\n", "'image' as path, 'class' as label, 'subset' as split"),
    ],
)  # fmt: skip
def test_other_separators_and_names_of_columns_are_taken_and_said(tmp_path: Path, content: str, note: str) -> None:
    source = open_source(str(table(tmp_path, content)))
    assert labels(source, "train") == {"1.jpg": "b", "2.jpg": "a"}
    assert len(source.notes) == 1 and note in source.notes[0]


@pytest.mark.faults("D24", "N6")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["lacks the column path and label"]),
        ("path:label\n1.jpg:a\n", ["lacks the column path and label", "'path:label'"]),
        ("path,color\n1.jpg,a\n", ["lacks the column label or labels", "'color'", "line 2"]),
        ("path,label\n", ["no training images"]),
        ("path,label,split\n1.jpg,a,val\n", ["no training images"]),
        ("path,label\n1.jpg,a\n2.jpg,a\n", ["one class, 'a'"]),
        ("path,label\n1.jpg,a\n9.jpg,b\n", ["line 3", "9.jpg"]),
        ("path,label\n\n\n1.jpg,a\n9.jpg,b\n", ["line 5", "9.jpg"]),
        ('path,label\n"odd, name\n.jpg",a\n9.jpg,b\n', ["line 4", "9.jpg"]),
        ("path,label\n.,a\n2.jpg,b\n", ["line 2"]),
        (f"image,label\n{'x' * 300},a\n{'x' * 300}/1,b\n", ["line 2: there is no file"]),  # a text, or base64
        ("path,label\n1.jpg,\n", ["line 2", "empty"]),
        ("path,label\n1.jpg\n", ["line 2", "empty"]),
        ("path,label\n1.jpg,a\n,b\n", ["line 3", "empty"]),
        ("path,label\n1.jpg,a\n2.jpg,b\n1.jpg,b\n", ["line 4", "'1.jpg'", "line 2"]),
        ("path,label,split\n1.jpg,a,trian\n", ["line 2", "'trian'", "'train'"]),
        ("path,label,split\n1.jpg,a,\n2.jpg,b,\n3.jpg,c,val\n", ["'c'", "'a', 'b'"]),
        ("path,label\n1.jpg,\u00e9\n".encode("latin-1"), ["line 2", "UTF-8"]),
        ("path,label\n1.jpg,a\n".encode("utf-16"), ["one class, 'a'"]),
        (b"path,label\n" + b"x" * 200_000, ["not a CSV"]),
        ("path,labels\n1.jpg,a,b\n2.jpg,b\n", ["line 2: 3 cells, and the header 2 columns", "a|b"]),
        ("path,label\n1.jpg,a\n2.jpg,crane, bird\n", ["line 3: 3 cells", "quote"]),
        ('path,label\n1.jpg,"a\n2.jpg,b\n3.jpg,"a"\n', ["line 2", "quote"]),
        ('path,label\n1.jpg,"a\n2.jpg,b\n3.jpg,a"\n', ["line 2: a cell goes on to line 4", "quote"]),
        ('path,label\n1.jpg,b\n2.jpg,"a\n3.jpg,b\n', ["line 3", "quote"]),
        ('path,label\n1.jpg,b\n2.jpg,a\n3.jpg, "c, d"\n', ["line 4: 3 cells"]),
        (bytes(range(256)), ["not text"]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_table_is_named(tmp_path: Path, content: str | bytes, words: list[str]) -> None:
    path = table(tmp_path, content)
    with pytest.raises(DataError) as caught:
        open_source(str(path))
    assert str(path) in str(caught.value) and caught.value.fix
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_one_file_under_two_names_is_listed_twice(tmp_path: Path) -> None:
    """Else one image could be in train and in test."""
    for other in ("./1.jpg", "x/../1.jpg", str(tmp_path / "1.jpg")):
        path = table(tmp_path, f"path,label,split\n1.jpg,a,train\n2.jpg,b,train\n{other},a,test\n")
        with pytest.raises(DataError, match=r"line 4: .*1.jpg' is also in line 2"):
            open_source(str(path))


@pytest.mark.parametrize(
    ("content", "columns", "classes"),
    [
        ("path,label,kind\n1.jpg,a,x\n2.jpg,b,y\n3.jpg,a,z\n", TableColumns(label="kind"), ("x", "y", "z")),
        ("path,label,set\n1.jpg,a,x\n2.jpg,b,y\n", TableColumns(label="set"), ("x", "y")),  # not read as splits
        ("path,patient,label\n1.jpg,x,a\n2.jpg,y,b\n", TableColumns(label="patient"), ("x", "y")),  # nor as groups
        ("path;label; kind \n1.jpg;a;x\n2.jpg;b;y\n", TableColumns(label="kind"), ("x", "y")),
        ("path,top,left\n1.jpg,0,1\n2.jpg,1,1\n3.jpg,1,0\n", TableColumns(label="left"), ("0", "1")),
        ("path,crop,label\n9.jpg,1.jpg,a\n8.jpg,2.jpg,b\n", TableColumns(image="crop"), ("a", "b")),
    ],
)
def test_columns_that_are_given_by_name(tmp_path: Path, content: str, columns: TableColumns, classes: tuple) -> None:
    source = open_source(str(table(tmp_path, content)), columns=columns)
    train = source.splits["train"]
    assert source.class_names == classes and source.task is SINGLE_LABEL and train.groups is None
    assert set(train.paths) <= {"1.jpg", "2.jpg", "3.jpg"} and list(source.splits) == ["train"]


def test_several_labels_have_columns_that_are_given_by_name(tmp_path: Path) -> None:
    lists = "path,label,tags\n1.jpg,a,x|y\n2.jpg,b,y\n3.jpg,b,x\n"
    source = open_source(str(table(tmp_path, lists)), columns=TableColumns(label="tags"))
    assert source.task is MULTI_LABEL and source.class_names == ("x", "y")
    cells = "path,crop,top,left\n9.jpg,1.jpg,0,1\n8.jpg,2.jpg,1,1\n7.jpg,3.jpg,1,0\n"
    source = open_source(str(table(tmp_path, cells)), columns=TableColumns(image="crop"))
    assert source.task is MULTI_LABEL and source.class_names == ("left", "top")
    assert list(source.splits["train"].paths) == ["1.jpg", "2.jpg", "3.jpg"]


def test_a_column_that_is_there_twice_cannot_be_given(tmp_path: Path) -> None:
    path = table(tmp_path, "path,kind,kind\n1.jpg,a,b\n2.jpg,b,a\n")
    with pytest.raises(DataError, match="has the column 'kind' twice"):
        open_source(str(path), columns=TableColumns(label="kind"))


@pytest.mark.faults("D35")
@pytest.mark.parametrize("header", ["path,label,label", "path,label,split,Split", "path,Path,label"])
def test_a_column_that_is_read_is_there_once(tmp_path: Path, header: str) -> None:
    path = table(tmp_path, f"{header}\n1.jpg,a,b,c\n2.jpg,b,a,c\n")
    with pytest.raises(DataError, match=r"has the column '.*' twice"):
        open_source(str(path))


@pytest.mark.parametrize(("name", "number"), [("fold", 1), ("set", 7), ("Partition", 3)])
def test_a_column_of_other_numbers_is_not_that_of_splits(tmp_path: Path, name: str, number: int) -> None:
    source = open_source(str(table(tmp_path, f"path,label,{name}\n1.jpg,a,0\n2.jpg,b,{number}\n3.jpg,b,\n")))
    assert list(source.splits) == ["train"] and len(source.splits["train"]) == 3
    assert source.notes == [f"table.csv: the column '{name}' is not read: no cell is train, validation or test"]


@pytest.mark.parametrize("name", ["set", "Partition", "eval_partition"])
def test_numbers_that_may_be_splits_are_refused(tmp_path: Path, name: str) -> None:
    path = table(tmp_path, f"path,label,{name}\n1.jpg,a,0\n2.jpg,b,1\n3.jpg,b,2\n")
    with pytest.raises(DataError, match=f"column '{name}' has 0 and 1 and 2: whether these are splits is not known"):
        open_source(str(path))


def test_a_wrong_split_among_splits_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3: split is 'trian'"):
        open_source(str(table(tmp_path, "path,label,set\n1.jpg,a,test\n2.jpg,b,trian\n")))


@pytest.mark.parametrize("name", ["PatientID", "Case ID", "lesion_id"])
def test_columns_of_patients_are_groups(tmp_path: Path, name: str) -> None:
    source = open_source(str(table(tmp_path, f"path,label,{name}\n1.jpg,a,7\n2.jpg,b,7\n3.jpg,b,8\n")))
    assert source.splits["train"].groups == ("7", "7", "8") and f"read '{name}' as group" in source.notes[0]


@pytest.mark.faults("D37")
def test_groups_that_people_would_take_for_one_are_one_or_are_told(tmp_path: Path) -> None:
    rows = "path,label,patient\n1.jpg,a,p 1 \n2.jpg,b, p 1\n3.jpg,b,P  1\n"
    source = open_source(str(table(tmp_path, rows)))
    assert source.splits["train"].groups == ("p 1", "p 1", "P  1")
    (note,) = group_notes(source)
    assert note.startswith(
        "WARNING: groups 'P  1' and 'p 1' differ only in case, spaces, Unicode form or number format"
    )


@pytest.mark.faults("D7")
@pytest.mark.parametrize(
    "content", ["path,label\n1.jpg,a\n", "path,label,split\n1.jpg,a,test\n", "path,label,group,split\n1.jpg,a,g,test\n"]
)
def test_a_table_to_measure_may_have_one_class_and_no_training_images(tmp_path, content):
    file = str(table(tmp_path, content))
    with pytest.raises(DataError):
        open_source(file)
    source = open_source(file, to_measure=True)
    (samples,) = source.splits.values()
    assert source.class_names == ("a",) and samples.paths == ["1.jpg"] and samples.labels.tolist() == [0]


SPLITS = ["train", "train", "valid", "test"]


def photos(root: Path, folder: str = "", count: int = 12) -> list[tuple[str, str]]:
    """(path below `folder`, class) of images below `root`."""
    rows = [(f"{name}/{number:02}.png", name) for name in ("cat", "dog") for number in range(count)]
    for path, _ in rows:
        (root / folder / path).parent.mkdir(parents=True, exist_ok=True)
        (root / folder / path).touch()
    return rows


def counts(source: Source) -> dict[str, int]:
    return {split: len(samples) for split, samples in source.splits.items()}


@pytest.mark.faults("D41")
@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("data_split", SPLITS), ("usage", ["Training", "Training", "PublicTest", "PrivateTest"]), ("phase", SPLITS),
        ("dataset", ["train_set", "training set", "val", "test-set"]), ("type", ["TRAIN", "TRAIN", "VAL", "TEST"]),
        ("split", ["train_1", "train_2", "dev", "eval"]), ("mode", ["", "", "val", "test"]),
    ],
)  # fmt: skip
def test_a_column_of_splits_is_read_whatever_its_name(tmp_path: Path, column: str, words: list[str]) -> None:
    rows = "".join(f"{path},{name},{words[at % 4]}\n" for at, (path, name) in enumerate(photos(tmp_path)))
    (tmp_path / "t.csv").write_text(f"path,label,{column}\n{rows}")
    source = open_source(str(tmp_path / "t.csv"))
    assert counts(source) == {"train": 12, "validation": 6, "test": 6}
    assert source.splits["test"].paths[0] == "cat/03.png"
    assert column == "split" or f"read {column!r} as split" in source.notes[0]
    assert "PublicTest" not in words or "PrivateTest is test, PublicTest is validation" in source.notes[0]


@pytest.mark.faults("D41")
def test_flags_of_splits_are_read_or_refused(tmp_path: Path) -> None:
    rows = photos(tmp_path)
    for column, yes, no, split in (("is_valid", "True", "False", "validation"), ("is_test", "1", "0", "test")):
        text = "".join(f"{path},{name},{yes if at % 3 == 0 else no}\n" for at, (path, name) in enumerate(rows))
        (tmp_path / "t.csv").write_text(f"path,label,{column}\n{text}")
        assert counts(open_source(str(tmp_path / "t.csv"))) == {"train": 16, split: 8}
    (tmp_path / "t.csv").write_text(f"path,label,is_train\n{text}")
    with pytest.raises(DataError, match="whether 0 is for validation or for test is not known"):
        open_source(str(tmp_path / "t.csv"))
    labels_and_flag = "".join(f"{path},{at % 2},{at // 2 % 2},{int(at > 15)}\n" for at, (path, _) in enumerate(rows))
    (tmp_path / "t.csv").write_text(f"path,red,round,is_valid\n{labels_and_flag}")
    source = open_source(str(tmp_path / "t.csv"))
    assert source.class_names == ("red", "round") and counts(source) == {"train": 16, "validation": 8}
    (tmp_path / "t.csv").write_text(f"path,red,round,train\n{labels_and_flag}")
    assert open_source(str(tmp_path / "t.csv")).class_names == ("red", "round", "train")  # a picture of a train


@pytest.mark.faults("D41")
def test_columns_of_splits_that_disagree_or_hold_more_are_refused(tmp_path: Path) -> None:
    rows = photos(tmp_path)
    for header, cells, words in (
        ("split,phase", lambda at: f"{SPLITS[at % 4]},{SPLITS[(at + 1) % 4]}", "line 3: column 'phase' says valid"),
        ("phase", lambda at: [*SPLITS, "extra"][at % 5], "column 'phase' has the splits test and train, and also 'ex"),
        (
            "is_valid,is_test",
            lambda at: f"{int(at % 3 == 0)},{int(at % 3 == 1)}",
            "line 2: column 'is_test' says",
        ),
    ):
        text = "".join(f"{path},{name},{cells(at)}\n" for at, (path, name) in enumerate(rows))
        (tmp_path / "t.csv").write_text(f"path,label,{header}\n{text}")
        with pytest.raises(DataError, match=words):
            open_source(str(tmp_path / "t.csv"))
    text = "".join(f"{path},{name},{SPLITS[at % 4]},{SPLITS[at % 4]}\n" for at, (path, name) in enumerate(rows))
    (tmp_path / "t.csv").write_text(f"path,label,split,phase\n{text}")
    assert counts(open_source(str(tmp_path / "t.csv"))) == {"train": 12, "validation": 6, "test": 6}


@pytest.mark.faults("D41")
def test_columns_that_are_not_read_are_listed_once(tmp_path: Path) -> None:
    """Words that are splits elsewhere may be something else: a means of transport, whether a photograph is public."""
    rows = "".join(
        f"{path},{name},{at},{['train', 'bus'][at % 2]},{['public', 'private'][at % 2]},valid,train\n"
        for at, (path, name) in enumerate(photos(tmp_path))
    )
    (tmp_path / "t.csv").write_text(f"path,label,age,vehicle,visibility,status,from\n{rows}")
    source = open_source(str(tmp_path / "t.csv"))
    assert counts(source) == {"train": 24}
    names = "'age', 'vehicle', 'visibility', 'status', 'from'"
    assert source.notes == [f"t.csv: columns without image or label: {names}"]


@pytest.mark.faults("D42")
@pytest.mark.parametrize(
    ("header", "cell", "encoding", "note"),
    [
        ("path,label", lambda path: path.replace("/", "\\"), "utf-8", "24 names are read as other ones"),
        ("image,label", lambda path: path[:-4], "utf-8", r"such as 'cat/00' as 'cat/00.png'"),
        ("image_id,label", lambda path: path, "utf-8", "read 'image_id' as path"),
        ("id,label", lambda path: path[:-4], "utf-8", "read 'id' as path"),
        ("Image Index,label", lambda path: path, "utf-8", "read 'Image Index' as path"),
        ("path\tlabel", lambda path: path, "utf-16", "separated by tabs"),
        ("path;label", lambda path: path, "utf-16-be", "separated by semicolons"),
        ("sep=;\npath;label", lambda path: path, "utf-8", "separated by semicolons"),
        ("\ufeffsep=,\r\npath,label", lambda path: path, "utf-8", ""),
        ("path,label", lambda path: f" {path} ", "utf-8", "read as other ones"),
    ],
)  # fmt: skip
def test_tables_of_other_programs_are_read(tmp_path: Path, header: str, cell, encoding: str, note: str) -> None:
    mark = header[-6]
    text = f"{header}\n" + "".join(f"{cell(path)}{mark}{name}\n" for path, name in photos(tmp_path))
    start = b"\xfe\xff" if encoding == "utf-16-be" else b""
    (tmp_path / "t.csv").write_bytes(start + text.encode(encoding))
    source = open_source(str(tmp_path / "t.csv"))
    assert source.class_names == ("cat", "dog")
    assert list(source.splits["train"].paths) == [path for path, _ in photos(tmp_path)]
    assert note in "".join(source.notes)
    (tmp_path / "t.csv").write_bytes(start + text.replace("dog", "eel").encode(encoding))
    with pytest.raises(DataError, match=f"line {14 + header.count(chr(10))}: there is no file"):
        open_source(str(tmp_path / "t.csv"))


@pytest.mark.faults("D42")
def test_a_table_beside_the_folders_of_its_images_finds_them(tmp_path: Path) -> None:
    """Kaggle's tables, HAM10000 and ISIC name images without their folder and ending."""
    table, places = tmp_path / "t.csv", [f"part_1/{i}.jpg" for i in range(5)] + [f"part_2/{i}.png" for i in range(5, 8)]
    for place in places:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch()
    for names in ([Path(place).stem for place in places], [Path(place).name for place in places]):
        table.write_text("image_id,label\n" + "".join(f"{name},{i % 2}\n" for i, name in enumerate(names)))
        source = open_source(str(table))
        assert list(source.splits["train"].paths) == places
        assert source.notes[-1].endswith("'part_1/0.jpg'; 5 lie in part_1/; 3 lie in part_2/")
    table.write_text("path,label\npart_1/0,a\npart_1/1.jpg,b\n")
    assert "1 name is read as another one, such as 'part_1/0'" in open_source(str(table)).notes[-1]
    table.write_text("image_id,label\n7.jpg,a\n")
    with pytest.raises(DataError, match=r"no file .*/7\.jpg; it may be part_2/7\.png: write paths from the folder"):
        open_source(str(table))
    table.write_text("image_id,label\n8,a\n")
    with pytest.raises(DataError, match=r"there is no file .*; paths are relative to the CSV; --image_column"):
        open_source(str(table))
    for wrong in ("other/7.png", r"C:\photos\7.png", "part_2/7.PNG"):  # other folders than those that are there
        table.write_text(f"path,label\n{wrong},a\n")
        with pytest.raises(DataError, match=r"; it may be part_2/7\.png: write paths from the folder"):
            open_source(str(table))
    (tmp_path / "part_1" / "7.png").touch()
    for name in ("7", "7.png"):
        table.write_text(f"image_id,label\n{name},a\n")
        with pytest.raises(DataError, match=r"may be part_1/7\.png or part_2/7\.png; write paths from the folder"):
            open_source(str(table))
    (tmp_path / "7.jpg").touch()
    table.write_text("image_id,label\n7,a\n6,b\n")
    assert open_source(str(table)).splits["train"].paths == ["7.jpg", "part_2/6.png"]  # the nearest one


@pytest.mark.faults("D1")
def test_an_image_or_another_file_is_no_table(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    Image.new("RGB", (8, 8)).save(tmp_path / "b", "PNG")
    (tmp_path / "c.xlsx").write_bytes(b"PK\3\4\0\0")
    for name, words in (("a.jpg", "a.jpg is an image"), ("b", "b is an image"), ("c.xlsx", "save it as CSV")):
        with pytest.raises(DataError, match=words):
            open_source(str(tmp_path / name))


@pytest.mark.faults("D8")
def test_labels_lose_spaces_and_other_unicode_forms(tmp_path: Path) -> None:
    text = "path, label\n1.jpg, caf\u00e9\n2.jpg,cafe\u0301 \n3.jpg,\ttea\n"
    source = open_source(str(table(tmp_path, text)))
    assert source.class_names == ("caf\u00e9", "tea") and source.splits["train"].labels.tolist() == [0, 0, 1]
    lists = open_source(str(table(tmp_path, "path,labels\n1.jpg,caf\u00e9 | tea\n2.jpg, ?cafe\u0301\n3.jpg,\n")))
    assert lists.class_names == ("caf\u00e9", "tea")
    with pytest.raises(DataError, match=r"line 3: an empty label \(2 of 3 lines have one\)"):
        open_source(str(table(tmp_path, "path,label\n1.jpg,a\n2.jpg, \n3.jpg,\n")))
    with pytest.raises(DataError, match=r"line 3: an empty path \(2 of 3 lines have one\)"):
        open_source(str(table(tmp_path, "path,label\n1.jpg,a\n ,b\n,b\n")))


def test_only_tables_of_vit_are_read_without_escapes(tmp_path: Path) -> None:
    """Else the row of the file '=e.jpg, with the quote, would read the file without it, and two classes be one."""
    for name in ("=e.jpg", "'=e.jpg"):
        (tmp_path / name).touch()
    (tmp_path / "mine.csv").write_text("path,label\n=e.jpg,-x\n'=e.jpg,'-x\n")
    source = open_source(str(tmp_path / "mine.csv"))
    assert source.splits["train"].paths == ["=e.jpg", "'=e.jpg"] and source.class_names == ("'-x", "-x")
    (tmp_path / "splits.csv").write_text("path,label,split,content\n'=e.jpg,'-x,train,0\n''=e.jpg,x,train,1\n")
    source = open_source(str(tmp_path / "splits.csv"))
    assert source.splits["train"].paths == ["=e.jpg", "'=e.jpg"] and source.class_names == ("-x", "x")


@pytest.mark.faults("D31")
def test_a_one_hot_table_has_one_class_for_an_image(tmp_path: Path) -> None:
    """As ISIC and HAM10000 have it. A model of several labels may be measured on it."""
    rows = photos(tmp_path)
    text = "".join(f"{path},{float(name == 'dog')},{float(name == 'cat')},0\n" for path, name in rows)
    (tmp_path / "t.csv").write_text(f"image,dog,cat,fox\n{text}")
    source = open_source(str(tmp_path / "t.csv"))
    assert source.task is SINGLE_LABEL and source.class_names == ("cat", "dog")
    assert labels(source, "train") == dict(rows)
    assert any("each row has a single 1: one class for an image" in note for note in source.notes)
    assert any("no training image has the class fox" in note for note in source.notes)
    measured = of_same_task(open_source(str(tmp_path / "t.csv"), to_measure=True), True)
    assert measured.class_names == ("cat", "dog", "fox") and measured.splits["train"].labels[0].tolist() == [1, 0, 0]
    (tmp_path / "t.csv").write_text(f"image,dog,cat,fox\n{text.replace('1.0,0.0,0', '1.0,0.0,1')}")
    assert open_source(str(tmp_path / "t.csv")).task is MULTI_LABEL  # dogs are foxes, too


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("path,label\n1.jpg,caf\u00e9\n2.jpg,cafe\u0301\n3.jpg,tea\n", "are one class: they differ only in spaces"),
        ("path,label\n1.jpg,cat\n2.jpg, cat\n3.jpg,tea\n", "' cat' and 'cat' are one class"),
        (
            "path,label,split\n1.jpg,a,train\n2.jpg,b,train\n3.jpg,b,\n",
            "empty split are training images (1 of 3 lines)",
        ),
        ("path,a,b\n1.jpg,1,0\n2.jpg,0,1\n3.jpg,0,0\n", "1 of 3 rows have no 1, such as line 4"),
    ],
)
def test_what_is_taken_for_what_is_said(tmp_path: Path, content: str, note: str) -> None:
    found = [one for one in open_source(str(table(tmp_path, content))).notes if note in one]
    assert len(found) == 1


def test_usual_tables_say_nothing(tmp_path: Path) -> None:
    for content in (
        "path,label\n1.jpg, a\n2.jpg, a\n3.jpg, b\n",
        "path,label,split\n1.jpg,a,\n2.jpg,b,\n3.jpg,b,\n",
        "path,a,b\n1.jpg,1,1\n2.jpg,0,1\n3.jpg,0,0\n",
    ):
        assert open_source(str(table(tmp_path, content))).notes == []


@pytest.mark.parametrize("column", ["label", "labels"])
@pytest.mark.parametrize("cell", ["\"['a', 'b']\"", "['a']", '"[""a""]"', "\"{'a', 'b'}\""])
def test_lists_of_python_are_refused(tmp_path: Path, column: str, cell: str) -> None:
    with pytest.raises(DataError, match=r"line 3: .* is a list"):
        open_source(str(table(tmp_path, f"path,{column}\n1.jpg,c\n2.jpg,{cell}\n")))


def test_class_names_that_are_paths_have_levels_and_a_class_is_no_group(tmp_path: Path) -> None:
    path = table(tmp_path, "path,label\n1.jpg,top/shirt\n2.jpg,top/tee\n3.jpg,shoes\n")
    notes = open_source(str(path)).notes
    assert notes == ["class names with \"/\" are levels: 3 classes in 2 groups such as 'top'"]
    path.write_text("path,label\n1.jpg,top/shirt\n2.jpg,top\n")
    with pytest.raises(DataError, match="the class 'top' is also the group of the class 'top/shirt'"):
        open_source(str(path))
    path.write_text("path,labels\n1.jpg,top/shirt|top/tee\n2.jpg,top/tee\n3.jpg,shoes\n")
    assert open_source(str(path)).notes == ['labels with "/" are names without levels: an image may have several']


def test_a_column_of_labels_with_one_label_in_each_cell_is_said(tmp_path: Path) -> None:
    """Kaggle's FGVC Aircraft has classes in a column Labels, and fastai's tables have spaces between labels."""
    text = "path,Labels,split\n1.jpg,sea horse,train\n2.jpg,cat,train\n3.jpg,dog,train\n"
    notes = " ".join(open_source(str(table(tmp_path, text))).notes)
    assert "each image has one label at most, such as 'sea horse'; name the column label if" in notes
    assert "one label at most" not in " ".join(open_source(str(table(tmp_path, text.replace("cat", "cat|dog")))).notes)


def test_other_columns_are_of_the_files_that_names_without_endings_mean(tmp_path: Path) -> None:
    path = table(tmp_path, "image,label,site\n1,a,arm\n2,b,leg\n3.jpg,b,\n")
    assert other_columns(path, TableColumns()) == {"site": {"1.jpg": "arm", "2.jpg": "leg", "3.jpg": ""}}
    assert set(other_columns(path, TableColumns())["site"]) == set(open_source(str(path)).splits["train"].paths)


def test_columns_that_are_given_by_name_are_not_other_ones(tmp_path: Path) -> None:
    path = table(tmp_path, "photo,kind,site\n1.jpg,a,arm\n2.jpg,b,leg\n")
    assert list(other_columns(path, TableColumns("photo", "kind"))) == ["site"]


def test_a_column_of_classes_with_an_unusual_name_is_advised(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"give the column of classes, such as --label_column 'dx type'"):
        open_source(str(table(tmp_path, "path,dx type\n1.jpg,nv\n2.jpg,mel\n3.jpg,nv\n")))
    with pytest.raises(DataError, match="or write 0 and 1 if it is a label, or remove 'cat' if the other columns are"):
        open_source(str(table(tmp_path, "path,cat,dog\n1.jpg,yes,no\n2.jpg,no,yes\n3.jpg,yes,yes\n")))
