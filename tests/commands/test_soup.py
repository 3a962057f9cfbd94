"""`vit soup`: the average of weights that start from the same weights"""

import json
import os
import shutil

import pytest
import torch

from tests.runs import run_folder, trained
from vit.checkpoints.format import KEY
from vit.checkpoints.io import read_checkpoint, write_checkpoint
from vit.checkpoints.load import load

OPTIONS = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 2, "--wandb", "off", "--image_size", 8,
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(vit, colors, tmp_path_factory):
    """(a run from random weights, three runs that start from it)."""
    out = tmp_path_factory.mktemp("soup")
    network = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1)
    first = trained(out / "first", colors, *network, *OPTIONS)
    found = []
    for seed in (1, 2, 3):
        vit("train", colors, "--init_from", first, *OPTIONS, "--seed", seed, "--out", out / str(seed)).ok()
        found.append(run_folder(out / str(seed)))
    return first, found


def test_a_soup_is_the_mean_of_the_runs_that_it_names(vit, runs, colors, tmp_path):
    answer = vit("soup", *runs[1], "--output", tmp_path / "soup.ckpt").ok()
    network, description = load(tmp_path / "soup.ckpt")
    above = os.path.commonpath(runs[1])
    used = [run for run in runs[1] if os.path.relpath(run, above) in description.made_of]
    assert description.made_of.startswith(f"the average of {len(used)} of 3 runs: ") and used
    singles = [load(run / "checkpoints" / "best.ckpt")[0].state_dict() for run in used]
    for name, value in network.state_dict().items():
        assert torch.allclose(value, torch.stack([single[name] for single in singles]).mean(0), atol=1e-6)
    best = max(json.loads((run / "result.json").read_text())["validation"]["val/acc1"] for run in runs[1])
    assert description.metrics["val/acc1"] >= best - 1e-6 and len(description.validation_scores)
    assert "paired 95 % interval" in answer.out and "of the average with it" in answer.out
    assert vit("predict", tmp_path / "soup.ckpt", colors / "red", "--output", tmp_path / "r.csv").code == 0
    assert vit("soup", *runs[1], "--output", tmp_path / "soup.ckpt").code == 2  # never overwritten


def test_a_file_that_appears_meanwhile_is_kept(vit, runs, tmp_path, monkeypatch):
    def write(content, path):
        write_checkpoint(content, path)
        (tmp_path / "soup.ckpt").write_text("of another program")

    monkeypatch.setattr("vit.checkpoints.load.write_checkpoint", write)
    answer = vit("soup", *runs[1][:2], "--output", tmp_path / "soup.ckpt")
    assert answer.code == 7 and (tmp_path / "soup.ckpt").read_text() == "of another program", answer.err


def test_a_run_that_lowers_the_accuracy_stays_out(vit, runs, tmp_path):
    spoiled = tmp_path / "runs" / "spoiled"
    spoiled.parent.mkdir()
    shutil.copytree(runs[1][1], spoiled)
    file = spoiled / "checkpoints" / "best.ckpt"
    content = read_checkpoint(file)
    content["state_dict"] = {name: 50 * torch.randn_like(value) for name, value in content["state_dict"].items()}
    content[KEY]["network"]["pool"] = "cls"  # a default that is written out: before, the networks were said to differ
    torch.save(content, file)
    answer = vit("soup", runs[1][0], spoiled, "--output", tmp_path / "soup.ckpt").ok()
    row = next(line for line in answer.out.splitlines() if line.startswith(str(spoiled)))
    assert row.split()[-1] == "no" and "the soup is that run alone" in answer.err


def test_runs_whose_average_means_nothing_are_refused(vit, runs, colors, digits_run, tmp_path):
    first, found = runs
    for others, words in (
        ((found[0], first), "an average of such weights means nothing"),
        ((found[0],), "two or more runs"),
        ((found[0], found[0]), "is given twice"),
        ((found[0], digits_run.path), "an average of such weights means nothing"),
        ((first, found[0]), f"{first} starts from random weights: an average"),
    ):
        vit("soup", *others, "--output", tmp_path / "soup.ckpt").failed(2, words)
    assert not (tmp_path / "soup.ckpt").exists()
    answer = vit("train", colors, "--init_from", first, *OPTIONS, "--data.split_seed", 3, "--out", tmp_path)
    other = vit("soup", found[0], run_folder(tmp_path), "--output", tmp_path / "soup.ckpt")
    assert answer.code == 0 and other.code == 3 and "has other validation images" in other.err
    relabeled = shutil.copytree(found[1], tmp_path / "relabeled")
    table = (relabeled / "splits.csv").read_text()
    (relabeled / "splits.csv").write_text(table.replace(",red,validation", ",blue,validation", 1))
    other = vit("soup", found[0], relabeled, "--output", tmp_path / "soup.ckpt")
    assert other.code == 3 and "has other validation images or labels" in other.err
