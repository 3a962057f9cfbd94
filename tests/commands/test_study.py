"""`vit study`: a grid of ordinary runs that survives failures and kills."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import vit as package
from tests.processes import belonging, ended, finish, linux_only, start, until
from tests.tables import rows
from vit.study.folder import StudyDirectory, collect

pytestmark = pytest.mark.usefixtures("cells_here")  # but those of `whole`, which are processes
TIMES = ("seconds", "images_per_second")
NANO = (
    *("--networks", "vit_nano_patch2_8"),
    *("--set", "augment.name=none", "--set", "model.network.depth=1", "--set", "trainer.accelerator=cpu"),
)
POOLS = ("--vary", "model.network.pool=cls,mean")
GRID = ("--seeds", "2", "--jobs", "2", "--wandb", "off")
FILES = ("--set", "data.cache=none", "--set", "data.num_workers=0", "--set", "model.preprocess.image_size=8")
WORKER = ("--set", "data.num_workers=1")  # a process that reads the images of a cell


@dataclass(frozen=True)
class Given:
    """What the study of a test learns from."""

    data: str
    sizes: tuple[str, str]
    steps: str
    test_images: int
    options: tuple[str, ...] = ()

    @property
    def line(self) -> tuple[str, ...]:
        length = ("--sizes", ",".join(self.sizes), "--budget", f"steps:{self.steps}")
        return ("study", self.data, *NANO, *POOLS, *GRID, *length, *self.options)

    @property
    def name(self) -> str:
        """Of the study's folder."""
        return Path(self.data).name


@pytest.fixture(scope="module", params=["digits", "files"])
def given(request, tmp_path_factory, draw_classes):
    """Digits, which are in memory; and image files, which are read again for each batch."""
    if request.param == "digits":
        return Given("digits", ("20", "50"), "12", 359)
    data = draw_classes(tmp_path_factory.mktemp("data") / "photos", ("blue", "green", "red"), 20, side=20)
    return Given(str(data), ("12", "24"), "6", 12, FILES)


on_digits = pytest.mark.parametrize("given", ["digits"], indirect=True)
on_files = pytest.mark.parametrize("given", ["files"], indirect=True)


def timeless(study: Path):
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows(study / "results.csv")]


@pytest.fixture(scope="module")
def whole(vit, given, tmp_path_factory):
    """A finished study of two networks, two sizes and two seeds; tests only read it."""
    out = tmp_path_factory.mktemp("studies")
    answer = vit(*given.line, "--out", out).ok()
    return out / given.name, answer


@on_digits
def test_a_study_leaves_ordinary_runs_and_a_report(vit, whole, given):
    study, answer = whole
    found = timeless(study)
    assert [(row["series"], row["images"], row["seed"]) for row in found] == [
        (f"pool={pool}", images, seed) for pool in ("cls", "mean") for images in given.sizes for seed in ("0", "1")
    ]
    assert {row["steps"] for row in found} == {given.steps}
    assert {name.name for name in study.iterdir()} >= {
        "study.json",
        "results.csv",
        "summary.json",
        "curve.png",
        "report.html",
    }
    assert "report.html" in answer.out and f"Next: vit report {study} --target 0.95" in answer.out
    length = f"{given.steps} optimizer steps at every size"
    assert f"on {given.test_images} test images: mean over the seeds, 95 % interval; {length}" in answer.out
    run = study / found[0]["run"]
    assert {"config.yaml", "classes.json", "splits.csv", "metrics.csv", "result.json"} <= {
        p.name for p in run.iterdir()
    }
    assert vit("evaluate", run, "--output", study.parent / "evaluation").code == 0


@on_digits
def test_networks_of_a_seed_saw_the_same_nested_images(whole, given):
    study, _ = whole
    seen = {}
    for row in timeless(study):
        splits = rows(study / row["run"] / "splits.csv")
        seen[row["series"], row["images"], row["seed"]] = {line["path"] for line in splits if line["split"] == "train"}
    networks = sorted({series for series, _, _ in seen})
    for seed in ("0", "1"):
        for images in given.sizes:
            assert seen[networks[0], images, seed] == seen[networks[1], images, seed]
            assert len(seen[networks[0], images, seed]) == int(images)
        small, large = given.sizes
        assert seen[networks[0], small, seed] < seen[networks[0], large, seed]
    assert seen[networks[0], small, "0"] != seen[networks[0], small, "1"]


