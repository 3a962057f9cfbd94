"""predictions/SPLIT.csv of several labels: what is read is what was written, to the last bit."""

import numpy as np
import pytest

from tests.many_labels import scored_labels
from vit.checkpoints.label_rules import LabelRules
from vit.errors import DataError
from vit.inference.scored_labels import read_scored_labels

NAMES = ("=1+1", "b c", "d")


def test_rows_come_back_to_the_last_bit(tmp_path):
    scored, path = scored_labels(50), tmp_path / "some" / "test.csv"
    scored.write(path, NAMES, LabelRules(np.ones(3), np.array([0.3, 0.5, 0.6])))
    found = read_scored_labels(path, NAMES, 50)
    assert found.paths == scored.paths
    np.testing.assert_array_equal(found.labels, scored.labels)
    np.testing.assert_array_equal(found.probabilities, scored.probabilities)
    first = path.read_text().splitlines()[0]
    assert first.startswith("path,labels,predicted,loss,p_=1+1,p_b c,p_d")


@pytest.mark.parametrize("names", [("=1+1", "b c"), ("x", "b c", "d")])
def test_rows_of_other_labels_are_an_error(tmp_path, names):
    scored_labels(5).write(tmp_path / "test.csv", NAMES, LabelRules.unfitted(3))
    with pytest.raises(DataError, match="is damaged"):
        read_scored_labels(tmp_path / "test.csv", names, 5)
