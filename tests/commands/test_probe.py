"""`vit probe`: backbones compared by linear probes, each image computed once."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import vit
from tests.cells import here
from tests.conftest import leave_blank
from tests.data.parquet.written import rows_of, write
from vit.commands.comparing.probe import _label
from vit.commands.studies.study_cells import HEAD_WORK, work_of
from vit.csv_files import records
from vit.data.splits.split import read_splits
from vit.errors import DataError, UsageError
from vit.study.findings import Interval
from vit.training.network.features import StoredFeatures

PROBE = SimpleNamespace(model=SimpleNamespace(freeze="backbone"))


BACKBONES = "random:vit_nano_patch2_8,random:resnet10_small"


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Empty figures, and cells in this process."""
    with pytest.MonkeyPatch.context() as patch, here():
        leave_blank(patch)
        yield


@pytest.fixture(scope="module")
def probed(tmp_path_factory, draw_classes):
    """A probe of two sizes, the larger of which has all training images."""
    data = draw_classes(tmp_path_factory.mktemp("data") / "colors", ("blue", "green", "red"), 20, side=8)
    return vit.probe(data, backbones=BACKBONES, sizes="12,all", seeds=2, image_size=8, jobs=2, out=data.parent)


@pytest.mark.slow
def test_each_image_is_computed_once_for_each_backbone(probed):
    runs = sorted(probed.folder.glob("cells/*/*/*"))
    contents = {row["content"] for run in runs for row in records(run / "splits.csv")}
    stored = [StoredFeatures.read(path) for path in (probed.folder / "features").glob("*.safetensors")]
    assert len(runs) == 8 and [stored_one.place.keys() for stored_one in stored] == [contents, contents]


def test_the_stored_accuracy_is_that_of_the_checkpoint(probed, tmp_path):
    for run in sorted(probed.folder.glob("cells/*/*12/seed0*")):
        result = json.loads((run / "result.json").read_text())
        measured = vit.evaluate(run, output=tmp_path / run.parent.parent.name).measurement
        assert measured.metrics.acc1.value == pytest.approx(result["metrics"]["acc1"]["value"], abs=1e-9)
        assert measured.metrics.nll.value == pytest.approx(result["metrics"]["nll"]["value"], abs=2e-3)
        unlike = result["answers"]["novelty"]["unlike"]["value"]
        assert measured.answers.novelty.unlike.value == pytest.approx(unlike, abs=0.03)  # bfloat16 rounds features


@pytest.mark.slow
def test_features_of_another_kind_of_machine_are_found(probed, tmp_path):
    """The table is made where the command runs, and a cluster may have computed the features on GPUs."""
    out = tmp_path / "out"
    shutil.copytree(probed.folder, out / probed.folder.name)
    for path in sorted((out / probed.folder.name / "features").glob("*.safetensors")):
        backbone, _ = path.stem.split("-")
        stored = StoredFeatures.read(path.rename(path.with_stem(f"{backbone}-ffff")))
        part = dict(list(stored.place.items())[:10])
        StoredFeatures(part, stored.values[:10].clone() * -1, 1.0).write(path.with_stem(f"{backbone}-0000"))
    options = {"backbones": BACKBONES, "sizes": "12,all", "seeds": 2, "image_size": 8, "jobs": 2, "out": out}
    again = vit.probe(probed.folder.parent / "colors", **options)
    assert [replace(one, source="") for one in again.backbones] == [replace(one, source="") for one in probed.backbones]
    shutil.rmtree(out / probed.folder.name / "features")
    with pytest.raises(DataError, match="has no features of"):
        vit.probe(probed.folder.parent / "colors", **options)


