"""Images of one channel and of four, from training to prediction, explanation and export."""

import numpy as np
import pytest
import tifffile
import yaml
from PIL import Image

from tests.runs import run_folder
from tests.tables import rows

pytestmark = pytest.mark.usefixtures("here")
TINY = ("--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--data.num_workers", 0,
        "--augment.name", "none", "--epochs", 12, "--batch_size", 8, "--wandb", "off")  # fmt: skip


def written(folder, channels: int):
    """Images of 16 bits; the class is the channel that is brighter, or the brightness of a single channel."""
    rng = np.random.default_rng(0)
    for label in range(3):
        (folder / f"class{label}").mkdir(parents=True)
        for number in range(24):
            values = rng.integers(900, 1000, (channels, 12, 12)).astype(np.uint16)
            values[(label + 1) % channels] += 100 * label if channels == 1 else 200
            kind = {"planarconfig": "separate"} if channels > 1 else {}
            tifffile.imwrite(
                folder / f"class{label}" / f"{number:02}.tif", values if channels > 1 else values[0],
                photometric="minisblack", **kind,
            )  # fmt: skip
    return folder


@pytest.mark.faults("I23")
@pytest.mark.filterwarnings("ignore")  # of MLflow, about its own types
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.slow
def test_channels_from_training_to_export(channels, vit, here):
    data = written(here / "images", channels)
    options = (*TINY, "--model.preprocess.channels", channels)
    vit("train", data, *options, "--out", "runs").ok(f"{channels} channel", "values from 900 to")
    run = run_folder(here / "runs")
    kept = yaml.safe_load((run / "config.yaml").read_text())["model"]["preprocess"]
    assert kept["channels"] == channels and len(kept["mean"]) == len(kept["std"]) == channels
    assert len(kept["window"]) == (2 if channels == 1 else 8)
    assert vit("predict", run, data, "--recursive", "--output", "p.csv", "--gallery").code == 0
    found = rows(here / "p.csv")
    assert np.mean([row["label"] == row["path"].split("/")[-2] for row in found]) > 0.95
    assert vit("evaluate", run).code == 0
    image = data / "class0" / "00.tif"
    assert vit("explain", run, image, "--output", "explained", "--method", "rollout").code == 0
    assert vit("export", run, "--format", "onnx", "--output", "model.onnx").code == 0
    assert vit("predict", "model.onnx", data, "--recursive", "--output", "q.csv").code == 0
    for one, other in zip(found, rows(here / "q.csv"), strict=True):
        assert one["label"] == other["label"]
        assert float(one["probability"]) == pytest.approx(float(other["probability"]), abs=0.01)  # bfloat16 and float32
    vit("export", run, "--format", "timm", "--output", "t.safetensors").failed(2, f"the network sees {channels}")


@pytest.mark.faults("I23")
def test_a_training_without_the_number_of_channels_names_it(vit, here):
    answer = vit("train", written(here / "images", 4), *TINY, "--out", "runs")
    assert answer.code == 3 and "--model.preprocess.channels 4, if all images are like this one" in answer.err


@pytest.mark.faults("I23")
@pytest.mark.slow
def test_a_pretraining_and_lora_see_all_channels(vit, here):
    data = written(here / "images", 4)
    options = (*TINY[:-8], "--batch_size", 8, "--wandb", "off", "--model.preprocess.channels", 4, "--out", "runs")
    assert vit("pretrain", data, *options, "--epochs", 2, "--method", "mae").code == 0
    backbone = run_folder(here / "runs")
    vit("train", data, *options, "--epochs", 2, "--init_from", backbone, "--model.lora", 2).ok("4 channels")


@pytest.mark.faults("I23")
def test_images_with_other_channels_are_named_in_their_rows(vit, here):
    data = written(here / "images", 4)
    assert vit("train", data, *TINY, "--model.preprocess.channels", 4, "--out", "runs").code == 0
    Image.new("RGB", (12, 12)).save(here / "color.png")
    assert vit("predict", run_folder(here / "runs"), here / "color.png", "--output", "p.csv").code in (0, 3, 5)
    (row,) = rows(here / "p.csv")
    assert row["status"] == "unreadable" and "3 channels, and the model sees 4" in row["error"]


@pytest.mark.faults("I24")
def test_contradictions_of_channels_are_refused(vit, here):
    data = written(here / "images", 4)
    answer = vit("train", data, *TINY, "--model.preprocess.channels", 4, "--augment.randaugment", 2)
    assert answer.code == 2 and "--augment.randaugment 2" in answer.err
    answer = vit("train", data, *TINY, "--model.preprocess.channels", 4, "--model.preprocess.mean", "[0.5,0.5,0.5]")
    assert answer.code == 2 and "--model.preprocess.mean has 3 values for 4 channels" in answer.err
    vit("train", data, *TINY, "--model.preprocess.channels", 17).failed(2, "channels")
    vit("train", data, *TINY, "--model.network.in_chans", 4).failed(2, "--model.preprocess.channels")


def test_the_plan_says_that_randaugment_is_left_out_where_the_preset_has_it(vit, here):
    """It said so of "light" too, which has no RandAugment."""
    data = written(here / "images", 4)
    for augment, is_left_out in (("light", False), ("standard", True)):
        answer = vit("train", data, *TINY, "--model.preprocess.channels", 4, "--augment", augment, "--dry_run").ok()
        assert ("RandAugment needs gray or RGB images" in answer.out) is is_left_out
