"""Runs whose training is not finished, runs whose folder goes away, and what a finished run keeps."""

import json
import os
import shutil

import pytest
import torch

import vit as package
from tests.runs import at_step, died, run_folder, weights
from vit.errors import UsageError
from vit.report.run import run_page

SHORT = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 6, "--epochs", 4,
    "--data.num_workers", 0, "--wandb", "off",
)  # fmt: skip
LACKS = "2 of 4 epochs, no temperature"


@pytest.fixture(scope="module")
def ended(colors, tmp_path_factory):
    """A run that died after two of four epochs."""
    return died(tmp_path_factory.mktemp("ended"), 13, colors, *SHORT)


@pytest.fixture(scope="module")
def finished(vit, ended, tmp_path_factory):
    """The same run, resumed to its end."""
    run = shutil.copytree(ended, tmp_path_factory.mktemp("finished") / "a" / "b" / "run")
    vit("train", "--resume", run).ok()
    return run


def commands(model, colors):
    image = colors / "red" / "00.png"
    yield ("evaluate", model, colors), "ev/metrics.json", ("--output", "ev")
    yield ("evaluate", model, colors), "ev/report.html", ("--output", "ev")
    yield ("predict", model, colors / "red"), "p.html", ("--output", "p.csv", "--gallery")
    for file in ("p.csv", "p.jsonl", "p.parquet"):
        yield ("predict", model, colors / "red"), file, ("--output", file)
    yield ("predict", model, colors / "red", "--parts", "parts"), "parts/part-00000.parquet", ()
    yield ("explain", model, image, "--method", "best"), "ex/explanations.html", ("--output", "ex")
    for file in ("card.md", "m.safetensors"):
        yield ("export", model, "--format", "safetensors"), file, ("--output", "m.safetensors", "--card", "card.md")


@pytest.mark.faults("R20")
def test_an_unfinished_run_is_used_only_where_it_is_asked_for(vit, ended, colors, here):
    for words, file, output in commands(ended, colors):
        answer = vit(*words, *output)
        assert (
            answer.code == 2 and f"is not finished ({LACKS}); finish it with 'vit train --resume {ended}'" in answer.err
        )
        assert "--unfinished" in answer.err and not list(here.iterdir())
        answer = vit(*words, *output, "--unfinished").ok()
        assert f"WARNING: the training is not finished: {LACKS}" in answer.err
        assert LACKS in (here / file).read_bytes().decode(errors="replace")
        for path in here.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.faults("R20")
@pytest.mark.slow
def test_a_checkpoint_and_an_export_say_it_wherever_they_are(vit, ended, colors, here):
    shutil.copy(ended / "checkpoints" / "best.ckpt", "moved.ckpt")
    assert vit("export", "moved.ckpt", "--output", "m.onnx", "--unfinished").code == 0
    for model in ("moved.ckpt", "m.onnx"):
        vit("predict", model, colors / "red").failed(2, LACKS)
        assert vit("predict", model, colors / "red", "--unfinished", "--output", f"{model}.csv").code == 0
    with pytest.raises(UsageError, match="not finished"):
        package.load(ended)
    assert package.load(ended, unfinished=True).lacks == LACKS
    assert "not finished" in repr(package.load("m.onnx", unfinished=True))
    with pytest.raises(UsageError, match="not finished"):
        package.push(ended, "hf:me/model", dry_run=True)
    vit("train", colors, *SHORT, "--init_from", ended, "--dry_run").ok(f"the training is not finished: {LACKS}")


@pytest.mark.faults("R20")
@pytest.mark.slow
def test_it_is_said_wherever_the_weights_go(vit, ended, finished, colors, here):
    """As the second of two models, as a converted checkpoint, and as vectors."""
    answer = vit("evaluate", finished, ended, colors, "--include_seen", "--unfinished", "--output", "ev")
    assert answer.code == 0 and f"WARNING: the training is not finished: {LACKS}" in answer.err, answer.err
    found = json.loads((here / "ev" / "metrics.json").read_text())
    assert found["unfinished"] == LACKS and LACKS in found["warning"]
    loose = shutil.copy(ended / "checkpoints" / "last.ckpt", here / "loose.ckpt")
    for model in (ended, loose):
        answer = vit("convert", model, "--output", f"{model.stem}-copy.ckpt")
        assert answer.code == 0 and f"unfinished     {LACKS}" in " ".join(answer.out.splitlines()), answer.out
        assert f"Next: vit predict {model.stem}-copy.ckpt FOLDER_OF_IMAGES --gallery --unfinished" in answer.out
        assert vit("predict", f"{model.stem}-copy.ckpt", colors / "red").code == 2
        vit("inspect", model, colors / "red" / "00.png").ok(f"Next: vit explain {model} IMAGES --unfinished")
        vit("embed", model, colors / "red", "--output", f"{model.stem}.parquet").noted(LACKS)


