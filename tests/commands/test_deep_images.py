"""A training on images of 16 bits, whose classes differ in the lower 8 bits alone."""

import numpy as np
import pytest
import yaml
from PIL import Image

from tests.runs import run_folder
from tests.tables import rows

pytestmark = pytest.mark.usefixtures("here")
TINY = ("--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--data.num_workers", 0,
        "--augment.name", "none", "--epochs", 12, "--batch_size", 8, "--wandb", "off")  # fmt: skip
LEVELS = {"dark": 1030, "gray": 1110, "light": 1190}  # with noise 1,024 to 1,200: one high byte


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("deep"), np.random.default_rng(0)
    for name, level in LEVELS.items():
        (folder / name).mkdir()
        for number in range(24):
            values = (level + rng.integers(-6, 7, (12, 12))).astype(np.uint16)
            Image.fromarray(values).save(folder / name / f"{number:02}.png")
    return folder


@pytest.mark.faults("I16")
def test_gray_values_are_kept_in_training_and_prediction(vit, deep, here):
    vit("train", deep, *TINY, "--out", "runs").ok("gray values from 1,024 to 1,196")
    run = run_folder(here / "runs")
    assert yaml.safe_load((run / "config.yaml").read_text())["model"]["preprocess"]["window"] == [1024.0, 1196.0]
    vit("predict", run, deep, "--recursive", "--output", "p.csv", "--gallery").ok()
    found = rows(here / "p.csv")
    right = [row["label"] == row["path"].split("/")[-2] for row in found]
    assert np.mean(right) > 0.95
    for name, output in (("timm", "t.safetensors"), ("hf", "folder")):
        answer = vit("export", run, "--format", name, "--output", output)
        assert answer.code == 2 and "has no window of values" in answer.err and not (here / output).exists()


@pytest.mark.faults("I16")
@pytest.mark.slow
def test_without_a_window_only_the_high_byte_is_seen(vit, deep, here):
    """What the window is for: as all values of 16 bits, the classes are one color."""
    vit("train", deep, *TINY, "--out", "runs", "--model.preprocess.window", "[0, 65535]").ok()
    assert vit("predict", run_folder(here / "runs"), deep, "--recursive", "--output", "p.csv").code == 0
    found = rows(here / "p.csv")
    assert np.mean([row["label"] == row["path"].split("/")[-2] for row in found]) < 0.6
    answer = vit("train", deep, *TINY, "--out", "other", "--model.preprocess.window", "[9, 9]")
    assert answer.code == 2 and "--model.preprocess.window [9, 9] is empty" in answer.err
