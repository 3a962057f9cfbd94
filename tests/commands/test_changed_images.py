"""Image files that were replaced under their names between two commands: no answer mixes old and new contents."""

import shutil

import numpy as np
import pytest
from PIL import Image

from tests.runs import run_folder
from vit.console import Reporter
from vit.data.splits.split import read_splits
from vit.extras.demo.page import examples_of

pytestmark = pytest.mark.usefixtures("here")
TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--optim.steps", 2,
    "--optim.batch_size", 8,
)  # fmt: skip


@pytest.fixture
def trained(vit, here):
    """`trained(name, data, *options)`: the folder of a small training."""

    def train(name, data, *options):
        vit("train", data, *TINY, *options, "--out", here / "runs" / name, "--wandb", "off").ok()
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


@pytest.mark.faults("D38")
def test_other_contents_under_the_same_names_are_not_compared(vit, here, trained, colors):
    """The runs were paired as if they had seen the same pictures."""
    shutil.copytree(colors, here / "photos")
    first = trained("a", "photos", "--seed", 0)
    (path, *_) = replaced(first, "test", 2)
    second = trained("b", "photos", "--seed", 1)
    third = trained("c", "photos", "--seed", 2)
    answer = vit("compare", first, second).failed(3, "2 of 8 have the same names and other contents")
    assert "have different test images" in answer.err and path.rpartition("/")[2] in answer.err
    assert vit("compare", second, third).code == 0
    shutil.rmtree(third)
    told = vit("runs")
    assert told.out.splitlines()[-1].startswith("Next: vit predict "), told.err
    (first / "splits.csv").unlink()
    vit("compare", first, second).failed(3, f"{first} has no splits.csv")


def test_the_same_images_in_another_folder_are_compared(vit, here, trained, colors):
    shutil.copytree(colors, here / "one" / "photos")
    shutil.copytree(colors, here / "two" / "photos")
    folders = [trained(name, here / name / "photos") for name in ("one", "two")]
    assert vit("compare", *folders).code == 0


@pytest.mark.faults("D39")
def test_runs_on_other_training_images_are_no_repeats(vit, here, trained, draw_classes):
    """`vit compare` took them together as runs that differ in their seed alone."""
    for split, each in (("train", 10), ("validation", 3), ("test", 4)):
        draw_classes(here / "photos" / split, ("blue", "red"), each)
    folders = [trained(f"seed{seed}", "photos", "--seed", seed) for seed in range(2)]
    together = vit("compare", *folders).out
    assert "differ in their seed alone" in together and "training images" not in together
    replaced(folders[0], "train", 3)
    folders.append(trained("changed", "photos", "--seed", 2))
    told = vit("compare", *folders[1:]).out
    assert "differ in their seed alone" not in told and "McNemar" in told
    (row,) = [line.split() for line in told.splitlines() if line.startswith("training images")]
    assert row == ["training", "images", "20", "(set", "1)", "20", "(set", "2)"]
    draw_classes(here / "photos" / "train", ("blue", "red"), 12)
    folders.append(trained("grown", "photos", "--seed", 3))
    assert " ".join(vit("compare", folders[1], folders[3]).out.split()).count("20 (set 1) 24 (set 2)") == 1


def test_subsets_of_several_seeds_are_repeats(vit, here, trained, colors):
    """Each seed draws its own images, which is what its repeats are about."""
    shutil.copytree(colors, here / "photos")
    subset = ("--data.train_images", 12)
    folders = [trained(f"seed{seed}", "photos", "--seed", seed, *subset) for seed in range(2)]
    together = vit("compare", *folders).out
    assert "differ in their seed alone" in together and "training images" not in together
    replaced(folders[0], "train")
    folders.append(trained("changed", "photos", "--seed", 2, *subset))
    assert "training images" in vit("compare", folders[0], folders[2]).out


@pytest.mark.faults("D40")
def test_pages_show_no_other_image_beside_an_old_prediction(vit, here, trained, colors):
    """`vit report` and `vit compare --page` drew the new content of a file beside the prediction for the old one."""
    shutil.copytree(colors, here / "photos")
    first, second = (trained(f"seed{seed}", "photos", "--seed", seed, "--optim.lr", 10**-seed) for seed in (1, 3))
    assert vit("report", first).code == 0
    before = (first / "report.html").read_text()
    assert "no picture" not in before
    paths = replaced(first, "test")
    answer = vit("report", first)
    told = f"{len(paths)} images have no picture, because their files have changed since the training"
    page = (first / "report.html").read_text()
    assert answer.code == 0 and told in answer.err and f"<p>{told}.</p>" in page
    assert 'src="data:image/png' not in page and page.count("no picture</span>") == before.count('src="data:image/png')
    answer = vit("compare", first, second, "--page", "page.html")
    shown = (here / "page.html").read_text()
    assert answer.code == 0 and 'src="data:image/png' not in shown
    num_changed = shown.count("no picture</span>")
    assert num_changed > 1 and f"{num_changed} images have no picture" in answer.err
    assert f"<p>{num_changed} images have no picture, because" in shown
    (here / paths[0]).unlink()
    assert vit("report", first).err.count(f"{len(paths) - 1} images have no picture") == 1, (
        "a missing file is no other image"
    )


@pytest.mark.faults("D40")
def test_a_page_of_several_labels_shows_no_other_image(vit, here, trained, labels_csv):
    shutil.copytree(labels_csv.parent, here / "labels")
    run = trained("several", here / "labels" / labels_csv.name)
    assert vit("report", run).code == 0
    num_shown = (run / "report.html").read_text().count('src="data:image/png')
    replaced(run, "test")
    answer = vit("report", run)
    page = (run / "report.html").read_text()
    assert num_shown and answer.code == 0 and 'src="data:image/png' not in page
    assert "images have no picture, because" in answer.err and "images have no picture, because" in page


def test_examples_of_the_demo_are_the_images_of_their_labels(here, trained, colors):
    """The demo offered the new content of a file with the old label."""
    shutil.copytree(colors, here / "photos")
    run = trained("a", "photos")
    before = examples_of(run, here / "none", Reporter())
    (path,) = replaced(run, "validation", 1)
    assert [one for one in before if one != path] == examples_of(run, here / "none", Reporter())
    assert path in before


@pytest.mark.slow
def test_options_that_change_nothing_do_not_divide_repeats(vit, here, trained, colors):
    """A seed with another cache or other worker processes was a recipe of its own."""
    shutil.copytree(colors, here / "photos")
    others = [(), ("--data.cache", "none"), ("--checkpoint_every", "5min", "--data.num_workers", 0)]
    folders = [trained(f"seed{seed}", "photos", "--seed", seed, *own) for seed, own in enumerate(others)]
    told = vit("compare", *folders).out
    assert "differ in their seed alone" in told and "data.cache" not in told
