"""`vit train PHOTOGRAPHS` starts from published weights, or says what is missing; a server here is the hub."""

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
from vit.commands.training.train_options import PUBLISHED
from vit.weights.hubs import PATIENCE

NAME = PUBLISHED.removeprefix("timm:")
QUICK = ("--image_size", "32", "--epochs", "1", "--augment", "none", "--precision", "32-true", "--wandb", "off")
FINE_TUNED, PLAIN = "learning rate 0.0005, down to 1.2e-05 in the lowest layer", "learning rate 0.001, weight decay"


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

    def start(*words, code=0, **variables):
        kept = {key: value for key, value in environment(tmp_path).items() if not key.startswith("HF_")}
        kept |= {"HF_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), **variables}
        line = [sys.executable, "-m", "vit", "train", *map(str, words or [photographs])]
        done = run(line, cwd=tmp_path, env=kept, timeout=400)
        assert done.returncode == code, done.stderr
        return done

    return start


def start_line(done):
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  start ")]
    return line


@pytest.mark.slow
def test_photographs_start_from_published_weights_which_are_fetched_once(train, hub, photographs, tmp_path):
    done = train(photographs, *QUICK, "--out", "runs", HF_ENDPOINT=hub.address)
    assert f"weights of {PUBLISHED}, because DATA are photographs" in start_line(done)
    assert FINE_TUNED in done.stdout and f"Fetching timm/{NAME} from 127.0.0.1 (23 MB)" in done.stderr
    begun = run_folder(tmp_path / "runs")
    assert yaml.safe_load((begun / "config.yaml").read_text())["model"]["init_from"] == PUBLISHED
    asked = len(hub.requests)
    sharded = ("--strategy", "fsdp", "--optim.ema_decay", "0", "--devices", "2", "--trainer.accelerator", "cpu")
    done = train(photographs, "--dry_run", *QUICK, *sharded, HF_ENDPOINT=hub.address)
    assert f"weights of {PUBLISHED}" in start_line(done)
    assert len(hub.requests) == asked and "Fetching" not in done.stderr
    done = train(photographs, "--dry_run", *QUICK, HF_HUB_OFFLINE="1")  # the cache needs no hub
    assert FINE_TUNED in done.stdout


@pytest.mark.faults("K40")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), f"timm:{NAME}: they are not in the cache, and HF_HUB_OFFLINE is set"),
        (("--network", "resnet18"), "timm:resnet18.a1_in1k: they are not in the cache"),
        (("--network", "resnet10_small"), "timm has none for resnet10_small"),
        (("--model.network.drop_path_rate", "0.1"), f"timm:{NAME}: they are not in the cache"),
        (("--config", "c.yaml"), f"timm:{NAME}: they are not in the cache"),
    ],
)
def test_photographs_do_not_train_from_random_weights_unasked(train, photographs, tmp_path, words, why):
    """Before, the plan said it in one of fifteen lines, and the training took hours for a model that knew little."""
    (tmp_path / "c.yaml").write_text("optim: {epochs: 3}\n")
    done = train(photographs, *QUICK, *words, "--out", "runs", code=2, HF_HUB_OFFLINE="1")
    assert why in done.stderr and "give --init_from WEIGHTS" in done.stderr and "--init random" in done.stderr
    assert ("fill the hub's cache ('hf download timm/" in done.stderr) == ("resnet10_small" not in words)
    assert not (tmp_path / "runs").exists() and "epoch" not in done.stdout


def test_a_data_set_of_photographs_with_a_name_starts_alike(train, tmp_path):
    """Before, only folders and tables did."""
    words = ("food101", "--data.root", tmp_path, "--dry_run", *QUICK)
    assert f"timm:{NAME}: they are not in the cache" in train(*words, code=2, HF_HUB_OFFLINE="1").stderr
    done = train(*words, "--init", "random", code=3, HF_HUB_OFFLINE="1")
    assert "food101 could not be read" in done.stderr  # no images are there


def test_a_named_network_keeps_its_published_weights(train, photographs, tmp_path):
    """Before, one option, --network, cost tens of points without a word."""
    file = tmp_path / "resnet.safetensors"
    save_file(timm.create_model("resnet18").state_dict(), file)
    with WeightsHub({"resnet18.a1_in1k": file}) as server:
        done = train(photographs, "--dry_run", *QUICK, "--network", "resnet18", HF_ENDPOINT=server.address)
    assert "weights of timm:resnet18.a1_in1k, because DATA are photographs" in start_line(done)
    assert "Training resnet18 on" in done.stdout and "learning rate 0.0005, weight decay" in done.stdout


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        pytest.param(("--network", "vit_tiny_patch16_224"), True, marks=pytest.mark.slow),
        (("--model.network.drop_path_rate", "0.1"), True),
        (("--network", "vit_tiny_patch16_224", "--model.network.depth", "3"), False),
    ],
)
def test_options_of_a_network_keep_the_weights_where_these_fit(train, hub, photographs, words, fits):
    done = train(photographs, "--dry_run", *QUICK, *words, code=0 if fits else 2, HF_ENDPOINT=hub.address)
    assert (FINE_TUNED in done.stdout) == fits and (f"timm:{NAME}: " in done.stderr) != fits


