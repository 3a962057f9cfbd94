"""What `vit evaluate` says below its table of classes that have no image."""

import numpy as np
import pytest

from vit.commands.single_label_evaluation import MeasuredImages
from vit.console import Reporter
from vit.inference.metrics import measure
from vit.inference.scored_images import ScoredImages

NAMES = ("ant", "bee", "cat", "dog")


@pytest.mark.parametrize(
    ("predictions", "words"),
    [
        ([0, 1, 1], ""),
        ([0, 1, 2], "; 1 of them is predicted here, and counts as 0 in the macro F1"),
        ([0, 3, 2], "; 2 of them are predicted here, and count as 0 in the macro F1"),
    ],
)
def test_classes_without_images_that_lower_the_macro_f1(capsys, predictions, words):
    """Images of "ant" and "bee" alone."""
    scored = ScoredImages(("0", "1", "2"), np.array([0, 1, 1]), np.eye(4, dtype=np.float32)[predictions])
    measurement = measure(scored, NAMES)
    MeasuredImages(scored, measurement, NAMES).show(Reporter())
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "have no image" in line)
    assert line == "2 of 4 classes have no image here, and so no recall or F1" + words
    f1 = [row.f1 for row in measurement.per_class if row.f1 is not None]
    assert measurement.metrics.macro_f1.value == pytest.approx(sum(f1) / (2 + int("0" + words[2:3])))
