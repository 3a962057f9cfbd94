"""What differs between one class and several labels stands in the task: nothing else decides the kind again."""

import re
from pathlib import Path

import numpy as np
import pytest

import vit
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, task_of, task_of_columns, task_with

PACKAGE = Path(vit.__file__).parent
BRANCHES = re.compile(r"is_multilabel|is_exclusive|multilabel is (not )?None|isinstance\([^)]*Labels\)")
MOST_BRANCHES = 60  # outside of vit/tasks; only refusals of several labels may add to it


def test_no_room_decides_the_kind_again():
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "tasks"
        for line in path.read_text(encoding="utf-8").splitlines()
        if BRANCHES.search(line)
    ]
    assert not [line for line in found if "is_multilabel" in line]
    assert len(found) <= MOST_BRANCHES, found


@pytest.mark.parametrize(
    ("task", "labels", "names"),
    [
        (SINGLE_LABEL, np.array([1, -1, 0]), ["b", "", "a"]),
        (MULTI_LABEL, np.array([[1, 0], [-1, 1], [0, 0]], dtype=np.int8), ["a", "?a|b", ""]),
    ],
)
def test_a_task_is_known_by_its_labels_and_counts_and_names_them(task, labels, names):
    assert task_of(labels) is task
    assert task.names(labels, ("a", "b")) == names
    assert task.counts(labels, 2).tolist() == [1, 1]


def test_rules_of_labels_and_columns_tell_the_task():
    assert task_with(None) is SINGLE_LABEL and task_with({"thresholds": [0.5]}) is MULTI_LABEL
    for task in (SINGLE_LABEL, MULTI_LABEL):
        assert task_of_columns(["path", task.column, "split"]) is task
        assert task_of_columns(task.validation_columns) is task
