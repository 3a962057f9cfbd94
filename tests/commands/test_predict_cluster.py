"""`vit predict --parts` on a cluster: SLURM and Ray here, tasks that end early, and options that do not fit."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.processes import ended, environment, finish, start, until
from tests.ray_cluster import ray_cluster
from tests.slurm import IS_HERE, WHY, Slurm, slurm
from vit.commands.predicting import predict_parts
from vit.commands.predicting.prediction_setup import AnswerOptions, PredictionSetup
from vit.data.core.dataset_names import TableColumns
from vit.errors import CheckpointError
from vit.inference.parts import Manifest
from vit.layout import PartsLayout

PATIENT = 600  # seconds, on a busy machine
ON_SLURM = ("--executor", "slurm", "--jobs", "2")


@pytest.fixture
def command(digits_run, here):
    """A prediction of 24 pictures, one of them damaged, in 5 parts."""
    for number in range(23):
        (here / "pictures").mkdir(exist_ok=True)
        Image.new("L", (8, 8), 10 * number).save(here / "pictures" / f"{number:02}.png")
    (here / "pictures" / "23.png").write_text("no image")
    return "predict", digits_run.path, "pictures", "--parts", "parts", "--rows_per_part", "5"


@pytest.mark.faults("K20")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--jobs", "2"), "--jobs without a cluster"),
        (("--executor", "slurm"), "--executor slurm without --jobs"),
        ((*ON_SLURM, "--cluster.cells_per_task", "2"), "--cluster.cells_per_task with vit predict"),
        ((*ON_SLURM, "--cluster.tyme", "2h"), "did you mean 'time'"),
    ],
)
def test_options_that_do_not_fit_are_refused(vit, command, here, slurm_answers, options, words):
    vit(*command, *options).failed(2, words)
    assert not (here / "parts").exists()


def test_a_task_refuses_a_model_that_its_machine_lacks(here):
    wanted = AnswerOptions(None, None, None, "lac", reject_novel=False)
    setup = PredictionSetup("gone.ckpt", wanted, 5, False, "cpu", "auto", "auto")
    job = predict_parts.PartsJob(setup, ["pictures"], here / "parts", False, 5, 64, TableColumns())
    with pytest.raises(CheckpointError, match=r"gone\.ckpt"):
        replace(job, home=here)()


@pytest.mark.faults("K20")
def test_a_cluster_needs_parts_and_sbatch(vit, command, here, slurm_answers, monkeypatch):
    vit(*command[:3], *ON_SLURM).failed(2, "--executor slurm without --parts")
    monkeypatch.setenv("PATH", "/nonexistent")
    vit(*command, *ON_SLURM).failed(2, "this machine has no sbatch")
    assert not (here / "parts").exists()


def test_several_labels_of_an_image_are_counted(vit, labels_run, here):
    for number in range(8):
        Image.new("RGB", (16, 16), (30 * number, 0, 0)).save(here / f"{number}.png")
    vit("predict", labels_run.path, *sorted(here.glob("*.png")), "--parts", "parts", "--rows_per_part", 3).ok()
    files = PartsLayout(here / "parts")
    (manifest,) = (Manifest(path) for path in files.path.glob("*.parquet") if "part-" not in path.name)
    counted = predict_parts._summary(files, manifest, ())
    rows = [row for path in sorted(files.path.glob("part-*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert counted.num_files == 8
    assert counted.label_counts == Counter(label for row in rows for label in row["labels"] or ())


@pytest.mark.faults("K22", simulated="SLURM's commands are scripts with its words")
def test_a_queue_that_refuses_the_tasks_is_quoted(vit, command, slurm_answers):
    slurm_answers("sbatch", err="sbatch: error: Batch job submission failed: Invalid account\n", code=1)
    vit(*command, *ON_SLURM).failed(2, "SLURM refuses the job: Batch job submission failed: Invalid account")


@pytest.mark.faults("K23", simulated="SLURM's commands are scripts, and its tasks never begin")
def test_tasks_that_end_without_their_parts_are_an_error_and_the_rest_follows(
    vit, command, here, slurm_answers, monkeypatch
):
    monkeypatch.setattr(predict_parts, "_POLL", 0.01)
    monkeypatch.setattr(predict_parts, "_GRACE", 0.05)
    slurm_answers("sbatch", "Submitted batch job 12\n")
    slurm_answers("squeue")
    vit(*command, *ON_SLURM).failed(5, "5 of 5 parts are missing", "parts/jobs")
    assert vit(*command).code == 0  # without a cluster, into the same folder
    vit(*command, *ON_SLURM).noted("5 of 5 parts are there")
    assert "24 images, each with exactly one row, in 5 parts" in vit("predict", "--merge", "parts").out


@pytest.fixture
def cluster(tmp_path_factory) -> Iterator[Slurm]:
    with slurm(environment(tmp_path_factory.mktemp("slurm"))) as found:
        yield found


@pytest.mark.slow
@pytest.mark.skipif(not IS_HERE, reason=WHY)
@pytest.mark.faults("K23")
def test_tasks_of_slurm_compute_all_parts_and_a_lost_one_is_made_good(vit, command, here, cluster, monkeypatch):
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    on_slurm = (*command, *ON_SLURM, "--cluster.cpus", "1")
    process = start(here, *on_slurm, real=True)
    until(lambda: list((here / "parts").glob("part-*")), PATIENT)
    cluster.ask("scancel", "--user=root")
    out, said = finish(here, process, PATIENT)
    assert process.returncode in (0, 5), out + said  # 0: all parts were there before the tasks were cancelled
    ended(here, 0, *on_slurm, real=True)
    assert (
        "24 images, each with exactly one row, in 5 parts: 1 not_image, 23 ok" in vit("predict", "--merge", "parts").out
    )


@pytest.mark.slow
@pytest.mark.faults("A20")
def test_tasks_of_ray_compute_all_parts(vit, command, here, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with ray_cluster(2, monkeypatch):
        monkeypatch.chdir(here)
        out, said = ended(here, 0, *command, "--executor", "ray", "--jobs", "2", "--cluster.cpus", "1", real=True)
        assert "2 tasks of RAY" in said, out + said
        assert "24 images, each with exactly one row, in 5 parts" in vit("predict", "--merge", "parts").out
