"""Studies, cross-validations and probes on a cluster: SLURM and Ray here, tasks that end early, lost machines."""

import json
import sys
import time
from collections.abc import Iterator

import pytest

from tests.processes import ended, environment, finish, start, until
from tests.ray_cluster import ray_cluster
from tests.slurm import IS_HERE, WHY, Slurm, slurm
from vit.csv_files import records
from vit.data.loading.threads import available_cores
from vit.study.running.cluster import CellsToRun

PATIENT = 600  # seconds, on a busy machine
STUDY = ("study", "digits", "--networks", "digits,digits_cnn", "--sizes", "60,120", "--seeds", "2",
         "--budget", "steps:20", "--wandb", "off", "--out", "studies")  # fmt: skip
CROSSVAL = ("crossval", "colors", "--folds", "3", "--network", "vit_nano_patch2_8", "--optim.steps", "6", "--wandb",
            "off", "--batch_size", "8", "--data.num_workers", "0", "--out", "studies")  # fmt: skip
PROBE = ("probe", "colors", "--backbones", "random:vit_nano_patch2_8,random:resnet10_small", "--sizes", "12,all",
         "--seeds", "2", "--image_size", "8", "--out", "studies")  # fmt: skip
COMMANDS, NAMES = (STUDY, CROSSVAL, PROBE), ("study", "crossval", "probe")


def results(folder):
    """{cell: images that are predicted right} of a study, a cross-validation or a probe."""
    runs = sorted(path.parent for path in folder.glob("cells/**/config.yaml"))
    return {str(run.relative_to(folder)): json.loads((run / "result.json").read_text())["correct"] for run in runs}


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster.cpus", "2"), "give --executor slurm or --executor ray"),
        (("--executor", "slurm", "--cluster.tyme", "2h"), "did you mean 'time'"),
        (("--executor", "ray", "--cluster.partition", "gpu"), "--cluster.partition with --executor ray"),
    ],
)
@pytest.mark.faults("K20")
def test_options_of_a_cluster_are_checked(vit, images, command, options, words):
    vit(*command, *options).failed(2, words)
    assert not (images / "studies").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
@pytest.mark.faults("K20")
def test_a_machine_without_slurm_says_so(vit, images, monkeypatch, command):
    monkeypatch.setenv("PATH", "/nonexistent")
    vit(*command, "--executor", "slurm").failed(2, "this machine has no sbatch")
    assert not (images / "studies").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
@pytest.mark.parametrize(("executor", "package"), [("slurm", "submitit"), ("ray", "ray")])
@pytest.mark.faults("K21")
def test_an_executor_that_is_not_installed_says_how(vit, images, monkeypatch, command, executor, package):
    monkeypatch.setitem(sys.modules, package, None)  # as if it could not be imported
    vit(*command, "--executor", executor).failed(2, f"--executor {executor} needs", f"[{executor}]")
    assert not (images / "studies").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
@pytest.mark.faults("K22", simulated="SLURM's commands are scripts with its words")
def test_a_queue_that_refuses_the_tasks_is_quoted(vit, images, slurm_answers, command):
    slurm_answers("sbatch", err="sbatch: error: Batch job submission failed: Invalid account\n", code=1)
    answer = vit(*command, "--executor", "slurm").failed(2)
    assert "SLURM refuses the job: Batch job submission failed: Invalid account" in answer.err


@pytest.mark.parametrize(("command", "code"), [(STUDY, 3), (CROSSVAL, 5), (PROBE, 3)], ids=NAMES)
@pytest.mark.faults("K23", simulated="SLURM's commands are scripts, and its tasks never begin")
def test_lost_tasks_are_failures_with_a_reason(vit, images, slurm_answers, monkeypatch, command, code):
    """squeue knows no task of a job that was queued, and no cell has a result."""
    module = sys.modules[CellsToRun.__module__]
    monkeypatch.setattr(module, "_POLL", 0.01)
    monkeypatch.setattr(module, "_GRACE", 0.05)
    slurm_answers("sbatch", "Submitted batch job 12\n")
    slurm_answers("squeue")
    answer = vit(*command, "--executor", "slurm").failed(code)
    *_, last = answer.err.splitlines()
    assert "has ended without a result (see " in last and "jobs/12_" in last, last
    (folder,) = (images / "studies").iterdir()
    listed = json.loads((folder / ("crossval.json" if command is CROSSVAL else "study.json")).read_text())["cells"]
    assert len(list(folder.glob("cells/**/failure.txt"))) == len(listed)


@pytest.fixture
def images(tmp_path, monkeypatch, draw_classes):
    """An empty working folder but for the data set `colors`."""
    monkeypatch.chdir(tmp_path)
    draw_classes(tmp_path / "colors", ("blue", "green", "red"), 20, side=8)
    return tmp_path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Slurm]:
    with slurm(environment(tmp_path_factory.mktemp("slurm")), array_size=4) as found:
        yield found


