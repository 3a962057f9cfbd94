"""`vit train PHOTOGRAPHS` starts from published weights where they can be had; a server on this machine is the hub."""

import os
import socket
import sys

import pytest
import timm
import torch
import yaml
from safetensors.torch import save_file

from tests.commands.weights_hub import WeightsHub
from tests.forked import run
from tests.processes import TWO, environment
from tests.runs import run_folder
from vit.commands.starting import PUBLISHED
from vit.weights.hub_cache import PATIENCE

NAME = PUBLISHED.removeprefix("timm:")
QUICK = ("--image_size", "32", "--epochs", "1", "--augment", "none", "--precision", "32-true", "--wandb", "off")
FINE_TUNED, PLAIN = "learning rate 0.0005, 0.75 of it for each block below", "learning rate 0.001, weight decay"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of weights with the shapes of the published ones."""
    torch.manual_seed(7)
    file = tmp_path_factory.mktemp("hub") / "model.safetensors"
    save_file(timm.create_model("deit_tiny_patch16_224").state_dict(), file)
    return file


@pytest.fixture
def hub(weights):
    with WeightsHub({NAME: weights}) as server:
        yield server


@pytest.fixture(scope="module")
def photographs(tmp_path_factory, draw_classes):
    return draw_classes(tmp_path_factory.mktemp("data") / "photos", ("blue", "red"), 10, side=80)


@pytest.fixture
def train(tmp_path, photographs):
    """`train(words, HF_ENDPOINT=...)` is the finished process of `vit train`."""

    def start(*words, **variables):
        kept = {key: value for key, value in environment(tmp_path).items() if not key.startswith("HF_")}
        kept |= {"HF_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), **variables}
        line = [sys.executable, "-m", "vit", "train", *map(str, words or [photographs])]
        done = run(line, cwd=tmp_path, env=kept, timeout=400)
        assert done.returncode == 0, done.stderr
        return done

    return start


def start_line(done):
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  start ")]
    return line


def test_photographs_start_from_published_weights_which_are_fetched_once(train, hub, photographs, tmp_path):
    done = train(photographs, "--dry_run", *QUICK, HF_ENDPOINT=hub.address)
    assert f"weights of {PUBLISHED}, because DATA are photographs and no network is chosen" in start_line(done)
    assert FINE_TUNED in done.stdout and f"Fetching timm/{NAME} from 127.0.0.1 (23 MB)" in done.stderr
    sharded = ("--strategy", "fsdp", "--devices", "2", "--trainer.accelerator", "cpu")
    assert f"weights of {PUBLISHED}" in start_line(
        train(photographs, "--dry_run", *QUICK, *sharded, HF_ENDPOINT=hub.address)
    )
    asked = len(hub.requests)
    done = train(photographs, *QUICK, "--out", "runs", HF_ENDPOINT=hub.address)
    assert len(hub.requests) == asked and "Fetching" not in done.stderr and FINE_TUNED in done.stdout
    begun = run_folder(tmp_path / "runs")
    assert yaml.safe_load((begun / "config.yaml").read_text())["model"]["init_from"] == PUBLISHED
    done = train(photographs, "--dry_run", *QUICK, HF_HUB_OFFLINE="1")  # the cache needs no hub
    assert FINE_TUNED in done.stdout


def test_without_a_hub_the_plan_says_why_the_weights_are_random(train, photographs):
    done = train(photographs, "--dry_run", *QUICK, HF_HUB_OFFLINE="1")
    assert "cannot be had (they are not in the cache, and HF_HUB_OFFLINE is set); --init_from WEIGHTS" in start_line(
        done
    )
    assert "--init_from none does not ask the hub" in start_line(done) and PLAIN in done.stdout


ASKED = """
import sys, time, huggingface_hub, timm
from vit.weights.hub_cache import fetch
began = time.monotonic()
print(fetch(sys.argv[1], print))
print(time.monotonic() - began)
"""


@pytest.mark.parametrize("hub_is", ["closed", "silent", "without the file", "unknown"])
def test_a_hub_that_cannot_help_costs_seconds(tmp_path, hub_is):
    """huggingface_hub by itself tries for a minute, and says so in a dozen lines."""
    with WeightsHub({}) as empty, socket.create_server(("127.0.0.1", 0)) as silent:
        places = {"closed": "http://127.0.0.1:9", "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
                  "without the file": empty.address, "unknown": "http://hub.invalid"}  # fmt: skip
        variables = {**environment(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "cache")}
        variables |= {"HF_ENDPOINT": places[hub_is]}
        done = run([sys.executable, "-c", ASKED, NAME], cwd=tmp_path, env=variables, timeout=400)
    obstacle, seconds = done.stdout.splitlines()
    assert obstacle.startswith(("127.0.0.1: ", "hub.invalid: ")) and float(seconds) < PATIENCE + 10
    assert done.stderr == ""


@pytest.mark.parametrize(
    "words", [("--init_from", "none"), ("--network", "vit_tiny_patch16_224"), ("--config", "c.yaml")]
)
def test_a_choice_is_kept_and_the_hub_is_not_asked(train, hub, photographs, tmp_path, words):
    (tmp_path / "c.yaml").write_text("model: {init_from: null}\n")
    done = train(photographs, "--dry_run", *QUICK, *words, HF_ENDPOINT=hub.address)
    assert hub.requests == [] and PLAIN in done.stdout and "\n  start " not in done.stdout


def test_what_was_decided_stands(train, hub, photographs, tmp_path):
    """A run that began without the weights goes on without them, whatever can be had by then."""
    script = (
        "import os, sys; from vit.__main__ import main; from vit.commands import train_progress\n"
        "train_progress.TrainProgress.step = lambda self, done, *rest: os._exit(1) if done == 2 else None\n"
        "main(['train', *sys.argv[1:]])"
    )
    words = (photographs, *QUICK, "--batch_size", "4", "--checkpoint_every", "0s", "--out", "runs")
    variables = {**environment(tmp_path), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    line = [sys.executable, "-c", script, *map(str, words)]
    assert run(line, cwd=tmp_path, env=variables, timeout=400).returncode == 1
    begun = run_folder(tmp_path / "runs")
    done = train(*words, "--resume", "auto", HF_ENDPOINT=hub.address)
    assert f"--resume auto: going on with {begun.relative_to(tmp_path)}" in done.stderr and hub.requests == []
    assert "the unfinished run began without them" in start_line(done) and (begun / "result.json").is_file()


@pytest.mark.slow
def test_two_processes_agree(train, hub, photographs, tmp_path):
    done = train(photographs, *QUICK, *TWO, "--batch_size", "4", "--out", "runs", HF_ENDPOINT=hub.address)
    assert "on 2 processes" in done.stdout and FINE_TUNED in done.stdout
    assert len([path for path in hub.requests if "resolve" in path]) <= 3  # the second process did not ask


def test_a_study_compares_from_random_weights(vit, photographs, here):
    answer = vit("study", photographs, "--sizes", "8", "--seeds", "1", "--budget", "steps:1", "--dry_run",
                 "--set", "model.preprocess.image_size=32", "--jobs", "1", "--wandb", "off")  # fmt: skip
    assert answer.code == 0, answer.err
    assert "vit_tiny_patch16_224" in answer.out and os.listdir(here) == []
