"""Which candidate tuning chooses: by the metric that also chooses the checkpoints"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study.results import study as cells
from vit.atomic_files import write_json
from vit.checkpoints.result import RunResult
from vit.errors import DataError
from vit.models.spec import NetworkSpec
from vit.report.studies.study_page import report_study
from vit.study.answer.summary import summarize, to_json
from vit.study.findings import ListedCell
from vit.study.folder import StudyDirectory, chosen, collect, tuned

TWO = (0.34, 75), (0.23, 144)  # errors with so many images: trained, and frozen
CONFIDENT = {"val/loss": 2.9, "val/acc1": 0.28}  # overfitted: many right answers with far too much confidence
UNTRAINED = {"val/loss": 2.3, "val/acc1": 0.11}


def study_of(
    folder: Path, found: dict[str, dict[str, float] | None], metric: str
) -> tuple[StudyDirectory, list[ListedCell]]:
    """A study of one series whose candidates have these validation metrics; None: failed."""
    study = StudyDirectory(folder)
    cells = [ListedCell("ViT", 100, 0, name, f"cells/ViT/{name}") for name in found]
    for cell in cells:
        run, validation = study.run(cell), found[cell.choice]
        run.path.mkdir(parents=True)
        if validation is None:
            run.failure_path.write_text("diverged", encoding="utf-8")
            continue
        RunResult(
            NetworkSpec.from_plain({"name": "vit_nano_patch2_8"}, 10), 8, 1, 1, "digits", {"test": 8}, {}, 0, 1.0, 1, 1,
            1.0, 1.0, "cpu", "32-true", 0, validation, {"acc1": {"value": 0.5}}, {},
            best_metric=metric, correct={"test": "AA=="},
        ).write(run.result_path)  # fmt: skip
    study.description_path.write_text(
        json.dumps({"protocol": {"data": "digits"}, "cells": [cell.to_json() for cell in cells]}), encoding="utf-8"
    )
    return study, cells


@pytest.mark.parametrize(("metric", "expected"), [("acc1", "lr=2"), ("loss", "lr=1")])
def test_tuning_follows_the_metric_of_the_checkpoints(tmp_path, metric, expected):
    study, cells = study_of(tmp_path, {"lr=1": UNTRAINED, "lr=2": CONFIDENT, "lr=3": None}, metric)
    assert tuned(study, cells) == {("ViT", 100, cells[0].seed): expected}
    found, protocol, _ = collect(tmp_path)
    assert [cell.run for cell in found] == [f"cells/ViT/{expected}"]
    assert protocol["checkpoints"] == f"{'highest' if metric == 'acc1' else 'lowest'} val/{metric}"


def test_one_training_in_two_places_is_refused(tmp_path):
    """A folder that was copied over that of another seed was a second seed that agrees with the first one."""
    study, cells = study_of(tmp_path, {"": CONFIDENT}, "acc1")
    wrong = {"protocol": {"data": "digits"}, "cells": [replace(one, seed=1).to_json() for one in cells]}
    study.description_path.write_text(json.dumps(wrong), encoding="utf-8")
    with pytest.raises(DataError, match="holds a training with seed 0, and not that of ViT, 100 images, seed 1"):
        collect(tmp_path)


def test_a_head_on_a_frozen_network_with_fewer_errors_is_named(tmp_path):
    """After 10 % of the steps fine-tuning had an error of 34 %, and nothing said that frozen networks had 23 %."""
    study_of(tmp_path, {"": CONFIDENT}, "acc1")  # with an error of 50 %
    trained, frozen = (summarize(cells({"ViT": [error]}, sizes=(size,)), {}, [], None) for error, size in TWO)
    (tmp_path / "frozen").mkdir()
    write_json(tmp_path / "frozen" / "summary.json", to_json(frozen))
    found = StudyDirectory(tmp_path).preliminary()
    (note,) = found.beside(trained.series)
    assert note.startswith("A linear head on frozen ViT has an error of 2") and "with 144 images, below the 3" in note
    assert "--init_from" in note, "'vit train' alone may start from another network"
    assert report_study(tmp_path, None).warnings[-1].startswith("A linear head on frozen ViT")
    assert found.beside(frozen.series) == [] and StudyDirectory(tmp_path / "none").preliminary() is None


def test_equal_accuracies_are_ordered_by_the_loss(tmp_path):
    better = {**CONFIDENT, "val/loss": 2.0}
    study, cells = study_of(tmp_path, {"lr=1": CONFIDENT, "lr=2": better}, "acc1")
    assert tuned(study, cells) == {("ViT", 100, cells[0].seed): "lr=2"}


def test_nothing_is_chosen_before_all_candidates_are_done():
    assert chosen({"lr=1": (-1.0, -1.0), "lr=2": None}) is None
    assert chosen({"lr=1": (-1.0, -1.0), "lr=2": (float("-inf"), float("-inf"))}) == "lr=1"
    assert chosen({"lr=2": (-1.0, -1.0), "lr=1": (-1.0, -1.0)}) == "lr=1"


def test_nothing_is_chosen_where_every_candidate_failed(tmp_path):
    study, cells = study_of(tmp_path, {"lr=1": None, "lr=2": None}, "loss")
    assert tuned(study, cells) == {}
    found, protocol, failed = collect(tmp_path)
    assert not found and "chosen" not in protocol and [one.choice for one in failed] == ["lr=1", "lr=2"]


def test_a_loss_that_is_not_a_number_is_no_better_than_a_failure():
    nan = float("nan")
    assert chosen({"lr=1": (nan, nan), "lr=2": (-9.0, -9.0)}) == "lr=2"
    assert chosen({"lr=1": (nan, nan)}) is None


def test_results_of_before_were_chosen_by_the_loss(tmp_path):
    study, cells = study_of(tmp_path, {"lr=1": UNTRAINED}, "acc1")
    path = study.run(cells[0]).result_path
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["best_metric"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert RunResult.read(path).best_metric == "loss"


def test_each_seed_tunes_for_itself():
    """One seed's choice was taken by all, and 13 to 24 % of studies of equal networks were told apart."""
    cells = [ListedCell("vit", 10, seed, choice, f"{seed}{choice}") for seed in (0, 1) for choice in ("a", "b")]
    assert len({cell.group for cell in cells}) == 2


def test_shards_that_start_late_and_failed_cells_are_no_further_looks(tmp_path):
    """The eighth of eight shards, or starts of a study with a cell that fails, made p 144 times as large."""
    study, cells = study_of(tmp_path, {"lr=1": UNTRAINED, "lr=2": None}, "acc1")
    later, unplanned = (ListedCell("ViT", 100, seed, "lr=1", f"cells/ViT/seed{seed}") for seed in (1, 2))
    study.describe([*cells, later], {"data": "digits"})
    study.summary_path.write_text("{}", encoding="utf-8")  # of the first shard
    for more, looks in (([], 1), ([], 1), ([unplanned], 2), ([unplanned], 2)):
        study.describe([*cells, later, *more], {"data": "digits"})
        assert study.read()[0]["looks"] == looks
