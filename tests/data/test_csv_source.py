"""DATA as a CSV file: class names and images of each split."""

from pathlib import Path

import pytest

from vit.data.dataset_names import TableColumns
from vit.data.groups import twin_notes
from vit.data.samples import Source
from vit.data.sources import open_source
from vit.errors import DataError


def table(root: Path, content: str | bytes) -> Path:
    """A CSV beside four image files."""
    for name in ("1.jpg", "2.jpg", "3.jpg", "odd, name\n.jpg"):
        (root / name).touch()
    path = root / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def labels(source: Source, split: str) -> dict[str, str]:
    """Path -> class name."""
    samples = source.splits[split]
    return dict(zip(samples.paths, (source.class_names[number] for number in samples.labels), strict=True))


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
        ("image,target,subset\n1.jpg,b,train\n2.jpg,a,\n", "'image' as path, 'target' as label, 'subset' as split"),
    ],
)  # fmt: skip
def test_other_separators_and_names_of_columns_are_taken_and_said(tmp_path: Path, content: str, note: str) -> None:
    source = open_source(str(table(tmp_path, content)))
    assert labels(source, "train") == {"1.jpg": "b", "2.jpg": "a"}
    assert len(source.notes) == 1 and note in source.notes[0]


@pytest.mark.faults("D24")
@pytest.mark.faults("N6")
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
        ("path,label\n1.jpg,\n", ["line 2", "empty"]),
        ("path,label\n1.jpg\n", ["line 2", "empty"]),
        ("path,label\n1.jpg,a\n,b\n", ["line 3", "empty"]),
        ("path,label\n1.jpg,a\n2.jpg,b\n1.jpg,b\n", ["line 4", "'1.jpg'", "line 2"]),
        ("path,label,split\n1.jpg,a,trian\n", ["line 2", "'trian'", "'train'"]),
        ("path,label,split\n1.jpg,a,\n2.jpg,b,\n3.jpg,c,val\n", ["'c'", "'a', 'b'"]),
        ("path,label\n1.jpg,\u00e9\n".encode("latin-1"), ["line 2", "UTF-8"]),
        ("path,label\n1.jpg,a\n".encode("utf-16"), ["lacks the column"]),
        (b"path,label\n" + b"x" * 200_000, ["not a CSV"]),
        ("path,labels\n1.jpg,a,b\n2.jpg,b\n", ["line 2: 3 cells, and the header 2 columns", "a|b"]),
        ("path,label\n1.jpg,a\n2.jpg,crane, bird\n", ["line 3: 3 cells", "quote"]),
        ('path,label\n1.jpg,"a\n2.jpg,b\n3.jpg,"a"\n', ["line 2", "quote"]),
        ('path,label\n1.jpg,"a\n2.jpg,b\n3.jpg,a"\n', ["line 2: a cell goes on to line 4", "quote"]),
        ('path,label\n1.jpg,b\n2.jpg,"a\n3.jpg,b\n', ["line 3", "quote"]),
        ('path,label\n1.jpg,b\n2.jpg,a\n3.jpg, "c, d"\n', ["line 4: 3 cells"]),
        (bytes(range(256)), ["lacks the column"]),
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
    assert source.class_names == classes and not source.is_multilabel and train.groups is None
    assert set(train.paths) <= {"1.jpg", "2.jpg", "3.jpg"} and list(source.splits) == ["train"]


def test_several_labels_have_columns_that_are_given_by_name(tmp_path: Path) -> None:
    lists = "path,label,tags\n1.jpg,a,x|y\n2.jpg,b,y\n3.jpg,b,x\n"
    source = open_source(str(table(tmp_path, lists)), columns=TableColumns(label="tags"))
    assert source.is_multilabel and source.class_names == ("x", "y")
    cells = "path,crop,top,left\n9.jpg,1.jpg,0,1\n8.jpg,2.jpg,1,1\n7.jpg,3.jpg,1,0\n"
    source = open_source(str(table(tmp_path, cells)), columns=TableColumns(image="crop"))
    assert source.is_multilabel and source.class_names == ("left", "top")
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


@pytest.mark.parametrize("name", ["fold", "set", "Partition"])
def test_a_column_of_other_numbers_is_not_that_of_splits(tmp_path: Path, name: str) -> None:
    source = open_source(str(table(tmp_path, f"path,label,{name}\n1.jpg,a,0\n2.jpg,b,1\n3.jpg,b,\n")))
    assert list(source.splits) == ["train"] and len(source.splits["train"]) == 3
    assert source.notes == [f"table.csv: read '{name}' as split; the column '{name}' is not read: no cell is train, "
                            "validation or test"]  # fmt: skip


def test_a_wrong_split_among_splits_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3: split is 'trian'"):
        open_source(str(table(tmp_path, "path,label,set\n1.jpg,a,test\n2.jpg,b,trian\n")))


@pytest.mark.faults("D37")
def test_groups_that_people_would_take_for_one_are_one_or_are_told(tmp_path: Path) -> None:
    rows = "path,label,patient\n1.jpg,a,p 1 \n2.jpg,b, p 1\n3.jpg,b,P  1\n"
    source = open_source(str(table(tmp_path, rows)))
    assert source.splits["train"].groups == ("p 1", "p 1", "P  1")
    (note,) = twin_notes(source)
    assert note.startswith("WARNING: groups 'P  1' and 'p 1' differ only in case, spaces or Unicode form")


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