@on_digits
def test_the_bits_of_every_run_give_its_accuracy(whole, given):
    results, protocol, failed = collect(whole[0])
    assert len(results) == 8 and not failed and protocol["cells"].startswith("8 of 8")
    for result in results:
        assert result.correct.mean() == pytest.approx(result.accuracy) and len(result.correct) == given.test_images


@on_digits
@pytest.mark.faults("R9")
def test_done_cells_are_never_run_again(vit, whole, given, tmp_path):
    study = tmp_path / given.name
    shutil.copytree(whole[0], study)
    before = {path: path.stat().st_mtime_ns for path in study.rglob("result.json")}
    planned = vit(*given.line, "--seeds", "3", "--out", tmp_path, "--dry_run")
    assert "8 of 12 cells are done already" in planned.out and "\n4 cells, about" in planned.out, planned.err
    answer = vit(*given.line, "--seeds", "3", "--out", tmp_path, "--margin", "0.5")
    assert answer.code == 0 and "8 of 12 cells were done before" in answer.err
    assert "--target 0.95 --margin 0.5" in answer.out, "the next command would answer with another margin"
    assert json.loads((study / "summary.json").read_text())["margin"] == 0.5
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(timeless(study)) == 12


@on_digits
@pytest.mark.faults("R14")
@pytest.mark.parametrize("other", [("--sizes", "20"), ("--set", "optim.lr=0.002"), ("--budget", "steps:13")])
def test_another_study_never_takes_the_place_of_a_report(vit, whole, given, tmp_path, other):
    study = tmp_path / given.name
    shutil.copytree(whole[0], study)
    before = {path: path.read_bytes() for path in study.rglob("*") if path.is_file()}
    vit(*given.line, *other, "--out", tmp_path).failed(2, "holds another study", "--name")
    assert before == {path: path.read_bytes() for path in study.rglob("*") if path.is_file()}


@on_digits
@pytest.mark.slow
def test_shards_together_are_the_study(vit, whole, given, tmp_path):
    small, _ = given.sizes
    for part in ("1/2", "2/2"):
        assert vit(*given.line, "--sizes", small, "--out", tmp_path, "--shard", part).code == 0
    found = timeless(tmp_path / given.name)
    assert len(found) == 4 and found == [row for row in timeless(whole[0]) if row["images"] == small]


@linux_only
@on_files
@pytest.mark.slow
def test_shards_that_start_at_the_same_instant(whole, given, tmp_path):
    for number in range(int(os.environ.get("VIT_ROUNDS", "20"))):
        out = tmp_path / f"{number}"
        line = (*given.line, "--out", out, "--shard")
        shards = [start(tmp_path, *line, f"{part}/4") for part in range(1, 5)]
        said = [shard.communicate(timeout=900)[1] for shard in shards]
        assert [shard.returncode for shard in shards] == [0] * 4, "".join(said)
        assert same_but_for_kills(whole[0], out / given.name)


@on_digits
@pytest.mark.faults("R10")
def test_a_failed_cell_is_listed_and_the_rest_goes_on(vit, whole, given, tmp_path):
    study = tmp_path / given.name
    shutil.copytree(whole[0], study)
    victim = next(iter(sorted(study.rglob("result.json")))).parent
    shutil.rmtree(victim)
    victim.parent.mkdir(exist_ok=True)
    victim.mkdir()
    (victim / "checkpoints").write_text("in the way")  # no checkpoint can be written here
    answer = vit(*given.line, "--out", tmp_path)
    assert answer.code == 5 and "FAILED" in answer.err and "log.txt" in answer.err
    assert len(timeless(study)) == 7
    _, protocol, failed = collect(study)
    assert len(failed) == 1 and failed[0].error and "1 failed" in protocol["cells"]
    assert str(failed[0].folder) in (study / "report.html").read_text()
    (victim / "checkpoints").unlink()
    assert vit(*given.line, "--out", tmp_path).code == 0  # it is tried again
    assert timeless(study) == timeless(whole[0])


