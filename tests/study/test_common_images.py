"""Runs of a study are paired by image, also where some of them could not read all of these."""

import json

import numpy as np
import pytest

from vit.checkpoints.result import RunResult, pack
from vit.data.core.samples import Samples
from vit.errors import DataError
from vit.models.spec import NetworkSpec
from vit.study.answer.summary import summarize
from vit.study.common_images import of_fold
from vit.study.findings import ListedCell
from vit.study.folder import StudyDirectory, collect

IMAGES = [f"test/{name}" for name in ("a/a.png", "a.png", "b.png", "c.png", "d.png", "e.png")]
RIGHT = {"ViT": [1, 1, 0, 0, 1, 0], "CNN": [1, 0, 1, 0, 1, 1]}


def study_of(folder, left_out, images=None, base="/data/photos/", groups=None):
    """A study of two networks with one seed; {network: images that it could not read}, {network: groups of images}."""
    study, cells = StudyDirectory(folder), []
    for network, right in RIGHT.items():
        own = (images or {}).get(network, IMAGES)
        cell = ListedCell(network, 100, 0, "", f"cells/{network}")
        run, lost = study.run(cell), left_out.get(network, ())
        kept = [place for place, name in enumerate(own) if name not in lost]
        run.path.mkdir(parents=True)
        of_images = (groups or {}).get(network)
        ends = [""] * len(own) if of_images is None else [f",{group}" for group in of_images]
        header = f"path,label,split,content{'' if of_images is None else ',group'},name"
        lines = [header, *(f"{base}{name},x,test,{name}{end},{name}" for name, end in zip(own, ends, strict=True))]
        run.splits_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        correct = np.array(right, dtype=bool)[kept]
        fingerprint = Samples([own[place] for place in kept], np.zeros(len(kept), np.int64), folder).fingerprint()
        RunResult(
            NetworkSpec.from_plain({"name": "vit_nano_patch2_8"}, 10), 8, 1, 1, "photos", {"test": len(kept)},
            {"test": fingerprint}, 0, 1.0, 1, 1, 1.0, 1.0, "cpu", "32-true", 0, {"val/loss": 1.0},
            {"acc1": {"value": float(correct.mean())}}, {}, correct={"test": pack(correct)}, tested_classes=2,
            left_out={"test": dict.fromkeys(lost, "truncated")} if lost else {},
        ).write(run.result_path)  # fmt: skip
        cells.append(cell)
    study.description_path.write_text(
        json.dumps({"protocol": {"data": "photos"}, "cells": [cell.to_json() for cell in cells]}), encoding="utf-8"
    )
    return folder


@pytest.mark.faults("R17")
@pytest.mark.parametrize("base", ["/data/photos/", ""])
@pytest.mark.parametrize(
    ("left_out", "common"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"ViT": ["test/a.png"]}, [0, 2, 3, 4, 5]),
        ({"ViT": ["test/a.png"], "CNN": ["test/e.png"]}, [0, 2, 3, 4]),  # as many each, but others
        ({"ViT": ["test/c.png"], "CNN": ["test/c.png"]}, [0, 1, 2, 4, 5]),
    ],
)
def test_an_image_that_one_run_could_not_read_counts_in_none(tmp_path, base, left_out, common):
    found, protocol, _ = collect(study_of(tmp_path, left_out, base=base))
    expected = {network: np.array(right, dtype=bool)[common] for network, right in RIGHT.items()}
    for cell in found:
        assert cell.correct.tolist() == expected[cell.series].tolist()
        assert cell.accuracy == pytest.approx(expected[cell.series].mean())
    findings = summarize(found, protocol, [], None)
    gap = expected["CNN"].mean() - expected["ViT"].mean()
    assert findings.num_test_images == len(common)
    assert findings.comparisons[0].differences[0].gap.value == pytest.approx(gap)


def test_the_number_of_images_left_out_is_said(vit, tmp_path):
    _, protocol, _ = collect(study_of(tmp_path, {"ViT": ["test/a.png"], "CNN": ["test/e.png"]}))
    assert protocol["left_out"] == "2 test images that a run could not read, and that no run counts"
    assert protocol["tested"] == "2 of 10 classes have test images: nothing is measured about the others"
    assert "left_out" not in collect(study_of(tmp_path / "whole", {}))[1]
    said = vit("report", tmp_path).out
    assert "without 2 test images that a run could not read" in said
    assert "4 test images, without 2 test images that a run could not read" in (tmp_path / "report.html").read_text()


def test_training_images_that_no_network_has_seen_are_said(vit, tmp_path):
    result = StudyDirectory(study_of(tmp_path, {})).run(ListedCell("ViT", 100, 0, "", "cells/ViT")).result_path
    result.write_text(json.dumps({**json.loads(result.read_text()), "unreadable_images": 1}))
    said = "A run could not read 1 training image, and took others instead"
    assert said in vit("report", tmp_path).out and said in (tmp_path / "report.html").read_text()


@pytest.mark.faults("R17")
def test_runs_with_other_test_images_are_never_paired(tmp_path):
    others = {"CNN": [*IMAGES[:-1], "test/f.png"]}
    with pytest.raises(DataError, match=r"cells/ViT and .*cells/CNN were tested on different images"):
        collect(study_of(tmp_path, {}, others))


def test_a_list_of_images_that_does_not_fit_is_damaged(tmp_path):
    study = study_of(tmp_path, {"ViT": ["test/a.png"]})
    path = study / "cells" / "ViT" / "result.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["left_out"] = {}
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="does not fit"):
        collect(study)


@pytest.mark.faults("D32")
@pytest.mark.parametrize("left_out", [{}, {"ViT": ["test/a.png"]}])
def test_runs_of_different_groups_are_never_paired(tmp_path, left_out):
    of_vit = ["a", "a", "b", "b", "c", "c"]
    found, protocol, _ = collect(study_of(tmp_path / "same", left_out, groups={"ViT": of_vit, "CNN": of_vit}))
    assert protocol["test_groups"] == 3 and found[0].groups is not None
    for place, of_cnn in enumerate((None, ["a", "a", "a", "b", "c", "c"])):
        with pytest.raises(DataError, match=r"cells/ViT and .*cells/CNN list different groups"):
            collect(study_of(tmp_path / f"{place}", left_out, groups={"ViT": of_vit, "CNN": of_cnn}))


@pytest.mark.faults("D33")
@pytest.mark.parametrize("num_lost", [4, 5])
def test_one_common_image_is_not_enough(tmp_path, num_lost):
    """Both runs could read one image, or one of them could read another one, too."""
    with pytest.raises(DataError, match="fewer than two test images in common"):
        collect(study_of(tmp_path, {"ViT": IMAGES[:num_lost], "CNN": IMAGES[:5]}))


def test_a_larger_fold_lacks_any_of_its_images_equally_often():
    """The last ones are of one class, of which each larger fold would lack an image."""
    lasts = [of_fold(np.arange(3) == 2, 2, seed) for seed in range(300)]
    assert np.mean([last.sum() for last in lasts]) == pytest.approx(2 / 3, abs=0.08)
    assert all((of_fold(np.arange(3) == 2, 2, seed) == last).all() for seed, last in enumerate(lasts))
