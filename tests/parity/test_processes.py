"""One process or two: the same numbers, the same rows, one run folder."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from tests.forked import run as run_program
from tests.processes import ROOT, environment, free_port
from tests.runs import run_folder
from tests.tables import rows
from vit.checkpoints.load import load


def torchrun(folder, *arguments, processes=2):
    """A program that must succeed on several processes of this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command = [*launcher, "--master-addr", "127.0.0.1", "--master-port", free_port(), *arguments]
    done = run_program(command, cwd=folder, env=environment(folder), timeout=600)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def odd(colors, tmp_path_factory):
    """Images of two classes that the digits model knows, an odd number of them."""
    folder = tmp_path_factory.mktemp("odd") / "data"
    for name, color, count in (("3", "red", 3), ("7", "blue", 4)):
        (folder / name).mkdir(parents=True)
        for place in range(count):
            shutil.copy(colors / color / f"{place:02d}.png", folder / name)
    return folder


@pytest.fixture(scope="module")
def hundred_and_three(tmp_path_factory):
    """103 small images of three classes that the digits model knows: no number of processes divides them."""
    folder = tmp_path_factory.mktemp("many") / "data"
    generator = np.random.default_rng(9)
    for place in range(103):
        (folder / str(place % 3)).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / str(place % 3) / f"{place}.png")
    return folder


@pytest.mark.faults("X1")
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.slow
def test_evaluation_counts_every_image_once(vit, digits_run, hundred_and_three, tmp_path, processes):
    images = hundred_and_three
    assert vit("evaluate", digits_run.path, images, "--output", tmp_path / "one").code == 0
    options = ("evaluate", digits_run.path, images, "--output", tmp_path / "two")
    done = torchrun(tmp_path, "-m", "vit", *options, processes=processes)
    one, two = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("one", "two"))
    assert one["images"] == two["images"] == 103
    for name, metric in one["metrics"].items():
        assert two["metrics"][name] == pytest.approx(metric, abs=1e-7)
    assert two["confusion"] == one["confusion"] and two["per_class"] == one["per_class"]
    first, second = rows(tmp_path / "one" / "predictions.csv"), rows(tmp_path / "two" / "predictions.csv")
    assert [(row["path"], row["label"], row["predicted"]) for row in first] == [
        (row["path"], row["label"], row["predicted"]) for row in second
    ]
    assert done.stdout.count("Next: ") == 1  # one process speaks


@pytest.mark.slow
@pytest.mark.faults("X1")
def test_fewer_images_than_processes_are_evaluated_once(digits_run, odd, tmp_path):
    for name in ("3", "7"):
        shutil.copytree(odd / name, tmp_path / "few" / name, ignore=shutil.ignore_patterns("01*", "02*", "03*"))
    torchrun(tmp_path, "-m", "vit", "evaluate", digits_run.path, tmp_path / "few", "--output", "out", processes=3)
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["images"] == 2


@pytest.mark.faults("X1")
@pytest.mark.slow
def test_training_validates_and_tests_every_image_once(vit, colors, tmp_path):
    """3 validation images and 1 test image on 2 processes; the rate is so small that no weight moves."""
    lines = ["path,label,split"]
    for label in ("blue", "green", "red"):
        lines += [f"{colors / label / f'{place:02d}.png'},{label},train" for place in range(8)]
        lines.append(f"{colors / label / '08.png'},{label},validation")
    (tmp_path / "table.csv").write_text("\n".join([*lines, f"{colors / 'red' / '09.png'},red,test", ""]))
    options = ("--network", "vit_nano_patch2_8", "--epochs", 1, "--batch_size", 8, "--lr", 1e-12, "--precision",
               "32-true", "--augment", "none", "--optim.optimizer", "sgd", "--wandb", "off")  # fmt: skip
    assert vit("train", tmp_path / "table.csv", *options, "--out", tmp_path / "one").code == 0
    torchrun(tmp_path, ROOT / "train.py", tmp_path / "table.csv", *options, "--out", tmp_path / "two")
    one, two = (json.loads(next((tmp_path / name).glob("**/result.json")).read_text()) for name in ("one", "two"))
    assert two["images"] == one["images"] == {"train": 24, "validation": 3, "test": 1}
    assert two["validation"] == pytest.approx(one["validation"], abs=1e-7) and two["correct"] == one["correct"]
    for name, metric in one["metrics"].items():
        assert two["metrics"][name] == pytest.approx(metric, abs=1e-6), name


