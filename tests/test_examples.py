"""examples/kubernetes and examples/skypilot: their options exist, and the script of pods ends as Kubernetes needs."""

import re
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.conftest import ask
from tests.parity.interrupted import same_but_for_rounding
from tests.processes import ROOT, belonging, environment, free_port, linux_only, send, until
from tests.runs import run_folder

FILES = [
    ROOT / "examples" / place / name for place in ("kubernetes", "skypilot") for name in ("study.yaml", "train.yaml")
]
TRAIN = ROOT / "examples" / "kubernetes" / "train.yaml"
LONG = "digits --network vit_nano_patch2_8 --augment strong --optim.steps 600 --batch_size 32 --optim.optimizer sgd \
        --lr 0.01 --precision 32-true --keep_state true --wandb off --trainer.accelerator cpu"


def container(path):
    """The container of a Job, and the Job."""
    (job,) = [part for part in yaml.safe_load_all(path.read_text()) if part["kind"] == "Job"]
    (found,) = job["spec"]["template"]["spec"]["containers"]
    return found, job["spec"]


def commands(path):
    """The scripts of a file."""
    if path.parent.name == "skypilot":
        return yaml.safe_load(path.read_text())["run"]
    found, _ = container(path)
    return " ".join([*found["args"], *(one["value"] for one in found["env"])])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_options_of_examples_exist(path):
    said = commands(path)
    (command,) = set(re.findall(r"\bvit (train|study)\b", said))
    options = set(re.findall(r"(?<= )--[a-z_.]+", said.partition(f"vit {command}")[2])) | {"--out"}
    for option in options:
        assert re.search(rf"{re.escape(option)}\b", ask(command, "--help").out), option
    assert ("--resume auto" if command == "train" else "--shard") in said


@pytest.mark.parametrize("name", ["study.yaml", "train.yaml"])
def test_jobs_are_what_kubernetes_takes(name):
    """Checked by the schema of Kubernetes where the package is installed."""
    kubernetes = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")
    for part in yaml.safe_load_all((ROOT / "examples" / "kubernetes" / name).read_text()):
        kubernetes.validate(part, "1.33", strict=True)


@pytest.mark.parametrize(("name", "number"), [("study.yaml", "COMPLETIONS"), ("train.yaml", "MACHINES")])
def test_the_number_of_pods_is_the_number_of_parts(name, number):
    found, spec = container(TRAIN.with_name(name))
    values = {one["name"]: one["value"] for one in found["env"]}
    assert spec["completions"] == spec["parallelism"] == int(values[number])
    ignored = [rule["onExitCodes"]["values"] for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert 138 in ignored[0]


def pod(folder, index, more):
    """A pod of train.yaml as a process: its script with its variables, of which a test changes some."""
    found, _ = container(TRAIN)
    values = {one["name"]: one["value"] for one in found["env"]} | {"JOB_COMPLETION_INDEX": str(index)} | more
    variables = environment(folder) | values | {"OUT": str(folder / "runs")}
    variables["PATH"] = f"{folder / 'bin'}:{variables['PATH']}"
    with open(folder / f"said-{index}", "a") as said:
        return subprocess.Popen([*found["command"], *found["args"]], env=variables, cwd=folder, stderr=said)


def write_torchrun(folder, script):
    (folder / "bin").mkdir()
    (folder / "bin" / "torchrun").write_text(f"#!/bin/bash\n{script}\n")
    (folder / "bin" / "torchrun").chmod(0o755)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("mkdir -p $OUT/a/b/c && touch $OUT/a/b/c/result.json", 0),
        ("exit 0", 138),  # another process was asked to end
        ("exit 3", 3),
        ("exit 1", 1),
    ],
)
def test_a_pod_succeeds_only_with_a_result(tmp_path, script, code):
    write_torchrun(tmp_path, script)
    assert pod(tmp_path, 1, {"PATIENCE": "1"}).wait(20) == code


def test_a_pod_hands_sigterm_on_and_waits(tmp_path):
    write_torchrun(tmp_path, f"trap 'sleep 0.3; touch {tmp_path}/saved; exit 1' TERM; touch {tmp_path}/began\n"
                             "while :; do sleep 0.05; done")  # fmt: skip
    process = pod(tmp_path, 0, {})
    until((tmp_path / "began").exists, 20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 1 and (tmp_path / "saved").exists()


@linux_only
@pytest.mark.slow
@pytest.mark.faults("X12", simulated="pods are processes that run the script of the Job")
def test_pods_that_come_back_end_with_the_weights_of_one_process(vit, tmp_path):
    """One pod is asked to end in the middle. Both end without success, and both continue when they start again."""
    write_torchrun(tmp_path, f'exec {sys.executable} -m torch.distributed.run "$@"')
    more = {"PROCESSES": "1", "FIRST": "127.0.0.1", "WORDS": LONG, "PORT": free_port(), "PATIENCE": "3"}
    try:
        pods = [pod(tmp_path, index, more) for index in range(2)]
        until(lambda: any(len(path.read_text().splitlines()) > 1 for path in tmp_path.glob("runs/**/metrics.csv")), 300)
        pods[1].send_signal(signal.SIGTERM)
        codes = [one.wait(120) for one in pods]
        assert codes[0] == 1 and codes[1] in (1, 138), codes
        said = (tmp_path / "said-0").read_text()
        assert "which is saved" in said and not list(tmp_path.glob("runs/**/result.json"))
        time.sleep(1)
        more["PORT"] = free_port()
        pods = [pod(tmp_path, index, more | {"PATIENCE": "120"}) for index in range(2)]
        assert [one.wait(400) for one in pods] == [0, 0], (tmp_path / "said-0").read_text()
        assert pod(tmp_path, 0, more).wait(20) == 0  # a pod that starts after the end of the training
    finally:
        send(belonging(tmp_path), signal.SIGKILL)
    assert vit("train", *LONG.split(), "--devices", 1, "--out", tmp_path / "one").code == 0
    assert same_but_for_rounding(run_folder(tmp_path / "one"), run_folder(tmp_path / "runs"))
