"""Before cells are trained, those that were killed right after their results are cleared up."""

import pytest

from tests.processes import ended, linux_only

STUDY = (
    *("study", "digits", "--networks", "vit_nano_patch2_8", "--vary", "model.network.pool=cls,mean"),
    *("--set", "augment.name=none", "--set", "model.network.depth=1", "--set", "trainer.accelerator=cpu"),
    *("--sizes", "20", "--seeds", "1", "--budget", "steps:6", "--jobs", "2", "--wandb", "off"),
)
KILLED_WITH_RESULT = """
import os, signal
from vit.checkpoints.result import RunResult

def write(*values, write=RunResult.write):
    write(*values)
    os.kill(os.getpid(), signal.SIGKILL)

RunResult.write = write
"""


@linux_only
@pytest.mark.faults("R9", "R12")
@pytest.mark.slow
def test_cells_that_are_killed_after_their_results_are_cleared_up(vit, tmp_path):
    """Each process dies between its result.json and the end of its training; the next start has nothing to train."""
    ended(tmp_path, 0, *STUDY, "--out", tmp_path, script=KILLED_WITH_RESULT)
    found = {name: list(tmp_path.rglob(name)) for name in ("result.json", ".lock", "last.ckpt", "best.ckpt")}
    assert {name: len(paths) for name, paths in found.items()} == dict.fromkeys(found, 2)
    results = [path.read_bytes() for path in found["result.json"]]
    vit(*STUDY, "--out", tmp_path).noted("2 of 2 cells were done before")
    assert [path.read_bytes() for path in found["result.json"]] == results
    assert not list(tmp_path.rglob(".lock")) and not list(tmp_path.rglob("last.ckpt"))
    assert all(path.is_file() for path in found["best.ckpt"])