@pytest.mark.slow
@pytest.mark.faults("C15")
def test_what_two_processes_learned_in_bfloat16_one_reads_on_a_cpu(vit, tmp_path):
    options = ("digits", "--epochs", 2, "--batch_size", 128, "--precision", "bf16-mixed", "--wandb", "off")
    torchrun(tmp_path, ROOT / "train.py", *options, "--out", tmp_path / "runs")
    run = run_folder(tmp_path / "runs")
    trained = json.loads((run / "result.json").read_text())
    assert trained["precision"] == "bf16-mixed"
    for precision, tolerance in (("auto", 1e-3), ("32-true", 2e-2)):
        folder = tmp_path / precision
        vit("evaluate", run, "--device", "cpu", "--precision", precision, "--output", folder).ok()
        found = json.loads((folder / "metrics.json").read_text())
        for name in ("acc1", "nll"):
            assert found["metrics"][name]["value"] == pytest.approx(trained["metrics"][name]["value"], abs=tolerance)
    network, _ = load(run / "checkpoints" / "best.ckpt")
    assert {str(value.dtype) for value in network.parameters()} == {"torch.float32"}


@pytest.mark.faults("W6", "X8", "X9")
def test_training_takes_the_same_steps_in_one_run_folder(vit, digits_run, tmp_path):
    options = ("--epochs", 1, "--batch_size", 128, "--precision", "32-true", "--augment", "none", "--seed", 5)
    options += ("--augment.shift", 0, "--augment.rotate", 0, "--augment.zoom", 0, "--wandb", "off")
    options += ("--data.sampling", "balanced", "--optim.class_weights", "{3: 9, 7: 0.2}", "--optim.accumulate", 2)
    assert vit("train", "digits", *options, "--out", tmp_path / "one").code == 0
    done = torchrun(tmp_path, ROOT / "train.py", "digits", *options, "--wandb", "offline", "--out", tmp_path / "two")
    found = []
    for name in ("one", "two"):
        run = run_folder(tmp_path / name)
        assert [path.name for path in (tmp_path / name / "digits" / "vit_nano_patch2_8").iterdir()] == [run.name]
        found.append((run, json.loads((run / "result.json").read_text()), rows(run / "metrics.csv")))
    (_, one, alone), (run, two, together) = found
    assert two["steps"] == one["steps"] == 9 and two["images"] == one["images"]
    assert two["fingerprints"] == one["fingerprints"]
    epochs = [next(row for row in table if row["val/loss"]) for table in (alone, together)]
    for name in ("train/loss", "val/loss", "lr"):
        assert float(epochs[1][name]) == pytest.approx(float(epochs[0][name]), abs=1e-3)
    assert [row["step"] for row in together] == [row["step"] for row in alone]
    assert two["metrics"]["nll"]["value"] == pytest.approx(one["metrics"]["nll"]["value"], abs=1e-3)
    assert done.stdout.count("Training vit_nano_patch2_8 on digits") == 1 and "2 processes" in done.stdout
    assert not (tmp_path / "two" / "checkpoints").exists() and (run / "checkpoints" / "best.ckpt").is_file()
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]
    assert len(list(run.glob("wandb/offline-run-*"))) == 1 and done.stderr.count("Weights & Biases") == 1
    assert load(run / "checkpoints" / "best.ckpt")[1].class_names == load(digits_run.best)[1].class_names
