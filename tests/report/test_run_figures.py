"""What a tracker gets of a finished run besides its figures."""

from dataclasses import replace

import pytest

from tests.checkpoints.test_result import RESULT
from vit.checkpoints.run import RunDirectory
from vit.report.run.run_page import _track_result


class Kept:
    """A tracker that keeps its summary."""

    def __init__(self):
        self.values = {}

    def summary(self, values):
        self.values |= values

    def artifact(self, path, name, metadata):
        """Not looked at here."""


@pytest.mark.parametrize(("mfu", "tracked"), [(0.25, {"mfu": 0.25}), (None, {})])
def test_the_summary_has_final_numbers(tmp_path, mfu, tracked):
    run, tracker = RunDirectory(tmp_path), Kept()
    run.best_path.parent.mkdir()
    run.best_path.write_bytes(b"weights")
    _track_result(run, replace(RESULT, mfu=mfu), tracker)
    assert tracker.values == {
        "test/acc1": 0.5, "test/acc1_low": 0.1, "test/acc1_high": 0.9, "best/val/loss": 0.5, **tracked
    }  # fmt: skip