@on_files
@pytest.mark.slow
def test_tuning_chooses_on_validation_images_for_every_network_and_size(vit, given, tmp_path):
    tuned = ("--tune", "optim.lr=x0.000001,x0.000002,x1", "--sizes", given.sizes[1], "--budget", "steps:20")
    answer = vit(*given.line, *tuned, "--out", tmp_path).ok()
    results, protocol, _ = collect(tmp_path / given.name)
    assert len(results) == 4 and set(protocol["chosen"].values()) == {"lr=0.001"}
    folders = [path.parent.name for path in (tmp_path / given.name).rglob("result.json")]
    assert sum("lr-1e-09" in name for name in folders) == 4  # each of two seeds tries all values for itself
    assert "chosen among 3 settings" in protocol["tuning"]
    assert "pool=mean took the highest lr (24 images). Give --tune more values." in answer.out
    assert "  cells    12, 2 at a time" in answer.out
    assert "12/12  pool=" in answer.err
    rejected = next((tmp_path / given.name).glob("cells/pool-mean/**/seed0-lr-1e-09-*/result.json"))
    rejected.unlink()  # as if another machine were still trying values of this network
    vit("report", tmp_path / given.name).ok()
    results, protocol, _ = collect(tmp_path / given.name)
    assert len(results) == 3 and protocol["cells"] == "3 of 4 finished, 0 failed"


@on_digits
@pytest.mark.faults("R10")
def test_a_tried_value_that_fails_is_listed_and_another_is_chosen(vit, given, tmp_path):
    short = ("--sizes", given.sizes[0], "--seeds", 1, "--budget", "steps:5", "--wandb", "off")
    line = ("study", given.data, *NANO, *short)
    answer = vit(*line, "--tune", "optim.lr=1e30,0.001", "--out", tmp_path)
    named = "vit_nano_patch2_8, 20 images, seed 0, lr=1e30"
    assert answer.code == 5 and f"1 cell failed, and is not in the numbers above:\n  {named}: the loss" in answer.err
    results, protocol, failed = collect(tmp_path / given.name)
    assert len(results) == len(failed) == 1 and protocol["chosen"] == {"vit_nano_patch2_8, 20 images": "lr=0.001"}
    page = (tmp_path / given.name / "report.html").read_text()
    assert "vit_nano_patch2_8, lr=1e30" in page and "1 of 1 finished, 1 failed" in page


@on_digits
def test_a_dry_run_times_a_step_and_trains_nothing(vit, given, tmp_path):
    answer = vit(*given.line, "--out", tmp_path, "--dry_run")
    assert answer.code == 0 and "8 cells, about" in answer.out and "--dry_run" not in answer.out
    assert not list(tmp_path.iterdir())


@on_files
@pytest.mark.slow
def test_studies_with_and_without_a_cache_find_the_same(vit, given, tmp_path):
    """Cells of photographs with crops, kept in memory or read by a process: the same pixels, so the same numbers."""
    crops = ("--set", "augment.name=light", "--set", "augment.crop=0.35")
    length = ("--sizes", "24", "--seeds", "1", "--budget", "steps:6")
    found = []
    for cache in ("none", "memory"):
        words = (*NANO, *GRID, *FILES, *WORKER, *crops, *length, "--set", f"data.cache={cache}")
        vit("study", given.data, *words, "--out", tmp_path / cache).ok()
        found.append(timeless(tmp_path / cache / given.name))
    assert found[0] == found[1]


@on_files
@pytest.mark.faults("R9")
@pytest.mark.slow
def test_cells_of_replaced_images_are_run_again(vit, given, tmp_path):
    """Another image under an old name: nothing that was learned from the old one is taken for the new."""
    words = (*given.line, "--sizes", given.sizes[0], "--seeds", "1", "--out", tmp_path)
    answer = vit(*words)
    assert answer.code == 0 and len(timeless(tmp_path / given.name)) == 2, answer.err
    data = shutil.copytree(given.data, tmp_path / "data" / given.name)
    line = [str(data) if word == given.data else word for word in words]
    answer = vit(*line, "--dry_run")
    assert answer.code == 0 and "2 of 2 cells are done already" in answer.out, answer.err  # the same images, moved
    shutil.copy(data / "red" / "00.png", data / "blue" / "00.png")
    vit(*line, "--dry_run").failed(2, "2 of its finished cells would be missing in")


