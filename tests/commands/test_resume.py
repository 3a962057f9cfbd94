"""`vit train --resume`: a run that was ended anywhere ends as if nothing had happened."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.comparing import differences
from tests.forked import popen
from tests.forked import run as run_program
from tests.processes import start
from tests.runs import at_step, checkpoint, die, died, metrics, run_folder, same_end, timeless, trained
from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_options import read_recipe
from vit.data.checks.contents import read_contents
from vit.data.core.groups import with_groups
from vit.data.loading.module import ImageDataModule
from vit.data.loading.sampler import EvaluationSampler
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.training.fit import check_unchanged, write_beginning
from vit.training.loop import Classifier
from vit.training.optim import Decay, make_schedule
from vit.training.recipes.recipe import Recipe

# everything that has a state of its own: averaged weights, dropout, mixup, parts of a batch, two optimizers in one
DEMANDING = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--model.network.drop_path_rate", 0.2,
    "--augment", "strong", "--epochs", 4, "--batch_size", 8, "--optim.accumulate", 2, "--optim.ema_decay", 0.9,
    "--optim.optimizer", "muon", "--precision", "32-true", "--wandb", "off", "--keep_state", "true",
)  # fmt: skip

CNN = (
    "--network", "resnet10_small", "--model.network.widths", "[8,8,16,16]", "--image_size", 8, "--augment", "strong",
    "--epochs", 3, "--batch_size", 8, "--optim.accumulate", 2, "--optim.ema_decay", 0.9, "--optim.optimizer", "sgd",
    "--optim.momentum", 0.9, "--lr", 0.01, "--data.cache", "none", "--data.num_workers", 0, "--precision", "32-true",
    "--wandb", "off", "--keep_state", "true",
)  # fmt: skip
STEPS = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--optim.steps", 13, "--batch_size", 10,
    "--precision", "32-true", "--wandb", "off", "--keep_state", "true",
)  # fmt: skip
PATIENT = (  # an accuracy that rises no further: the rate falls from the third epoch on, and four of ten are trained
    "--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--epochs", 10, "--batch_size", 10,
    "--patience", 2, "--lr", 1e-9, "--optim.best_metric", "acc1", "--optim.ema_decay", 0.9, "--precision", "32-true",
    "--wandb", "off", "--keep_state", "true",
)  # fmt: skip
ALWAYS = ("--checkpoint_every", "0s")


class Killed(BaseException):
    """No code catches it: as near to SIGKILL as an exception comes."""


def resumed(vit, run):
    return vit("train", "--resume", run).ok()


@pytest.fixture(scope="module")
def whole(colors, tmp_path_factory):
    """The finished run of some options, without an interruption."""
    made = {}

    def train_once(options):
        if options not in made:
            made[options] = trained(tmp_path_factory.mktemp("whole"), colors, *options)
        return made[options]

    return train_once


@pytest.fixture(scope="module")
def uninterrupted(whole):
    return whole(DEMANDING)


@pytest.mark.slow
def test_parts_of_a_batch_make_one_row_and_the_planned_steps(uninterrupted):
    table = metrics(uninterrupted)
    assert [row["step"] for row in table if row["val/loss"]] == ["3", "6", "9", "12"]  # 30 images in batches of 8
    assert [row["step"] for row in table if not row["val/loss"]] == [str(step) for step in range(1, 13)]


def test_a_row_has_the_learning_rate_of_its_own_step(uninterrupted):
    config = read_recipe(uninterrupted / "config.yaml").optim
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=config.lr)
    schedule, rates = make_schedule(optimizer, config, 12, Decay.planned(config, 12)), {}
    for step in range(1, 13):
        rates[step] = optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()
    table = metrics(uninterrupted)
    assert [float(row["lr"]) for row in table] == [rates[int(row["step"])] for row in table]


@pytest.mark.faults("R5", simulated="an exception where a process would die")
@pytest.mark.parametrize("step", [5, *(pytest.param(step, marks=pytest.mark.slow) for step in (6, 12))])
def test_an_ended_run_ends_bit_equal(vit, colors, uninterrupted, tmp_path, step):
    run = died(tmp_path, step, colors, *DEMANDING)
    assert not (run / "result.json").exists()
    vit("train", "--resume", run).ok()
    assert run_folder(tmp_path) == run  # no second folder
    assert differences(checkpoint(run), checkpoint(uninterrupted)) == []
    assert differences(checkpoint(run, "best"), checkpoint(uninterrupted, "best")) == []
    assert metrics(run) == metrics(uninterrupted)
    (run / "result.json").unlink()  # as if it had ended after its last batch
    resumed(vit, run)
    assert same_end(run, uninterrupted) and timeless(run)["last_validation"]


@pytest.mark.faults("R1", "R5", simulated="an exception where a process would die")
@pytest.mark.parametrize(
    ("options", "step"),
    [
        (DEMANDING, 7),
        *(pytest.param(DEMANDING, step, marks=pytest.mark.slow) for step in (2, 9, 12)),
        *(pytest.param(CNN, step, marks=pytest.mark.slow) for step in (3, 6)),
        *(pytest.param(STEPS, step, marks=pytest.mark.slow) for step in (4, 5)),
        *(pytest.param(PATIENT, step, marks=pytest.mark.slow) for step in (8, 11)),
    ],
    ids=lambda value: value if isinstance(value, int) else f"{value[1]}-{len(value)}",
)
def test_a_run_that_died_in_an_epoch_ends_bit_equal(vit, colors, whole, tmp_path, options, step):
    run = died(tmp_path, step, colors, *options, *ALWAYS)
    assert checkpoint(run)["global_step"] == step - 1
    resumed(vit, run)
    assert same_end(run, whole(options))


@pytest.mark.faults("R1", "R5")
@pytest.mark.parametrize(
    ("options", "end"),
    [
        pytest.param(DEMANDING, "signal", id="vit-signal"),
        pytest.param(DEMANDING, "death", id="vit-death"),
        pytest.param(CNN, "signal", id="cnn-signal"),
        pytest.param(CNN, "death", id="cnn-death"),
    ],
)
@pytest.mark.slow
def test_a_run_that_ended_in_a_validation_ends_bit_equal(vit, colors, whole, tmp_path, monkeypatch, options, end):
    calls = []
    step = Classifier.validation_step

    def act(classifier, batch, place):
        calls.append(place)
        if len(calls) == 2:
            if end == "death":
                die()
            os.kill(os.getpid(), signal.SIGTERM)
        return step(classifier, batch, place)

    monkeypatch.setattr(
        "vit.data.loading.loader.EvaluationSampler", lambda n, _, *place: EvaluationSampler(n, 1, *place)
    )
    with monkeypatch.context() as patch:
        patch.setattr(Classifier, "validation_step", act)
        answer = vit("train", colors, *options, *ALWAYS, "--out", tmp_path)
    assert answer.code == (1 if end == "death" else 143), answer.err
    run = run_folder(tmp_path)
    assert not [row for row in metrics(run) if row["val/loss"]]
    resumed(vit, run)
    assert same_end(run, whole((*options, "--name", "batches-of-one")))


@pytest.mark.faults("R2", "F7", simulated="an exception where a process would die")
@pytest.mark.parametrize(
    "place",
    [
        "half a file",
        *(pytest.param(f"{when} the rename", marks=pytest.mark.slow) for when in ("before", "after")),
        pytest.param("between the renames", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 6, pytest.param(8, marks=pytest.mark.slow)])
def test_a_run_that_died_while_it_saved_ends_bit_equal(vit, colors, uninterrupted, tmp_path, monkeypatch, place, step):
    replace, save = os.replace, torch.save

    def dying_replace(source, target):
        name = Path(target).name
        at = state["saving"] >= step
        if at and place == "before the rename" and name == "previous.ckpt":
            raise Killed
        if at and place == "between the renames" and name == "last.ckpt":
            raise Killed
        replace(source, target)
        if at and place == "after the rename" and name == "last.ckpt":
            raise Killed

    def dying_save(content, file, *rest):
        state["saving"] = content["global_step"]
        if place == "half a file" and state["saving"] >= step:
            file.write(b"half")
            raise Killed
        save(content, file, *rest)

    state = {"saving": 0}
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying_replace)
        patch.setattr(torch, "save", dying_save)
        with pytest.raises(Killed):
            vit("train", colors, *DEMANDING, *ALWAYS, "--out", tmp_path)
    run = run_folder(tmp_path)
    if step == 1 and place in ("half a file", "between the renames"):  # of the first checkpoint
        vit("train", "--resume", run).failed(2, "it has no checkpoint")
        return
    resumed(vit, run)
    assert same_end(run, uninterrupted)
    assert not [path for path in run.rglob("*") if "partial" in path.name or path.name.startswith(".")]


@pytest.mark.faults("C2")
@pytest.mark.parametrize(
    "damage", ["cut", *(pytest.param(d, marks=pytest.mark.slow) for d in ("gone", "flipped", "empty"))]
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(vit, colors, uninterrupted, tmp_path, damage):
    run = died(tmp_path, 6, colors, *DEMANDING, *ALWAYS)
    last = run / "checkpoints" / "last.ckpt"
    assert checkpoint(run)["global_step"] == 5 and checkpoint(run, "previous")["global_step"] == 4
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes({"cut": content[:-1000], "flipped": content, "empty": b"", "gone": b""}[damage])
    if damage == "gone":
        last.unlink()
    answer = resumed(vit, run)
    (line,) = [line for line in answer.err.splitlines() if "last.ckpt" in line]
    assert "going on from previous.ckpt, step 4" in line
    assert same_end(run, uninterrupted)


@pytest.mark.faults("C2")
def test_two_damaged_checkpoints_are_an_error(vit, colors, tmp_path):
    run = died(tmp_path, 4, colors, *DEMANDING, *ALWAYS)
    for name in ("last", "previous"):
        (run / "checkpoints" / f"{name}.ckpt").write_bytes(b"PK")
    answer = vit("train", "--resume", run).failed(4, "last.ckpt", "previous.ckpt")
    assert answer.err.count("vit: error[4]") == 1


def test_a_damaged_checkpoint_never_replaces_the_one_before(vit, colors, tmp_path):
    run = died(tmp_path, 6, colors, *DEMANDING, *ALWAYS)
    (run / "checkpoints" / "last.ckpt").write_bytes(b"PK")
    with at_step(6):
        vit("train", "--resume", run)
    assert [checkpoint(run, name)["global_step"] for name in ("last", "previous")] == [5, 4]


@pytest.mark.parametrize("given", ["10", "10m", "soon", "-5s", "1h30min", ""])
def test_times_that_are_none(vit, colors, tmp_path, given):
    answer = vit("train", colors, "--checkpoint_every", given, "--wandb", "off", "--out", tmp_path)
    assert answer.code == 2 and "90s, 10min, 2h" in answer.err and not list(tmp_path.iterdir())


def test_null_saves_after_epochs_alone(colors, tmp_path):
    assert checkpoint(died(tmp_path, 7, colors, *DEMANDING, "--checkpoint_every", "null"))["global_step"] == 6


@pytest.mark.slow
def test_every_epoch_has_its_own_order_and_an_ended_run_keeps_to_it(vit, colors, tmp_path, monkeypatch):
    seen = []
    step = Classifier.training_step

    def watched(classifier, batch, place):
        seen.append(batch.path)
        return step(classifier, batch, place)

    monkeypatch.setattr(Classifier, "training_step", watched)
    options = ("--epochs", 3, "--batch_size", 10, *STEPS[:4], "--wandb", "off")
    assert vit("train", colors, *options, "--out", tmp_path / "whole").code == 0
    whole = [[path for batch in seen[place : place + 3] for path in batch] for place in (0, 3, 6)]
    assert len(seen) == 9 and all(len(set(epoch)) == 30 for epoch in whole)
    assert len({tuple(epoch) for epoch in whole}) == 3

    seen.clear()
    resumed(vit, died(tmp_path / "ended", 5, colors, *options))
    again = [path for batch in seen[:3] + seen[5:] for path in batch]  # the two steps that were lost come again
    assert again == [path for epoch in whole for path in epoch]


@pytest.mark.faults("R3", "R4")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, 138, marks=pytest.mark.slow),
    ],
)
def test_a_signal_says_how_to_go_on(vit, colors, uninterrupted, tmp_path, number, code):
    before = signal.getsignal(number)  # a shell in the background leaves SIGINT ignored
    with at_step(5, lambda: os.kill(os.getpid(), number)):
        answer = vit("train", colors, *DEMANDING, "--out", tmp_path)
    run = run_folder(tmp_path)
    assert answer.code == code and f"vit: error[{code}]: " in answer.err and "Traceback" not in answer.err
    assert f"after step 5, which is saved; to go on: vit train --resume {run}" in answer.err
    assert checkpoint(run)["global_step"] == 5
    assert signal.getsignal(number) == before
    resumed(vit, run)
    assert same_end(run, uninterrupted)


@pytest.mark.faults("R1", "F7", "C13")
def test_a_killed_process_leaves_what_the_next_one_needs(vit, colors, uninterrupted, tmp_path):
    script = "import os, sys; from vit.__main__ import main; from vit.commands.training import train_progress\n"
    script += "kill = lambda self, done, *rest: os.kill(os.getpid(), 9) if done == 11 else None\n"
    script += "train_progress.TrainProgress.step = kill\n"
    script += "main(sys.argv[1:])"
    options = map(str, (*DEMANDING, *ALWAYS, "--out", tmp_path))
    command = [sys.executable, "-c", script, "train", str(colors), *options]
    assert run_program(command, timeout=120).returncode == -9
    run = run_folder(tmp_path)
    assert checkpoint(run)["global_step"] == 10
    resumed(vit, run)
    assert same_end(run, uninterrupted)
    assert not [path for path in run.rglob("*") if "partial" in path.name or path.name.startswith(".")]


TWICE = """
import os, signal
from vit.commands.training import train_progress
from vit.training import observers
observers.REPEAT_SECONDS = 0.0
def interrupt(watcher, done, *rest):
    if done == 5:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