@pytest.mark.slow
@pytest.mark.skipif(not IS_HERE, reason=WHY)
@pytest.mark.faults("A19")
def test_slurm_finds_what_one_machine_finds(cluster, tmp_path, monkeypatch):
    """8 cells in arrays of at most 4 tasks; a task that is asked to end goes on later; a queue that does not exist."""
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    on_slurm = (*STUDY, "--executor", "slurm", "--cluster.cpus", "1")
    _, said = ended(tmp_path, 2, *on_slurm, "--cluster.partition", "nowhere", real=True)
    assert "SLURM refuses the job" in said and "nowhere" in said, said

    out, _ = ended(tmp_path, 0, *on_slurm, "--jobs", "2", real=True)
    assert "tasks of SLURM" in out, out
    cores = available_cores()  # with as many jobs, a cell has one thread, as on SLURM
    ended(tmp_path, 0, *STUDY, "--name", "here", "--jobs", cores, real=True)
    assert results(tmp_path / "studies" / "digits") == results(tmp_path / "studies" / "here")


@pytest.mark.slow
@pytest.mark.skipif(not IS_HERE, reason=WHY)
@pytest.mark.parametrize(("command", "num_tasks"), [(CROSSVAL, 3), (PROBE, 2)], ids=["crossval", "probe"])
def test_folds_and_probes_on_slurm_find_what_one_machine_finds(cluster, images, monkeypatch, command, num_tasks):
    """A fold is a task, and so are all probes of a backbone, because they share its features."""
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    out, _ = ended(images, 0, *command, "--name", "there", "--executor", "slurm", "--cluster.cpus", "1", real=True)
    assert "tasks of SLURM" in out, out
    there, here = images / "studies" / "there", images / "studies" / "here"
    assert len(json.loads((there / "jobs" / "submitted.json").read_text())) == num_tasks
    ended(images, 0, *command, "--name", "here", "--jobs", available_cores(), real=True)
    assert results(there) == results(here) and len(results(here)) == (3 if command is CROSSVAL else 8)
    assert found_in(there) == found_in(here)


def found_in(folder):
    """What a cross-validation or a probe found, without times and its own folder."""
    if (folder / "predictions.csv").is_file():
        return (folder / "predictions.csv").read_text()
    rows = records(folder / "backbones.csv")
    return [{name: value for name, value in row.items() if name not in ("source", "seconds_per_image")} for row in rows]


@pytest.mark.slow
@pytest.mark.skipif(not IS_HERE, reason=WHY)
@pytest.mark.faults("A19")
def test_a_task_whose_time_is_over_continues(cluster, tmp_path, monkeypatch):
    """submitit gets SIGUSR2, the cell saves, SLURM queues the task again, and the cell does not start from nothing."""
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    study = ("study", "digits", "--networks", "digits", "--sizes", "all", "--seeds", "1", "--budget", "steps:2000",
             "--wandb", "off", "--out", "studies", "--executor", "slurm", "--cluster.cpus", "1")  # fmt: skip
    process = start(tmp_path, *study, real=True)
    folder = tmp_path / "studies" / "digits"
    until(lambda: list(folder.glob("cells/*/*/*/checkpoints/last.ckpt")), PATIENT)
    (job,) = {name.partition("_")[0] for name in json.loads((folder / "jobs" / "submitted.json").read_text())}
    asked = time.time()
    cluster.ask("scancel", "--signal=USR2", job)
    until(lambda: cluster.state(job) == "PENDING", PATIENT)
    cluster.ask("scontrol", "update", f"jobid={job}", "starttime=now")
    out, said = finish(tmp_path, process, PATIENT)
    assert process.returncode == 0 and "FAILED" not in out + said, out + said
    (run,) = folder.glob("cells/*/*/*")
    began, ended = run / "splits.csv", run / "result.json"  # a resumed training writes no splits.csv
    assert began.stat().st_mtime < asked < ended.stat().st_mtime


@pytest.mark.slow
@pytest.mark.faults("A20")
def test_ray_trains_the_cells_of_a_lost_machine_elsewhere(tmp_path, monkeypatch):
    with ray_cluster(1, monkeypatch) as machines:
        lost = machines.add_node(num_cpus=1)
        process = start(
            tmp_path, *STUDY, "--budget", "steps:300", "--executor", "ray", "--cluster.cpus", "1", real=True
        )
        folder = tmp_path / "studies" / "digits"
        until(lambda: len(list(folder.glob("cells/*/*/*/log.txt"))) >= 2, PATIENT)
        machines.remove_node(lost, allow_graceful=False)
        out, said = finish(tmp_path, process, PATIENT)
        assert process.returncode == 0 and "FAILED" not in out + said, out + said
        assert len(results(folder)) == 8


@pytest.mark.slow
@pytest.mark.parametrize("command", [CROSSVAL, PROBE], ids=["crossval", "probe"])
def test_ray_finds_paths_from_the_folder_of_the_command(images, monkeypatch, tmp_path_factory, command):
    """The machines of the cluster were started in another folder, and DATA and --out are relative."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with ray_cluster(2, monkeypatch):
        out, _ = ended(images, 0, *command, "--name", "there", "--executor", "ray", "--cluster.cpus", "1", real=True)
        assert "tasks of Ray" in out, out
        assert len(results(images / "studies" / "there")) == (3 if command is CROSSVAL else 8)