@pytest.mark.faults("R20")
def test_a_finished_run_says_nothing_of_it(vit, finished, colors, here):
    for model in (finished, finished / "checkpoints" / "best.ckpt"):
        answer = vit("predict", model, colors / "red", "--output", f"{model.name}.csv")
        assert answer.code == 0 and "finished" not in answer.err
    assert vit("evaluate", finished, "--output", "ev").code == 0
    assert json.loads((here / "ev" / "metrics.json").read_text())["unfinished"] is None


@pytest.mark.faults("R22")
def test_a_finished_run_keeps_its_weights_alone(vit, finished, ended, colors, tmp_path):
    assert os.listdir(finished / "checkpoints") == ["best.ckpt"]
    content = torch.load(finished / "checkpoints" / "best.ckpt", weights_only=True)
    assert set(content) <= {"vit", "state_dict", "novelty"} and "unfinished" not in content["vit"]
    before = torch.load(ended / "checkpoints" / "best.ckpt", weights_only=True)
    assert "optimizer_states" in before and before["vit"]["unfinished"] == LACKS
    vit("train", colors, *SHORT, "--epochs", 1, "--keep_state", "true", "--out", tmp_path).ok()
    kept = run_folder(tmp_path) / "checkpoints"
    assert sorted(os.listdir(kept)) == ["best.ckpt", "last.ckpt"]
    assert "optimizer_states" in torch.load(kept / "best.ckpt", weights_only=True)
    answer = vit("predict", kept / "last.ckpt", colors / "red", "--output", tmp_path / "p.csv")
    assert answer.code == 0, answer.err  # the last weights of a finished run are whole


@pytest.mark.faults("F9")
@pytest.mark.parametrize("place", ["in training", "at the end", "by another of this name"])
def test_a_run_folder_that_goes_away_ends_the_training(vit, colors, tmp_path, monkeypatch, place):
    def leave(*_):
        run = run_folder(tmp_path)
        run.rename(tmp_path / "elsewhere")
        if place == "by another of this name":
            (run / "checkpoints").mkdir(parents=True)  # as a tracker that writes into it would

    if place == "at the end":
        monkeypatch.setattr(run_page, "write_classes", leave)
    with at_step(0 if place == "at the end" else 9, leave):
        answer = vit("train", colors, *SHORT, "--checkpoint_every", "0s", "--out", tmp_path / "runs")
    answer.failed(7, "is gone: it was removed, renamed or replaced")
    assert not list((tmp_path / "runs").rglob("*.c*")) and not list((tmp_path / "runs").rglob("result.json"))


@pytest.mark.faults("R21")
def test_a_finished_run_is_trained_further_in_a_new_run(vit, finished, colors, tmp_path):
    assert f"'vit train {finished} --epochs N'" in vit("train", "--resume", finished, "--epochs", 9).err
    answer = vit("train", finished, "--epochs", 2, "--out", tmp_path).ok()
    run = run_folder(tmp_path)
    parent, child = ((one / "config.yaml").read_text() for one in (finished, run))
    assert f"init_from: {finished}" in child and "epochs: 2" in child
    assert f"weights of {finished}, the best of this run" in answer.out and "initialized" not in answer.err

    def without(text):
        return [line for line in text.splitlines() if line.split(":")[0].strip() not in ("init_from", "epochs", "out")]

    assert without(parent) == without(child)  # and so no recipe for pretrained weights
    assert (run / "splits.csv").read_text() == (finished / "splits.csv").read_text()
    assert "WARNING" not in answer.err  # its test images are those of the parent
    found, of_parent = weights(run, "best"), weights(finished, "best")
    assert not all(torch.equal(found[name], of_parent[name]) for name in found)


@pytest.mark.faults("R21")
def test_what_is_not_trained_further(vit, finished, ended, colors, draw_classes, tmp_path):
    for words, said in (
        ((finished,), "no length is given"),
        ((finished, "--epochs", 1, "--network", "resnet18"), "model.network.name is vit_nano_patch2_8 in it"),
        ((finished, "--epochs", 1, "--data.test", 0.4), "data.test is 0.2 in it"),
        ((ended, "--epochs", 1), "its training has not finished"),
    ):
        answer = vit("train", *words, "--out", tmp_path / "out")
        assert answer.code == 2 and said in answer.err and not (tmp_path / "out").exists(), answer.err
    moved = shutil.copytree(colors, tmp_path / "colors")
    assert vit("train", moved, *SHORT, "--epochs", 1, "--out", tmp_path / "first").code == 0
    (moved / "red" / "00.png").unlink()
    answer = vit("train", run_folder(tmp_path / "first"), "--epochs", 1, "--out", tmp_path / "out")
    assert answer.code == 3 and "are not those that" in answer.err
    vit("evaluate", finished, ended).failed(2, "or give --unfinished")  # two models
    for command in (("study",), ("pretrain",), ("data", "check")):
        answer = vit(*command, ended)
        assert answer.code == 2 and "is a run folder, not images" in answer.err and "remove" not in answer.err
    vit("predict", finished, ended).failed(2, "needs IMAGES after its models")
