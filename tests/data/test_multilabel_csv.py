"""A CSV with several labels for an image: both layouts, and what is refused."""

import numpy as np
import pytest

from tests.data.test_csv_source import table
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.tasks.task import MULTI_LABEL

EXPECTED = {"1.jpg": [1, 1], "2.jpg": [0, -1], "3.jpg": [0, 0]}  # of the labels a and b


@pytest.mark.parametrize(
    "content",
    [
        "path,labels\n1.jpg,b|a|a\n2.jpg,?b\n3.jpg,\n",
        "Image Path;Tags\n1.jpg;a | b\n2.jpg;? b\n3.jpg;\n",
        "path,b,a\n1.jpg,1,1\n2.jpg,,0\n3.jpg,0,0\n",
        ",image,b,a\n0,1.jpg,1.0,1.0\n1,2.jpg,,0.0\n2,3.jpg,0.0,0.0\n",  # as pandas writes numbers beside empty cells
        "path,b,a,split\n1.jpg,True,true,\n2.jpg,,False,train\n3.jpg,0,0,training\n",
    ],
)
def test_both_layouts_give_the_same_images(tmp_path, content):
    source = open_source(str(table(tmp_path, content)))
    train = source.splits["train"]
    assert source.class_names == ("a", "b") and source.task is MULTI_LABEL and train.labels.dtype == np.int8
    assert dict(zip(train.paths, train.labels.tolist(), strict=True)) == EXPECTED


def test_minus_one_is_absent_where_a_table_has_no_other_word_for_it(tmp_path):
    source = open_source(str(table(tmp_path, "path,b,a\n1.jpg,1,-1\n2.jpg,-1,1\n3.jpg,1,1\n")))
    assert source.splits["train"].labels.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert any("-1 is read as absent" in note for note in source.notes)


@pytest.mark.parametrize("rows", ["b,a\n1.jpg,1,0\n2.jpg,0,1\n3.jpg,,\n", "labels\n1.jpg,a\n2.jpg,b\n3.jpg,?a|?b\n"])
def test_images_of_which_nothing_is_known_are_left_out_and_counted(tmp_path, rows):
    source = open_source(str(table(tmp_path, f"path,{rows}")))
    assert source.splits["train"].paths == ["1.jpg", "2.jpg"] and "left out 1 of 3 train images" in source.notes[0]


@pytest.mark.parametrize(("labels", "listed"), [(["a|b", "a"], 1), (["a; b", "b", "a"], 1), (["a;c", "b", "a"], 0)])
def test_lists_in_a_column_of_classes_are_pointed_at(tmp_path, labels, listed):
    rows = "".join(f"{number}.jpg,{label}\n" for number, label in enumerate(labels, 1))
    source = open_source(str(table(tmp_path, f"path,label\n{rows}")))
    said = f"each cell of the column label is one class, also {labels[0]!r}; several labels need a column labels"
    assert labels[0] in source.class_names and source.notes.count(said) == listed


