"""Several labels as one text: what is written is read again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.tasks.label_text import check_label_name, label_text, parse_labels
from vit.tasks.task import MULTI_LABEL

NAMES = ("a", "b c", "?".join("xy"), "=1+1")


@given(st.lists(st.sampled_from((1, 0, -1)), min_size=len(NAMES), max_size=len(NAMES)))
def test_every_row_of_labels_is_read_as_it_was_written(row):
    text = label_text(np.array(row, dtype=np.int8), NAMES)
    assert MULTI_LABEL.array([text], NAMES).tolist() == [row]


def test_repeated_labels_count_once_and_contradictions_are_refused():
    assert parse_labels(" cat|cat | ? dog") == {"cat": 1, "dog": -1} and parse_labels("  ") == {}
    for text in ("a||b", "a|", "?", "a|?a"):
        with pytest.raises(ValueError, match=r"without a name|both present and unknown"):
            parse_labels(text)


@pytest.mark.parametrize("name", ["", " a", "a|b", "?a"])
def test_names_that_would_be_read_as_others_are_refused(name):
    with pytest.raises(ValueError, match="label name"):
        check_label_name(name)
