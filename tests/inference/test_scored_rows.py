"""Rows of scored images on disk: written values come back."""

import numpy as np
import pytest

from vit.errors import DataError
from vit.inference.scored_images import ScoredImages
from vit.inference.scored_rows import read_scored

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