@pytest.mark.faults("D31")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("path,a,b\n1.jpg,1,0\n2.jpg,0,2\n", ["line 3", "'b'", "'2'", "0, 1 or empty"]),
        ("path,a,age\n1.jpg,1,34\n2.jpg,0,51\n", ["'age'", "'34'", "line 2", "remove 'age'"]),
        ("path,a,b\n1.jpg,1,-1\n2.jpg,0,1\n", ["line 2", "'b'", "-1", "leave unknown cells empty"]),
        ("path,a,b\n1.jpg,1,-1\n2.jpg,,1\n", ["line 2", "-1", "empty"]),
        ("path,labels\n1.jpg,a||b\n2.jpg,a\n", ["line 2", "without a name"]),
        ("path,labels\n1.jpg,a|?a\n2.jpg,b\n", ["line 2", "both present and unknown"]),
        ('path,labels\n1.jpg,"a,b"\n2.jpg,b\n', ["line 2", "','", "cat|indoors"]),
        ("path,tags\n1.jpg,a b\n2.jpg,b\n3.jpg,a\n", ["line 2", "spaces", "cat|indoors"]),
        ("path,labels,split\n1.jpg,a|b,\n2.jpg,a,\n3.jpg,c|a,test\n", ["line 4", "'c'", "known: 'a', 'b'"]),
        ("path,labels\n1.jpg,a|?c\n2.jpg,b\n", ["line 2", "'c'", "no training image"]),
        ("path,a,b\n1.jpg,1,0\n2.jpg,0,0\n", ["no training image has the label 'b'"]),
        ("path,a,b,split\n1.jpg,1,0,\n2.jpg,0,0,\n3.jpg,0,1,test\n", ["no training image has the label 'b'"]),
        ("path,a,b\n1.jpg,1,1\n2.jpg,0,1\n", ["all training images have the label 'b'"]),
        ("path,labels\n1.jpg,a|b\n2.jpg,a\n", ["all training images have the label 'a'"]),
        ("path,a\n1.jpg,1\n2.jpg,0\n", ["1 label;", "name the column label"]),
        ("path,a,a\n1.jpg,1,1\n2.jpg,0,0\n", ["'a' twice"]),
        ("path,a|b,c\n1.jpg,1,0\n2.jpg,0,1\n", ["'a|b'", "rename"]),
        ("path,labels\n9.jpg,a\n2.jpg,b\n", ["line 2", "9.jpg"]),
        ("path,a,b\n1.jpg,1,0\n1.jpg,0,1\n", ["line 3", "also in line 2"]),
        ("path,a,b,split\n1.jpg,1,0,tests\n", ["line 2", "'tests'", "'test'"]),
        ("path,labels\n,a|b\n", ["line 2", "empty path"]),
        ("path,labels,split\n1.jpg,a,val\n", ["no training images"]),
        ("path,labels\n1.jpg,\u00e9|a\n2.jpg,a\n".encode("latin-1"), ["line 2", "UTF-8"]),
    ],
)
def test_what_is_wrong_with_labels_is_named_with_its_place(tmp_path, content, words):
    path = table(tmp_path, content)
    with pytest.raises(DataError) as caught:
        open_source(str(path))
    said = f"{caught.value} {caught.value.fix}"
    assert str(path) in str(caught.value) and all(word in said for word in words), said


def test_a_column_named_like_a_path_is_left_out_with_a_note(tmp_path):
    source = open_source(
        str(table(tmp_path, "path,a,b,image,fold,set\n1.jpg,1,0,0,1,\n2.jpg,0,1,1,2,\n3.jpg,0,1,1,3,\n"))
    )
    (note,) = (note for note in source.notes if "without image or label" in note)
    assert source.class_names == ("a", "b") and "'image', 'fold' (rename one that is a label)" in note


@pytest.mark.faults("D7")
@pytest.mark.parametrize(
    ("content", "names", "expected"),
    [
        ("path,b,a\n1.jpg,1,0\n2.jpg,1,\n", ("a", "b"), [[0, 1], [-1, 1]]),  # no image has a, and all have b
        ("path,a\n1.jpg,0\n2.jpg,1\n", ("a",), [[0], [1]]),
        ("path,b,a,split\n1.jpg,1,0,test\n2.jpg,0,0,test\n", ("a", "b"), [[0, 1], [0, 0]]),
        ("path,labels,split\n1.jpg,a,test\n2.jpg,?b,test\n", ("a", "b"), [[1, 0], [0, -1]]),
        ("path,labels\n1.jpg,?b\n2.jpg,\n", ("b",), [[-1], [0]]),  # other labels of the model are known to be absent
        ("path,labels\n1.jpg,\n2.jpg,\n", (), [[], []]),
    ],
)
def test_a_table_to_measure_may_lack_what_a_training_needs(tmp_path, content, names, expected):
    file = str(table(tmp_path, content))
    with pytest.raises(DataError):
        open_source(file)
    source = open_source(file, to_measure=True)
    (samples,) = source.splits.values()
    assert source.class_names == names and samples.paths == ["1.jpg", "2.jpg"]
    assert samples.labels.tolist() == expected and source.has_label_lists == ("labels" in content)
