"""Two real processes that are not alike: they see other images, have other options, versions or weights."""

import pytest

from tests.parity.interrupted import SHORT
from tests.processes import TWO, finish, finish_all, linux_only, srun, start

DRIFTING = """
import os, torch
from vit.training.loop import Classifier
step = Classifier.training_step
def drifting(classifier, batch, place):
    if os.environ.get("LOCAL_RANK") == "1" and classifier.trainer.global_step == 3:
        with torch.no_grad():
            next(classifier.parameters()).view(-1)[0].add_(1e-3)
    return step(classifier, batch, place)
Classifier.training_step = drifting
"""


def errors(said):
    return [line for line in said.splitlines() if line.startswith("vit: error[")]


@linux_only
@pytest.mark.parametrize(
    ("what", "words"),
    [
        pytest.param("classes", "other classes (a, b, c; a, b) than process 0", marks=pytest.mark.faults("X6")),
        pytest.param("images", "other images than process 0", marks=[pytest.mark.slow, pytest.mark.faults("X6")]),
        pytest.param("options", "other options than process 0", marks=pytest.mark.faults("X7")),
        pytest.param(
            "versions",
            "other versions of pillow (",
            marks=[pytest.mark.slow, pytest.mark.faults("X7", simulated="other package metadata")],
        ),
    ],
)
def test_machines_that_are_not_alike_do_not_begin(tmp_path, draw_classes, what, words):
    """Each task finds its own `photos` in its own folder, as machines with disks of their own do."""
    commands = []
    for rank in range(2):
        odd = rank == 1
        class_names = ("a", "b") if odd and what == "classes" else ("a", "b", "c")
        photos = draw_classes(tmp_path / f"task{rank}" / "photos", class_names, 14)
        if odd and what == "images":
            (photos / "a" / "00.png").rename(photos / "a" / "other.png")
        if odd and what == "versions":  # another pillow is installed there, by what Python's metadata say
            metadata = tmp_path / "task1" / "pillow-1.0.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text("Metadata-Version: 2.1\nName: pillow\nVersion: 1.0\n")
        seed = int(odd and what == "options")
        commands.append(("train", "photos", *SHORT, "--batch_size", 8, "--seed", seed, "--out", "runs"))
    script = "import sys, os\nsys.path.insert(0, os.getcwd())"
    (first, _, said), second = finish_all(tmp_path, srun(tmp_path, *commands, script=script), 300)
    (line,) = errors(said)
    assert (first, second) == (8, (0, "", "")) and "process 1 has " + words in line, (said, second)
    assert not list(tmp_path.glob("task*/runs/**/*.ckpt"))


@linux_only
@pytest.mark.faults("X10")
def test_weights_that_drift_apart_end_the_training_at_the_next_validation(colors, tmp_path):
    process = start(tmp_path, "train", colors, *SHORT, *TWO, "--out", tmp_path / "runs", script=DRIFTING)
    _, said = finish(tmp_path, process, 300)
    (line,) = errors(said)
    assert process.returncode == 8 and "the weights of process 1 are not those of process 0 after step " in line
    assert not list(tmp_path.glob("runs/**/result.json"))