def test_the_table_has_the_most_accurate_backbone_first(probed):
    first, second = probed.backbones
    rows = records(probed.folder / "backbones.csv")
    assert [row["name"] for row in rows] == [first.name, second.name]
    results = [row for row in records(probed.folder / "results.csv") if row["images"] != "12"]
    means = {
        name: [float(row["accuracy"]) for row in results if row["series"] == name] for name in (first.name, second.name)
    }
    assert first.accuracy.value == pytest.approx(sum(means[first.name]) / 2) and first.behind.value == 0
    assert second.behind.value == pytest.approx(first.accuracy.value - sum(means[second.name]) / 2)
    assert 0.1 < first.neighbors <= 1 and first.seconds_per_image > 0
    page = (probed.folder / "report.html").read_text()
    assert "<h2>Backbones</h2>" in page and "nearest neighbors" in page and "optimizer steps" not in page


@pytest.mark.slow
def test_groups_stay_together_and_go_on_to_the_next_command(vit, draw_classes, tmp_path):
    data = draw_classes(tmp_path / "colors", ("blue", "green", "red"), 20, side=8)
    pattern = r"(\d\d)\.png"
    line = ("probe", data, "--backbones", "random:vit_nano_patch2_8", "--seeds", 1, "--jobs", 1, "--image_size", 8)
    told = vit(*line, "--groups", pattern, "--out", tmp_path).ok()
    (splits,) = tmp_path.glob("colors_probe/cells/*/*/*/splits.csv")
    numbers = [{Path(row.path).name for row in rows} for rows in read_splits(splits).values()]
    assert len(numbers) == 3 and sum(map(len, numbers)) == len(set.union(*numbers)) == 20
    *_, last = told.out.strip().splitlines()
    assert shlex.split(last)[1:6] == ["vit", "train", str(data), "--data.groups", pattern]
    assert shlex.split(last)[-2:] == ["--image_size", "8"]  # that won, and may not be the backbone's own


@pytest.mark.slow
def test_columns_of_a_table_are_chosen(vit, draw_classes, tmp_path):
    names = ("blue", "green", "red")
    images, labels = rows_of(draw_classes(tmp_path / "colors", names, 14, side=8), names)
    columns = {"shape": [label % 2 for label in labels], "color": labels}
    write(tmp_path / "table.parquet", images, [0.5] * 42, None, columns=columns)
    line = ("probe", tmp_path / "table.parquet", "--backbones", "random:vit_nano_patch2_8", "--seeds", 1, "--jobs", 1)
    told = vit(*line, "--image_size", 8, "--label_column", "color", "--out", tmp_path).ok()
    (classes,) = tmp_path.glob("table_probe/cells/*/*/*/classes.json")
    assert json.loads(classes.read_text())["classes"] == ["0", "1", "2"]
    assert "--data.label_column color" in told.out.strip().splitlines()[-1]


