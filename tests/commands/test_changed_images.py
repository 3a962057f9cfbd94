"""Image files that were replaced under their names between two commands: no answer mixes old and new contents."""

import shutil

import numpy as np
import pytest
from PIL import Image

from tests.runs import run_folder
from vit.data.split import read_splits

pytestmark = pytest.mark.usefixtures("here")
TINY = ("--network", "vit_nano_patch2_8", "--image_size", 8, "--optim.steps", 2, "--optim.batch_size", 8)


@pytest.fixture
def trained(vit, here):
    """`trained(name, data, *options)`: the folder of a small training."""

    def train(name, data, *options):
        answer = vit("train", data, *TINY, *options, "--out", here / "runs" / name, "--wandb", "off")
        assert answer.code == 0, answer.err
        return run_folder(here / "runs" / name)

    return train


def replaced(run, split, count=None):
    """Replace images of a split by their negatives; the names of these files."""
    paths = [row.path for row in read_splits(run / "splits.csv")[split][:count]]
    for path in paths:
        with Image.open(path) as picture:
            pixels = 255 - np.asarray(picture)
        Image.fromarray(pixels).save(path)
    return paths


def test_other_contents_under_the_same_names_are_not_compared(vit, here, trained, colors):
    """The runs were paired as if they had seen the same pictures."""
    shutil.copytree(colors, here / "photos")
    first = trained("a", "photos", "--seed", 0)
    (path, *_) = replaced(first, "test", 2)
    second = trained("b", "photos", "--seed", 1)
    third = trained("c", "photos", "--seed", 2)
    answer = vit("compare", first, second)
    assert answer.code == 3 and "2 of 9 have the same names and other contents" in answer.err
    assert "have different test images" in answer.err and path.rpartition("/")[2] in answer.err
    assert vit("compare", second, third).code == 0
    shutil.rmtree(third)
    told = vit("runs")
    assert told.out.splitlines()[-1].startswith("Next: vit predict "), told.err
    header, *lines = (first / "splits.csv").read_text().splitlines()
    bare = [",".join(line.split(",")[:3]) for line in (header, *lines)]
    (first / "splits.csv").write_text("\n".join(bare) + "\n")
    assert vit("compare", first, second).code == 0, "hashes that are not known do not differ"
    assert vit("runs").out.splitlines()[-1].startswith("Next: vit compare ")


def test_the_same_images_in_another_folder_are_compared(vit, here, trained, colors):
    shutil.copytree(colors, here / "one" / "photos")
    shutil.copytree(colors, here / "two" / "photos")
    folders = [trained(name, here / name / "photos") for name in ("one", "two")]
    assert vit("compare", *folders).code == 0
