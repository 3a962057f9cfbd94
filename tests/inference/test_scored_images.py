"""predictions/SPLIT.csv: what is read is what was written."""

import numpy as np
import pytest

from tests.many_labels import scored_labels
from vit.checkpoints.label_rules import LabelRules
from vit.errors import DataError
from vit.inference.scores.scored_images import ScoredImages, read_scored, read_scored_labels

NAMES = ("caf\udce9\n.png", "=1+1", 'a,"b')


def test_rows_come_back(tmp_path):
    probabilities = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]], dtype=np.float32)
    scored = ScoredImages(NAMES, np.array([0, 1, 1]), probabilities).at(0.5)
    scored.write(tmp_path / "new" / "test.csv", ("cat", "\x1b[1mdog"))
    rows = read_scored(tmp_path / "new" / "test.csv", 3)
    assert [row.path for row in rows] == list(NAMES)
    assert [(row.label, row.predicted) for row in rows] == [
        ("cat", "cat"), ("\x1b[1mdog", "\x1b[1mdog"), ("\x1b[1mdog", "cat")
    ]  # fmt: skip
    np.testing.assert_allclose([row.probability for row in rows], scored.confidences, atol=1e-6)
    np.testing.assert_allclose([row.uncalibrated for row in rows], [0.9, 0.7, 0.6], atol=1e-6)
    np.testing.assert_allclose([row.loss for row in rows], scored.losses, atol=1e-6)


def test_another_number_of_rows_is_an_error(tmp_path):
    scored = ScoredImages(("a.png",), np.array([0]), np.array([[0.9, 0.1]], dtype=np.float32))
    scored.write(tmp_path / "test.csv", ("cat", "dog"))
    assert len(read_scored(tmp_path / "test.csv", 1)) == 1
    with pytest.raises(DataError, match="2 rows"):
        read_scored(tmp_path / "test.csv", 2)


def test_other_columns_are_an_error(tmp_path):
    (tmp_path / "test.csv").write_text("path,label,predicted,probability,loss\na,cat,dog,0.9,2.3\n")
    with pytest.raises(DataError, match="uncalibrated"):
        read_scored(tmp_path / "test.csv", 1)


LABELS = ("=1+1", "b c", "d")


def test_rows_come_back_to_the_last_bit(tmp_path):
    scored, path = scored_labels(50), tmp_path / "some" / "test.csv"
    scored.write(path, LABELS, LabelRules(np.ones(3), np.array([0.3, 0.5, 0.6])))
    found = read_scored_labels(path, LABELS, 50)
    assert found.paths == scored.paths
    np.testing.assert_array_equal(found.labels, scored.labels)
    np.testing.assert_array_equal(found.probabilities, scored.probabilities)
    first = path.read_text().splitlines()[0]
    assert first.startswith("path,labels,predicted,loss,p_=1+1,p_b c,p_d")


@pytest.mark.parametrize("names", [("=1+1", "b c"), ("x", "b c", "d")])
def test_rows_of_other_labels_are_an_error(tmp_path, names):
    scored_labels(5).write(tmp_path / "test.csv", LABELS, LabelRules.unfitted(3))
    with pytest.raises(DataError, match="is damaged"):
        read_scored_labels(tmp_path / "test.csv", names, 5)
