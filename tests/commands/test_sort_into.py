"""`vit predict --sort_into`: files in a folder for each class, none overwritten, none lost"""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import vit as api
from tests.tables import rows
from vit.commands.predicting.predicted_rows import SortedFiles
from vit.data.core.dataset_names import PREDICTED_NAME
from vit.errors import UsageError
from vit.inference.files import ListedImages

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def photos(mixed, here):
    """Three pictures, two of them of one name, and a broken one."""
    for folder in ("old", "new"):
        (here / "photos" / folder).mkdir(parents=True)
        shutil.copy(mixed / "a b.png", here / "photos" / folder / "a b.png")
    shutil.copy(mixed / "a b.png", here / "photos" / "new" / "=1+1.png")
    shutil.copy(mixed / "cut.png", here / "photos" / "new" / "cut.png")
    return here / "photos"


def files_below(folder):
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if name != PREDICTED_NAME)


def test_each_file_is_copied_to_the_folder_of_its_class(vit, digits_run, photos, here):
    before = files_below(photos)
    answer = vit("predict", digits_run.path, photos, "--recursive", "--sort_into", "sorted")
    assert answer.code == 0 and "3 files copied (by prediction), listed in predictions-sorted.csv" in answer.out
    (label,) = {row["label"] for row in rows(here / "predictions.csv") if row["status"] == "ok"}
    assert files_below(here / "sorted") == [f"{label}/{name}" for name in ("=1+1.png", "a b-2.png", "a b.png")]
    places = {row["sorted_to"] for row in rows(here / "predictions-sorted.csv")}
    assert places == {f"sorted/{name}" for name in files_below(here / "sorted")}
    assert files_below(photos) == before and not (here / "sorted-unsure").exists()
    vit("predict", digits_run.path, photos, "--recursive", "--sort_into", "sorted").failed(2, "sorted exists already")
    vit("predict", digits_run.path, photos, "--recursive", "--sort_into", ".").failed(2, ". exists already")


def test_labels_that_are_predictions_are_warned_of_until_somebody_corrects_them(vit, digits_run, photos, here):
    """Evaluated with the model that sorted them, all are right."""
    api.predict(digits_run.path, photos, recursive=True, sort_into="sorted")
    vit("evaluate", digits_run.path, "sorted", "--output", "first").noted("WARNING: the labels are predictions")
    Path("sorted", PREDICTED_NAME).unlink()
    assert "the labels are predictions" not in vit("evaluate", digits_run.path, "sorted", "--output", "second").err


def test_unsure_images_lie_apart_below_their_best_guess(digits_run, photos, here):
    api.predict(digits_run.path, photos, recursive=True, sort_into="sorted", sort_by="link", reject_below=0.99999)
    assert len(files_below(here / "sorted-unsure")) == 3 and not (here / "sorted").exists()
    links = [here / "sorted-unsure" / name for name in files_below(here / "sorted-unsure")]
    assert all(link.is_symlink() and link.resolve().parent.parent == photos for link in links)


def test_files_move_after_a_dry_run_and_bad_ones_stay(vit, digits_run, photos, here):
    command = ("predict", digits_run.path, photos, "--recursive", "--sort_into", "sorted", "--sort_by", "move")
    before = files_below(photos)
    vit(*command).noted("nothing was moved: 3 files would be; --yes moves them")
    assert files_below(photos) == before and not (here / "sorted").exists()
    (photos / "link.png").symlink_to(photos / "new" / "a b.png")  # its file stays whole
    vit(*command, "--yes").ok("4 files moved")
    assert files_below(photos) == ["new/cut.png"] and len(files_below(here / "sorted")) == 4
    assert not any(path.is_symlink() or path.stat().st_size < 50 for path in (here / "sorted").rglob("*.png"))


def test_a_file_that_several_paths_lead_to_moves_once_and_a_link_with_its_picture(vit, digits_run, photos, here):
    """The second name of a moved file, and a link to it, ended the command with files in both folders."""
    (photos / "z.png").symlink_to(Path("new", "=1+1.png"))
    (photos / "same").symlink_to("old")
    command = ("--recursive", "--sort_into", "sorted", "--sort_by", "move", "--yes")
    vit("predict", digits_run.path, photos, photos / "same", "photos/new", *command).ok("4 files moved")
    (label,) = {path.name for path in (here / "sorted").iterdir() if path.is_dir()}
    assert files_below(here / "sorted") == [f"{label}/{name}" for name in ("=1+1.png", "a b-2.png", "a b.png", "z.png")]
    assert not any(path.is_symlink() for path in (here / "sorted").rglob("*.png"))


def test_a_place_that_is_taken_meanwhile_is_not_overwritten(vit, digits_run, photos, here, monkeypatch):
    make = Path.mkdir

    def taken(self, *mode, **options):
        make(self, *mode, **options)
        (self / "a b.png").write_text("mine")

    monkeypatch.setattr(Path, "mkdir", taken)
    vit("predict", digits_run.path, photos / "old", "--sort_into", "sorted").failed(7, "0 of 1 files are there")
    assert {path.read_text() for path in (here / "sorted").rglob("*.png")} == {"mine"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--sort_by", "move"), "--sort_by and --yes need --sort_into"),
        (("--sort_into", "x", "--parts", "p"), "--sort_into does not go with --parts"),
        (("--sort_into", "x", "--sort_by", "move", "--gallery"), "--sort_into does not go with --gallery"),
    ],
)
def test_options_that_contradict_each_other(vit, digits_run, photos, options, problem):
    vit("predict", digits_run.path, photos, *options).failed(2, problem)


@pytest.mark.parametrize("name", ["../..", "..", "a/b", "", "a\\b"])
def test_a_class_that_leads_out_of_the_folder_is_refused(here, name):
    model = SimpleNamespace(multilabel=None, class_names=("cat", name))
    with pytest.raises(UsageError, match="cannot be the name of a folder"):
        SortedFiles(here / "sorted", "copy", here / "rows.csv").check(model, ListedImages(["a.png"]))
