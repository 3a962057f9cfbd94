"""Outputs of the program are never images of a data set, even where `--out .` writes them beside the images."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vit.checkpoints.run import RunDirectory
from vit.data.contents import read_contents
from vit.data.outputs import is_output
from vit.data.sources import open_source
from vit.errors import DataError
from vit.study.folder import StudyDirectory
from vit.training.beginning import write_beginning
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
    assert after.notes == ["skipped: 1 files beside the class folders, 2 folders of runs"]