@on_files
@pytest.mark.parametrize(("rarest", "words"), [(20, "class-balanced"), (8, "with the class shares of all")])
def test_the_protocol_says_what_was_chosen_for_these_images(vit, given, tmp_path, draw_classes, rarest, words):
    data = draw_classes(tmp_path / "data" / given.name, ("blue", "green"), 20)
    draw_classes(data, ("red",), rarest)
    line = ("study", data, *NANO[2:], *FILES, "--sizes", "20", "--seeds", "1", "--budget", "steps:1")
    answer = vit(*line, "--wandb", "off", "--out", tmp_path).ok()
    study = tmp_path / given.name
    assert "stratified, seed 0" in answer.out  # how test images were cut
    assert f"Next: vit predict {study}/cells/vit_nano_patch2_8/" in answer.out  # there is nothing to compare it with
    _, protocol, _ = collect(study)
    assert protocol["subsets"].startswith(words) and protocol["series"] == ["vit_nano_patch2_8"]
    assert words in (study / "report.html").read_text()
    kept = next(study.glob("cells/**/config.yaml")).read_text()
    assert f"subset: {'balanced' if rarest == 20 else 'natural'}" in kept


@on_digits
def test_subsets_that_are_varied_are_not_said_to_be_shared(vit, given):
    words = ("study", given.data, *NANO, "--sizes", "12", "--seeds", "1", "--budget", "steps:1", "--dry_run")
    of_sgd = ("--vary", "optim.optimizer=sgd,adamw", "--set", "optim.momentum=0.8")
    alike = vit(*words, "--wandb", "off", *of_sgd)
    alike.noted("--optim.momentum changes nothing with adamw: optimizer=adamw")
    varied = vit(*words, "--wandb", "off", "--vary", "data.subset=balanced,natural")
    assert "shared by all networks" in alike.out and "shared" not in varied.out, varied
    assert "drawn once per seed and for networks of one kind alike" in varied.out


@pytest.mark.faults("K25")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--networks", "vit_nano_patch2_9"], "vit_nano_patch2_8"),
        (["--networks", "ViT, 20 epochs"], "no network is called 'ViT' (--networks, split at commas)"),
        (["--vary", "model.network.poool=cls"], "pool"),
        (["--vary", "pool"], "--vary"),
        (["--sizes", "2000"], "1,259"),
        (["--budget", "1000"], "--budget"),
        (["--seeds", "none"], "--seeds"),
        (["--seeds", "²"], "--seeds"),
        (["--seeds", "99999999999"], "at most 1,000"),
        (["--shard", "3/2"], "--shard"),
        (["--sixes", "10"], "--sizes"),
        (["--config", "digit"], "digits"),
        (["--data.test", "0"], "test images"),
        (["--tune", "optim.optimizer=x3"], "no number"),
        (["--tune", "optim.best_metric=loss,acc1"], "different metrics cannot be ranked"),
        (["--vary", "optim.epochs=1,2"], "--budget recipe"),
        (["--tune", "optim.steps=10,20", "--budget", "epochs:2"], "--budget recipe"),
        (["--set", "epochs=5"], "--budget recipe"),
        (["--vary", "seed=7,8"], "--seeds"),
        (["--set", "data.subset_seed=1"], "--seeds"),
        (["--data.train_images", "100"], "--sizes"),
        (["--networks", "vit_nano_patch2_8 --seed=3"], "--seeds"),
        (["--vary", "trainer.devices=1,2"], "one device each"),
        (["--vary", "batch_size=64,128", "--sizes", "40,1000"], "40 images, seed 0 are the same training"),
        (["--vary", "data.cache=memory,none"], "120 images, seed 0 are the same training"),
        (["--vary", "data.num_workers=0,2"], "are the same training"),
        (["--vary", "trainer.checkpoint_every=10min,20min"], "are the same training"),
        (["--vary", "optim.lr=0.1,0.1"], "two series are lr=0.1"),
        (["--networks", "vit_nano_patch2_8,vit_nano_patch2_8"], "--networks has vit_nano_patch2_8 twice"),
        (["--networks", "vit_nano_patch2_8,auto"], "auto is vit_nano_patch2_8 for these images"),
        (["--vary", "data.split_seed=0,1"], "different test images"),
        (["--vary", "optim.momentum=0.8,0.9"], "--optim.momentum changes nothing with muon; leave it out"),
        (["--networks", "vit_nano_patch2_8", "--pairs", "2"], "--pairs 2 is for networks that the study chooses"),
        (["--set", "tracker_media=true"], "tracker_media in a study, whose cells send numbers alone"),
        (["--vary", "data.test=0.2,0.3"], "different test images"),
        (["--vary", "data.validation=0.2,0.3"], "have different "),
    ],
)
def test_wrong_words_are_refused_before_anything_runs(vit, tmp_path, words, said):
    vit("study", "digits", *words, "--out", tmp_path).failed(2, said)
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("D33")
@pytest.mark.parametrize("line", [("study", "--networks"), ("probe", "--backbones")])
def test_one_test_image_is_refused_before_anything_is_trained(vit, tmp_path, draw_classes, line):
    draw_classes(tmp_path / "photos", ("cat", "dog"), 10)
    names = [path.relative_to(tmp_path) for path in sorted((tmp_path / "photos").rglob("*.png"))]
    rows = [f"{name},{name.parent.name},{'validation' if place % 3 else 'train'}" for place, name in enumerate(names)]
    rows[-1] = rows[-1].rpartition(",")[0] + ",test"
    table = tmp_path / "one.csv"
    table.write_text("\n".join(["path,label,split", *rows]) + "\n")
    network = {"study": "vit_nano_patch2_8", "probe": "random:vit_nano_patch2_8"}[line[0]]
    told = vit(line[0], table, line[1], network, "--seeds", 2, "--sizes", "all", "--out", tmp_path / "out")
    assert told.code == 2 and "one test image, and a study needs two or more" in told.err, told.err
    assert not list((tmp_path / "out").rglob("cells"))


