"""A study on a cluster: SLURM and Ray on this machine, tasks that end early, machines that are lost."""

import json
import shutil
import sys
import time
from collections.abc import Iterator

import pytest

from tests.processes import environment, finish, start, until
from tests.slurm import IS_HERE, WHY, Slurm, slurm
from vit.data.threads import available_cores

PATIENT = 600  # seconds, on a busy machine
STUDY = ("study", "digits", "--networks", "digits,digits_cnn", "--sizes", "60,120", "--seeds", "2",
         "--budget", "steps:20", "--wandb", "off", "--out", "studies")  # fmt: skip


def results(folder):
    """{cell: accuracy} of a study's results."""
    found = json.loads((folder / "study.json").read_text())["cells"]
    read = {cell["folder"]: folder / cell["folder"] / "result.json" for cell in found}
    return {name: json.loads(path.read_text())["correct"] for name, path in read.items()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster.cpus", "2"), "give --executor slurm or --executor ray"),
        (("--executor", "slurm", "--cluster.tyme", "2h"), "did you mean 'time'"),
        (("--executor", "ray", "--cluster.partition", "gpu"), "--cluster.partition with --executor ray"),
    ],
)
@pytest.mark.faults("K20")
def test_options_of_a_cluster_are_checked(vit, here, options, words):
    answer = vit(*STUDY, *options)
    assert answer.code == 2 and words in answer.err, answer.err


@pytest.mark.faults("K20")
def test_a_machine_without_slurm_says_so(vit, here, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    answer = vit(*STUDY, "--executor", "slurm")
    assert answer.code == 2 and "this machine has no sbatch" in answer.err


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
    process = start(tmp_path, *on_slurm, "--cluster.partition", "nowhere", real=True)
    _, said = finish(tmp_path, process, PATIENT)
    assert process.returncode == 2 and "SLURM refuses the job" in said and "nowhere" in said, said

    process = start(tmp_path, *on_slurm, "--jobs", "2", real=True)
    out, said = finish(tmp_path, process, PATIENT)
    assert process.returncode == 0 and "tasks of SLURM" in out, out + said
    cores = available_cores()  # with as many jobs, a cell has one thread, as on SLURM
    process = start(tmp_path, *STUDY, "--name", "here", "--jobs", cores, real=True)
    out, said = finish(tmp_path, process, PATIENT)
    assert process.returncode == 0, out + said
    assert results(tmp_path / "studies" / "digits") == results(tmp_path / "studies" / "here")


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
    ray = pytest.importorskip("ray", reason="needs the extra 'ray'")
    from ray.cluster_utils import Cluster

    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        lost = machines.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", machines.address)
        process = start(
            tmp_path, *STUDY, "--budget", "steps:300", "--executor", "ray", "--cluster.cpus", "1", real=True
        )
        folder = tmp_path / "studies" / "digits"
        until(lambda: len(list(folder.glob("cells/*/*/*/log.txt"))) >= 2, PATIENT)
        machines.remove_node(lost, allow_graceful=False)
        out, said = finish(tmp_path, process, PATIENT)
        assert process.returncode == 0 and "FAILED" not in out + said, out + said
        assert len(results(folder)) == 8
    finally:
        ray.shutdown()
        machines.shutdown()
        shutil.rmtree("/tmp/ray", ignore_errors=True)
    assert sys.modules["ray"]