@pytest.mark.faults("K19")
def test_what_cannot_be_probed_is_refused(labels_csv, tmp_path):
    with pytest.raises(UsageError, match="vit probe needs one class for each image"):
        vit.probe(labels_csv, backbones="random:vit_nano_patch2_8", out=tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="there is no"):
        vit.probe("no/such/folder", backbones="random:vit_nano_patch2_8", out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.faults("K19")
def test_two_backbones_of_one_name_are_refused(tmp_path):
    with pytest.raises(UsageError, match="two backbones called a"):
        vit.probe("digits", backbones="x/a.safetensors,y/a.safetensors", out=tmp_path)
    assert not list(Path(tmp_path).iterdir())


def test_seeds_are_equal_with_all_images_and_the_page_says_so(probed):
    rows = [row for row in records(probed.folder / "results.csv") if row["images"] != "12"]
    by_series = {
        row["series"]: {other["accuracy"] for other in rows if other["series"] == row["series"]} for row in rows
    }
    assert all(len(values) == 1 for values in by_series.values()) and len(rows) == 4
    best = probed.backbones[0]
    assert best.equal_seeds and best.accuracy.low < best.accuracy.value
    page = (probed.folder / "report.html").read_text()
    assert "other test images, not other training images" in page and "every seed fits the same head" in page


@pytest.mark.slow
def test_one_seed_of_all_images_has_the_intervals_of_two(probed, tmp_path):
    data, names = probed.folder.parent / "colors", BACKBONES
    one = vit.probe(data, backbones=names, seeds=1, image_size=8, jobs=2, out=tmp_path)
    for alone, beside in zip(one.backbones, probed.backbones, strict=True):
        assert alone.num_seeds == 1 and alone.equal_seeds and alone.accuracy.low is not None
        assert (alone.name, alone.accuracy, alone.behind) == (beside.name, beside.accuracy, beside.behind)
        assert alone.p_adjusted == beside.p_adjusted


def _again(probed, out, monkeypatch, capsys, lost):
    """What `vit probe` prints and returns of a copy whose runs `lost` have no result and are not tried again."""
    folder = shutil.copytree(probed.folder, out / probed.folder.name)
    for pattern in lost:
        for run in folder.glob(f"cells/{pattern}"):
            (run / "result.json").unlink(missing_ok=True)
    monkeypatch.setattr("vit.commands.comparing.probe.train_cells", lambda plan, reporter: 0)
    data, names = probed.folder.parent / "colors", BACKBONES
    found = vit.probe(data, backbones=names, sizes="12,all", seeds=2, image_size=8, out=out).backbones
    return found, "".join(capsys.readouterr())


def test_backbones_are_compared_at_the_largest_size_that_all_have(probed, tmp_path, monkeypatch, capsys):
    found, _ = _again(probed, tmp_path, monkeypatch, capsys, ["*resnet10*/0000042/*"])
    assert {(one.name, one.num_images) for one in found} == {
        ("random:vit_nano_patch2_8", 12),
        ("random:resnet10_small", 12),
    }


def test_a_backbone_without_a_finished_probe_is_named(probed, tmp_path, monkeypatch, capsys):
    found, shown = _again(probed, tmp_path, monkeypatch, capsys, ["*resnet10*/*/*"])
    assert [one.name for one in found] == ["random:vit_nano_patch2_8"]
    assert "is the only finished backbone. Not compared" in shown and "is finished: random:resnet10_small." in shown
    assert "WARNING: Runs are missing: random:resnet10_small has no run." in shown, "it stood on the page alone"


def test_backbones_without_a_common_seed_have_no_difference(probed, tmp_path, monkeypatch, capsys):
    lost = ["*/0000042/*", "*resnet10*/*/seed0*", "*vit_nano*/*/seed1*"]  # all but one probe of each with 12 images
    found, shown = _again(probed, tmp_path, monkeypatch, capsys, lost)
    assert [one.behind for one in found] == [Interval(0.0, None, None), None]
    assert "and without a test: " in shown


def test_the_work_of_a_probe_is_counted_in_new_images():
    """The first probe of a backbone computes the validation and test images; the next one only new training images."""
    cells = [SimpleNamespace(series=at[0], folder=at, num_images=60, recipe=PROBE) for at in ("a", "b", "a2")]
    work = work_of(cells, {"train": 240, "validation": 20, "test": 100})
    assert work == {"a": HEAD_WORK + 180, "b": HEAD_WORK + 180, "a2": HEAD_WORK + 45}


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("timm:deit_tiny_patch16_224.fb_in1k", "deit_tiny_patch16_224.fb_in1k"),
        ("hf:google/vit-base-patch16-224", "vit-base-patch16-224"),
        ("folder/weights.safetensors", "weights"),
        ("random:resnet18", "random:resnet18"),
        ("runs/birds/vit_tiny/20261122-075143", "vit_tiny/20261122-075143"),
    ],
)
def test_backbones_have_short_names(here, word, label):
    (here / "runs/birds/vit_tiny/20261122-075143").mkdir(parents=True)
    (here / "runs/birds/vit_tiny/20261122-075143/config.yaml").touch()
    assert _label(word) == label
