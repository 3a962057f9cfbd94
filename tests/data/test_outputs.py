"""Outputs of the program are never images of a data set, even where `--out .` writes them beside the images."""

from collections.abc import Callable
from pathlib import Path

import pytest

import vit
from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import read_contents
from vit.data.core.image_files import is_output
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.layout import CrossvalLayout
from vit.study.folder import StudyDirectory
from vit.training.fit import write_beginning
from vit.training.recipes.recipe import Recipe

pytestmark = pytest.mark.faults("D25")


@pytest.fixture
def train(here: Path) -> Callable[[str, str], Path]:
    """`train(data, network)` begins a run with a figure, as `vit train --out .` does, and returns its folder."""

    def begin(data: str, network: str) -> Path:
        source = open_source(data)
        run = RunDirectory.create(".", source.name, network, None)
        write_beginning(run, Recipe(), source, read_contents(source))
        (run.path / "figures").mkdir()
        (run.path / "figures" / "confusion_matrix.png").touch()
        return run.path

    return begin


@pytest.mark.slow
def test_a_name_is_the_data_set_where_only_runs_of_it_lie(train: Callable[[str, str], Path], here: Path) -> None:
    for network in ("vit_nano_patch2_8", "resnet10_small"):
        train("digits", network)
        assert len(open_source("digits").splits["train"]) == 1797
    for runs in ("./digits", here / "digits"):
        with pytest.raises(DataError, match="holds runs of this program and no images"):
            open_source(str(runs))


def test_a_study_that_has_the_name_of_its_data_set(train: Callable[[str, str], Path], here: Path) -> None:
    study = StudyDirectory(here / "digits")
    study.describe([], {})
    assert is_output(study.path) and len(open_source("digits").splits["train"]) == 1797
    (study.path / "cells" / "ViT" / "0000020" / "seed0-1").mkdir(parents=True)
    assert len(open_source("digits").splits["train"]) == 1797


def test_folders_of_images_go_before_a_data_set_of_their_name(
    train: Callable[[str, str], Path], here: Path, draw_classes: Callable[..., Path]
) -> None:
    draw_classes(here / "digits", ("one", "two"), 2)
    for found in (open_source("digits"), open_source(str(here / "digits"))):
        assert found.class_names == ("one", "two")
    (here / "mnist").mkdir()
    with pytest.raises(DataError, match="mnist has no class folders"):
        open_source("mnist")


def test_runs_beside_classes_are_no_class(
    train: Callable[[str, str], Path], here: Path, draw_classes: Callable[..., Path]
) -> None:
    draw_classes(here / "photos", ("cat", "dog"), 3)
    before = open_source("photos")
    assert before.notes == []
    train("photos", "vit_nano_patch2_8")
    StudyDirectory(here / "photos").describe([], {})
    (here / "photos" / "cells").mkdir()
    after = open_source("photos")
    assert after.class_names == ("cat", "dog") and after.splits["train"].paths == before.splits["train"].paths
    words = "1 file beside the class folders, 2 folders that vit wrote (cells/, vit_nano_patch2_8/)"
    assert after.notes == [f"skipped: {words}"]


@pytest.mark.usefixtures("empty_figures")
@pytest.mark.slow
def test_what_commands_write_into_the_folder_of_the_images_is_no_class(
    here: Path, draw_classes: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = draw_classes(here / "photos", ("cat", "dog"), 8)
    monkeypatch.chdir(photos)
    small = {"network": "vit_nano_patch2_8", "model.network.depth": 1, "image_size": 8}
    run = vit.train(".", **small, epochs=1, keep_state=True, wandb="off")
    vit.explain(run, "cat/00.png")
    vit.inspect(run)
    vit.evaluate(run, ".", output="measured")
    StudyDirectory(photos / "studies" / "photos").describe([], {})
    CrossvalLayout(photos / "crossval" / "photos").path.mkdir(parents=True)
    CrossvalLayout(photos / "crossval" / "photos").description_path.write_text("{}")
    source = open_source(".")
    assert source.class_names == ("cat", "dog")
    assert source.notes == [
        "skipped: 6 folders that vit wrote (crossval/, explanations/, inspection/, ...)"
    ]  # runs, explanations, inspection, measured, ...
    (run / "result.json").unlink()
    assert vit.train(resume=run) == run


def test_pictures_of_runs_in_a_class_folder_are_none_of_its_images(
    train: Callable[[str, str], Path], here: Path, draw_classes: Callable[..., Path]
) -> None:
    draw_classes(here / "photos", ("cat", "dog"), 3)
    run = train("photos", "vit_nano_patch2_8")
    (here / "photos" / "cat" / "runs" / "photos").mkdir(parents=True)
    run.parent.rename(here / "photos" / "cat" / "runs" / "photos" / "net")
    after = open_source("photos")
    assert after.class_names == ("cat", "dog") and len(after.splits["train"]) == 6
    assert after.notes == ["skipped: 1 folder that vit wrote (runs/)"]


def test_folders_of_images_at_any_depth_are_no_outputs(here: Path, draw_classes: Callable[..., Path]) -> None:
    draw_classes(here / "photos" / "cat" / "2024", ("may", "june"), 2)
    draw_classes(here / "photos" / "dog" / "2024", ("may", "july"), 2)
    found = open_source("photos")
    assert found.class_names == ("cat", "dog") and len(found.splits["train"]) == 8
    (note,) = found.notes
    assert note.startswith("folders inside class folders, such as cat/2024/june/, hold 8 images")


def test_images_beside_a_table_or_page_of_vit_stay_a_class(here: Path, draw_classes: Callable[..., Path]) -> None:
    """`vit explain` and others write their files anywhere, also into the folder of a class."""
    photos = draw_classes(here / "photos", ("cat", "dog", "eel", "fox"), 3)
    (photos / "cat" / "explanations.csv").touch()
    (photos / "dog" / "inspection.html").touch()
    for name in ("metrics.json", "predictions.csv"):
        (photos / "eel" / name).touch()
    run = photos / "fox" / "run"
    run.mkdir()
    for name in ("config.yaml", "splits.csv"):
        (run / name).touch()
    found = open_source("photos")
    assert found.class_names == ("cat", "dog", "eel", "fox") and len(found.splits["train"]) == 12