train_progress.TrainProgress.step = interrupt
"""


@pytest.mark.faults("R4")
@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once_and_spoils_nothing(vit, colors, uninterrupted, tmp_path):
    process = start(tmp_path, "train", colors, *DEMANDING, *ALWAYS, "--out", tmp_path / "runs", script=TWICE)
    _, said = process.communicate(timeout=400)
    run = run_folder(tmp_path / "runs")
    assert process.returncode == 130 and f"interrupted twice; to go on: vit train --resume {run}" in said
    assert checkpoint(run)["global_step"] == 4  # the one of this step was not waited for
    resumed(vit, run)
    assert same_end(run, uninterrupted)


@pytest.mark.faults("R6", simulated="an exception where a process would die")
@pytest.mark.parametrize(
    "changed",
    [("--data.num_workers", 2), pytest.param(("--data.cache", "memory"), marks=pytest.mark.slow)],
    ids=("workers", "cache"),
)
def test_another_number_of_workers_changes_nothing(vit, colors, whole, tmp_path, changed):
    options = (*STEPS, "--data.cache", "none", "--data.num_workers", 0)
    run = died(tmp_path, 4, colors, *options, *ALWAYS)
    vit("train", "--resume", run, *changed, "--checkpoint_every", "1h").ok()
    assert same_end(run, whole(options))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_before_the_first_checkpoint_says_start_again(vit, colors, tmp_path, monkeypatch, number):
    with monkeypatch.context() as patch:
        patch.setattr(ImageDataModule, "train_dataloader", lambda _: os.kill(os.getpid(), number))
        answer = vit("train", colors, *DEMANDING, "--out", tmp_path)
    assert answer.code == 128 + number and "start it again" in answer.err
    vit("train", "--resume", run_folder(tmp_path)).failed(2, "start it again as a new run")


@pytest.fixture(scope="module")
def unfinished(colors, tmp_path_factory):
    """A run that died at its eighth step; tests only read it."""
    return died(tmp_path_factory.mktemp("unfinished"), 8, colors, *DEMANDING)


@pytest.mark.faults("K6", "C12")
def test_what_cannot_be_resumed(vit, uninterrupted, unfinished, tmp_path):
    for line, words in (
        (["--resume", uninterrupted], ["is finished"]),
        (["--resume", tmp_path], ["not a run folder"]),
        (["--resume", unfinished, "--epochs", 9, "--model.network.pool", "cls"], [": optim.epochs is 4 in the run, 9"]),
        (["--resume", unfinished, "--lr", 0.1, "--wandb", "offline"], ["optim.lr is 0.001", "wandb is off"]),
        (["--resume", unfinished, "--config", "digits"], ["optim.epochs is 4"]),
    ):
        answer = vit("train", *line)
        assert answer.code == 2 and all(word in answer.err for word in words), answer.err


@pytest.mark.faults("C12", "R8")
def test_options_that_are_the_run_s_are_accepted(vit, colors, uninterrupted, unfinished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(unfinished, run)
    options = ("--network", "vit_nano_patch2_8", "--augment", "strong", "--epochs", 4, "--optim.batch_size", 8)
    vit("train", colors, "--resume", run, *options).ok()
    assert same_end(run, uninterrupted)


def test_auto_goes_on_with_the_newest_unfinished_run_of_the_same_options(vit, colors, uninterrupted, tmp_path):
    line = ("train", "--resume", "auto", colors, *DEMANDING, "--out", tmp_path)
    with at_step(6):
        answer = vit(*line, "--name", "one")
        assert answer.code == 1 and "auto: starting a new run" in answer.err
        assert "auto: starting a new run" in vit(*line, "--lr", "1e-4").err
    runs = sorted(tmp_path.glob("*/*/*"))
    assert len(runs) == 2
    with RunDirectory(next(run for run in runs if run.name.endswith("-one"))).held():
        pass  # let go of at once
    vit(*line).noted("auto: going on with", "-one")
    run = next(run for run in runs if run.name.endswith("-one"))
    assert same_end(run, uninterrupted) and sorted(tmp_path.glob("*/*/*")) == runs
    with at_step(1):  # that one is finished
        assert "auto: starting a new run" in vit(*line).err


@pytest.mark.faults("R7")
def test_auto_takes_no_run_that_somebody_is_training(vit, colors, unfinished, tmp_path):
    out = tmp_path / "runs"
    run = out / "colors" / "vit_nano_patch2_8" / "older"
    shutil.copytree(unfinished, run)
    holder = "import sys, pathlib; from vit.checkpoints.run import RunDirectory\n"
    holder += "with RunDirectory(pathlib.Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holder, str(run)]
    process = popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "held\n"
        vit("train", "--resume", run).failed(7, "another process")
        with at_step(1):
            assert "starting a new run" in vit("train", "--resume", "auto", colors, *DEMANDING, "--out", out).err
        process.kill()
    with at_step(8):
        moved = shutil.copytree(colors, tmp_path / "moved")  # images are known by their content
        line = ("train", "--resume", "auto", moved, *DEMANDING, "--model.network.pool", "cls", "--out", out)
        assert f"going on with {run}" in vit(*line).err  # also where an option is given that has its default


@pytest.mark.faults("D18")
def test_changed_data_are_not_resumed(vit, colors, uninterrupted, draw_classes, tmp_path):
    data = draw_classes(tmp_path / "data", ("dark", "light"), 12)
    start = shutil.copytree(uninterrupted, tmp_path / "start")
    run = died(tmp_path / "runs", 6, data, "--init_from", start, "--epochs", 2, "--batch_size", 4, "--wandb", "off")
    start.rename(tmp_path / "gone")
    (data / "light" / "11.png").rename(data / "light" / "12.png")
    vit("train", "--resume", run).failed(3, "changed, or in another class, split or group: 1;")
    (data / "light" / "12.png").rename(data / "light" / "11.png")
    original = (data / "light" / "11.png").read_bytes()
    (data / "light" / "11.png").write_bytes((data / "dark" / "11.png").read_bytes())
    vit("train", "--resume", run).failed(3, "changed, or in another class, split or group: 1;")
    (data / "light" / "11.png").write_bytes(original)
    moved = data.rename(tmp_path / "moved")
    vit("train", "--resume", run).failed(3, f"{data}, which held the images of {run}, does not exist")
    vit("train", colors, "--resume", run).failed(3, "the images of colors are not those that")
    vit("train", moved, "--resume", run).noted(f"{start}, from which this training starts, is missing")
    config = (run / "config.yaml").read_text().replace(str(moved), str(moved.rename(data)))
    (run / "config.yaml").write_text(config)
    assert "no picture" not in vit("report", run).err and vit("evaluate", run).code == 0


@pytest.mark.faults("D18")
def test_changed_classes_and_groups_are_not_resumed(draw_classes, tmp_path):
    """A class without images and a group are in no image, and outputs and intervals would change all the same."""
    data = draw_classes(tmp_path / "data", ("b", "c"), 3)
    (data / "d").mkdir()
    source, run = open_source(str(data), allow_empty=True), RunDirectory(tmp_path)
    contents = read_contents(source)
    grouped = with_groups(source, "(.)/")
    write_beginning(run, Recipe(), grouped, contents)
    check_unchanged(run, grouped, contents)
    check_unchanged(run, source, contents, may_have_moved=True)
    with pytest.raises(DataError, match="missing, changed, or in another class, split or group: 6; new: 6"):
        check_unchanged(run, with_groups(source, "(.)[.]"), contents)
    (data / "d").rename(data / "a")
    changed = with_groups(open_source(str(data), allow_empty=True), "(.)/")
    with pytest.raises(DataError, match="the classes of data differ from"):
        check_unchanged(run, changed, contents, may_have_moved=True)


KILLED_AT = """
import os, signal, sys
moment, runs = {moment!r}, {runs!r}
finished = False
def killed(event, values):
    global finished
    if event == "os.rename" and os.fspath(values[1]).endswith("result.json"):
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        finished = True
        return
    written = event == "os.rename" or event == "open" and isinstance(values[1], str) and set(values[1]) & set("wax")
    if finished and written and runs in str(values[event == "os.rename"]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(killed)
"""


@pytest.mark.faults("R1")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.slow
def test_a_kill_beside_result_json_leaves_a_run_that_can_be_finished(vit, colors, tmp_path, moment):
    """Killed before result.json gets its name, or at the first file that is written after it."""
    options = (*STEPS, "--optim.steps", 4, "--out", tmp_path / "runs")
    script = KILLED_AT.format(moment=moment, runs=str(tmp_path / "runs"))
    process = start(tmp_path, "train", colors, *options, script=script, drawn=True)
    _, said = process.communicate(timeout=900)
    run = run_folder(tmp_path / "runs")
    finished = (run / "result.json").is_file()
    assert finished == (moment == "after") == (process.returncode == 0), said  # nothing is written after it
    if not finished:
        for command in (("compare", run, "elsewhere"), ("report", run)):
            vit(*command).failed(2, f"'vit train --resume {run}'")
        assert vit("train", "--resume", run).code == 0
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert {"result.json", "report.html", "test_classes.json", "predictions/test.csv", "figures/curves.png"} <= names
    assert not [name for name in names if "partial" in name or name == ".lock"]
    assert vit("report", run).code == 0
    other = tmp_path / "other"
    shutil.copytree(run, other)
    assert vit("compare", run, other).code == 0
