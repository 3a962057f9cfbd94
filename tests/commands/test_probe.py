"""`vit probe`: backbones compared by linear probes, each image computed once."""

import json
from pathlib import Path

import pytest

import vit
from vit.csv_files import records
from vit.errors import DataError, UsageError
from vit.training.features import StoredFeatures


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probe")
    backbones = "random:vit_nano_patch2_8,random:resnet10_small"
    return vit.probe("digits", backbones=backbones, sizes="60", seeds=2, jobs=1, out=folder)


def test_each_image_is_computed_once_for_each_backbone(probed):
    runs = sorted(probed.folder.glob("cells/*/*/*"))
    contents = {row["content"] for run in runs for row in records(run / "splits.csv")}
    stored = [StoredFeatures.read(path) for path in (probed.folder / "features").glob("*.safetensors")]
    assert len(runs) == 4 and [stored_one.place.keys() for stored_one in stored] == [contents, contents]


def test_the_stored_accuracy_is_that_of_the_checkpoint(probed, tmp_path):
    for run in sorted(probed.folder.glob("cells/*/*/seed0*")):
        result = json.loads((run / "result.json").read_text())
        measured = vit.evaluate(run, output=tmp_path / run.parent.parent.name).measurement
        assert measured.metrics.acc1.value == pytest.approx(result["metrics"]["acc1"]["value"], abs=1e-9)
        assert measured.metrics.nll.value == pytest.approx(result["metrics"]["nll"]["value"], abs=2e-3)
        unlike = result["answers"]["novelty"]["unlike"]["value"]
        assert measured.answers.novelty.unlike.value == pytest.approx(unlike, abs=0.03)  # bfloat16 rounds features


def test_the_table_has_the_most_accurate_backbone_first(probed):
    first, second = probed.backbones
    rows = records(probed.folder / "backbones.csv")
    assert [row["name"] for row in rows] == [first.name, second.name]
    results = records(probed.folder / "results.csv")
    means = {
        name: [float(row["accuracy"]) for row in results if row["series"] == name] for name in (first.name, second.name)
    }
    assert first.accuracy.value == pytest.approx(sum(means[first.name]) / 2) and first.behind.value == 0
    assert second.behind.value == pytest.approx(first.accuracy.value - sum(means[second.name]) / 2)
    assert 0.1 < first.neighbors <= 1 and first.seconds_per_image > 0
    page = (probed.folder / "report.html").read_text()
    assert "<h2>Backbones</h2>" in page and "nearest neighbors" in page and "optimizer steps" not in page


@pytest.mark.faults("K19")
def test_what_cannot_be_probed_is_refused(labels_csv, tmp_path):
    with pytest.raises(UsageError, match="vit probe needs one class for each image"):
        vit.probe(labels_csv, backbones="random:vit_nano_patch2_8", out=tmp_path)
    with pytest.raises(DataError, match="there is no"):
        vit.probe("no/such/folder", backbones="random:vit_nano_patch2_8", out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.faults("K19")
def test_two_backbones_of_one_name_are_refused(tmp_path):
    with pytest.raises(UsageError, match="two backbones called a"):
        vit.probe("digits", backbones="x/a.safetensors,y/a.safetensors", out=tmp_path)
    assert not list(Path(tmp_path).iterdir())