@pytest.mark.faults("K25")
def test_options_beside_a_network_are_not_overwritten_in_silence(vit, tmp_path):
    (tmp_path / "long.yaml").write_text("networks:\n  long: digits --epochs=50\n  short: digits --epochs=5\n")
    answer = vit("study", "--config", tmp_path / "long.yaml", "--out", tmp_path / "out", "--budget", "steps:20")
    assert answer.code == 2 and "optim.epochs would do nothing" in answer.err, answer.err


def same_but_for_kills(whole: Path, study: Path) -> bool:
    """Whether a study that was killed has the results of one that was not, and holds no file of a broken write."""
    assert timeless(study) == timeless(whole)
    assert not [path for path in study.rglob("*") if "partial" in path.name or path.name == ".lock"]
    return True


@linux_only
@on_files
@pytest.mark.faults("R9", "R12")
@pytest.mark.slow
def test_a_killed_study_goes_on_where_it_was(vit, whole, given, tmp_path):
    """It is killed while cells train; they and the processes that read their images end by themselves."""
    line = (*given.line, *WORKER, "--out", tmp_path)
    process = start(tmp_path, *line, real=True)
    try:
        until(lambda: list(tmp_path.glob("**/result.json")), 900)
        process.kill()
        process.wait(120)
        assert len(list(tmp_path.glob("**/result.json"))) < 8
        until(lambda: not belonging(tmp_path), 180)
    finally:
        finish(tmp_path, process, 120)
    vit(*line).noted("of 8 cells were done before")
    assert same_but_for_kills(whole[0], tmp_path / given.name)


@linux_only
@pytest.mark.faults("R9")
@pytest.mark.slow
def test_a_study_killed_five_times_ends_as_if_it_had_not_been(vit, given, tmp_path):
    line = (*given.line, "--budget", "steps:60", "--seeds", "3", "--out")
    assert vit(*line, tmp_path / "plain").code == 0
    draw, killed = random.Random(7), 0
    for _ in range(5):
        process = start(tmp_path, *line, tmp_path / "killed")
        time.sleep(draw.uniform(2.0, 14.0))
        killed += process.poll() is None
        process.kill()
        finish(tmp_path, process, 120)
    ended(tmp_path, 0, *line, tmp_path / "killed", seconds=1800)
    assert killed > 0
    assert same_but_for_kills(tmp_path / "plain" / given.name, tmp_path / "killed" / given.name)


@on_digits
def test_a_report_can_be_made_again_without_data_or_torch(whole, given, tmp_path):
    study = tmp_path / given.name
    shutil.copytree(whole[0], study)
    before = (study / "results.csv").read_bytes(), json.loads((study / "summary.json").read_text())
    for name in ("results.csv", "summary.json", "report.html", "curve.png"):
        (study / name).unlink()
    script = (
        "import sys; from vit.__main__ import main; code = main(['report', sys.argv[1]]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script, str(study)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ((study / "results.csv").read_bytes(), json.loads((study / "summary.json").read_text())) == before
    assert StudyDirectory(study).report_path.is_file()