ASKED = """
import sys, time, huggingface_hub, timm
from vit.weights.hubs import fetch, from_timm
began = time.monotonic()
print(fetch(sys.argv[1], print))
try:
    from_timm(sys.argv[1])
except Exception as error:
    print(error)
print(time.monotonic() - began)
"""


@pytest.mark.parametrize(
    "hub_is",
    ["closed", "without the file", *(pytest.param(name, marks=pytest.mark.slow) for name in ("silent", "unknown"))],
)
def test_a_hub_that_cannot_help_costs_seconds(tmp_path, hub_is):
    """huggingface_hub by itself tries for a minute, and says so in a dozen lines."""
    with WeightsHub({}) as empty, socket.create_server(("127.0.0.1", 0)) as silent:
        places = {"closed": "http://127.0.0.1:9", "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
                  "without the file": empty.address, "unknown": "http://hub.invalid"}  # fmt: skip
        variables = {**environment(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "cache")}
        variables |= {"HF_ENDPOINT": places[hub_is]}
        done = run([sys.executable, "-c", ASKED, NAME], cwd=tmp_path, env=variables, timeout=400)
    obstacle, error, seconds = done.stdout.splitlines()
    assert obstacle.startswith(("127.0.0.1: ", "hub.invalid: ")) and float(seconds) < 2 * PATIENCE + 10
    assert error.startswith(f"timm:{NAME} cannot be fetched: ")
    assert done.stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--init", "random"),
        pytest.param(("--init_from", "none"), marks=pytest.mark.slow),
        ("--init_from", "random", "--network", "vit_tiny_patch16_224"),
        ("--config", "c.yaml"),
    ],
)
def test_a_choice_is_kept_and_the_hub_is_not_asked(train, hub, photographs, tmp_path, words):
    (tmp_path / "c.yaml").write_text("model: {init_from: null}\n")
    done = train(photographs, "--dry_run", *QUICK, *words, HF_ENDPOINT=hub.address)
    assert hub.requests == [] and FINE_TUNED not in done.stdout and "\n  start " not in done.stdout


@pytest.mark.slow
def test_what_was_decided_stands(train, hub, photographs, tmp_path):
    """A run that began without the weights goes on without them, whatever is available by then."""
    script = (
        "import os, sys; from vit.__main__ import main; from vit.commands.training import train_progress\n"
        "train_progress.TrainProgress.step = lambda self, done, *rest: os._exit(1) if done == 2 else None\n"
        "main(['train', *sys.argv[1:]])"
    )
    words = (photographs, *QUICK, "--batch_size", "4", "--checkpoint_every", "0s", "--out", "runs")
    variables = {**environment(tmp_path), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    line = [sys.executable, "-c", script, *map(str, words), "--init", "random"]
    assert run(line, cwd=tmp_path, env=variables, timeout=400).returncode == 1
    begun = run_folder(tmp_path / "runs")
    done = train(*words, "--resume", "auto", HF_ENDPOINT=hub.address)
    assert f"--resume auto: going on with {begun.relative_to(tmp_path)}" in done.stderr and hub.requests == []
    assert (
        "random weights: the unfinished run began with them" in start_line(done) and (begun / "result.json").is_file()
    )


@pytest.mark.slow
def test_two_processes_agree(train, hub, photographs, tmp_path):
    done = train(photographs, *QUICK, *TWO, "--batch_size", "4", "--out", "runs", HF_ENDPOINT=hub.address)
    assert "on 2 processes" in done.stdout and FINE_TUNED in done.stdout
    assert len([path for path in hub.requests if "resolve" in path]) <= 3  # the second process did not ask


def test_a_study_compares_from_random_weights_on_demand(vit, photographs, here):
    words = ("--sizes", "8", "--seeds", "1", "--budget", "steps:1", "--dry_run")
    answer = vit("study", photographs, *words, "--init", "random", "--networks", "vit_tiny_patch16_224", "--set",
                 "model.preprocess.image_size=32", "--jobs", "1", "--wandb", "off").ok()  # fmt: skip
    assert "vit_tiny_patch16_224" in answer.out and os.listdir(here) == []
