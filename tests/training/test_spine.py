"""The spine of a training is short: few frames from the command to Lightning, and two files that say all steps."""

import traceback
from pathlib import Path

from lightning.pytorch import Trainer

import vit
from vit.errors import VitError

TRAINING = Path(vit.__file__).parent / "training"
MOST_LINES = 300
MOST_FRAMES = 6


class Reached(VitError):
    """Ends a training where Lightning would begin."""


def test_few_frames_lie_between_the_command_and_lightning(vit, tmp_path, monkeypatch):
    stacks = []

    def reached(*_, **__):
        frames = traceback.extract_stack()
        stacks.append([frame.name for frame in frames if Path(frame.filename).is_relative_to(TRAINING.parent)])
        raise Reached("reached")

    monkeypatch.setattr(Trainer, "fit", reached)
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 1, "--wandb", "off")
    vit("train", "digits", *options, "--out", tmp_path)
    (stack,) = stacks
    between = stack[stack.index("run_training") :]
    assert between == ["run_training", "fit", "until_it_fits", "attempt", "train_network"]
    assert len(between) <= MOST_FRAMES


def test_the_two_files_of_a_training_are_short_and_begin_with_a_map():
    for name, landmarks in {
        "fit.py": ("1. data", "2. network", "3. loop", "4. best weights", "5. calibration", "7. measurement"),
        "loop.py": ("TrainingModule", "Classifier", "callbacks/", "checkpoints.py"),
    }.items():
        text = (TRAINING / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= MOST_LINES, name
        assert all(landmark in text.split('"""')[1] for landmark in landmarks), name
        files = [word.strip("(),;:") for word in text.split('"""')[1].split() if word.strip("(),;:").endswith(".py")]
        for file in files:
            homes = [TRAINING, TRAINING / "callbacks", TRAINING.parent.parent]
            assert any((home / file).is_file() for home in homes), f"{name} names {file}, which does not exist"
