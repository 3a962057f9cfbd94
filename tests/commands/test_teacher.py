"""`vit train --teacher`: equal weights, resume, cache, plan, and teachers that cannot teach."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from tests.runs import run_folder, trained
from tests.training.distillation.teachers import CLASSES, OWN, write_teacher
from vit.checkpoints.io import read_checkpoint

OPTIONS = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--optim.steps", 5,
    "--batch_size", 8, "--precision", "32-true", "--data.num_workers", 0, "--wandb", "off",
    "--keep_state", "true",
)  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "teacher.ckpt"
    write_teacher(path)
    return path


@pytest.fixture
def weights(vit, colors, teacher, tmp_path):
    """`weights(NAME, words...)` are the last weights of a training, whose run is in the folder NAME."""

    def train(name, *words, taught=("--teacher", teacher)):
        answer = vit("train", colors, *OPTIONS, *taught, *words, "--out", tmp_path / name).ok()
        train.out = answer.out
        return read_checkpoint(run_folder(tmp_path / name) / "checkpoints" / "last.ckpt")["state_dict"]

    return train


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_two_trainings_are_equal_and_the_teacher_matters(weights, teacher, tmp_path):
    first = weights("a")
    assert "resnet10_small" in weights.out and "87.5" in weights.out and "90%" in weights.out
    assert equal(first, weights("b")) and not equal(first, weights("c", taught=()))
    assert not equal(first, weights("d", "--distill.kind", "hard"))
    run = run_folder(tmp_path / "a")
    distill = yaml.safe_load((run / "config.yaml").read_text())["distill"]
    assert distill["teacher"] == str(teacher) and len(distill["teacher_hash"]) == 16 and distill["weight"] == 0.9
    assert "resnet10_small" in (run / "result.json").read_text()
    names = read_checkpoint(run / "checkpoints" / "last.ckpt")["state_dict"].keys()
    assert names and not any("resnet" in name or "teacher" in name or "distill" in name for name in names)


@pytest.mark.slow
def test_remembered_logits_give_the_same_training(weights, monkeypatch):
    remembered = weights("a", "--augment", "none", "--optim.ema_decay", 0.5)
    assert "computed once" in weights.out and "more FLOPs" not in weights.out
    monkeypatch.setattr("vit.training.planning.plan.REMEMBERED_BYTES", 0)
    each_time = weights("b", "--augment", "none", "--optim.ema_decay", 0.5)
    for name, value in remembered.items():
        torch.testing.assert_close(value, each_time[name], rtol=1e-4, atol=1e-5)


def test_the_plan_says_what_a_teacher_costs_that_remembers_nothing(vit, colors, teacher, monkeypatch):
    monkeypatch.setattr("vit.training.planning.plan.REMEMBERED_BYTES", 0)
    hard = ("--teacher", teacher, "--distill.kind", "hard", "--distill.temperature", 2)
    answer = vit("train", colors, *OPTIONS, *hard, "--augment", "none", "--dry_run").ok("more FLOPs a step")
    assert "computed once" not in answer.noted("--distill.temperature changes nothing with --distill.kind hard").out


@pytest.mark.slow
def test_micro_batches_change_nothing_but_rounding(weights):
    whole, parts = weights("a", "--augment", "strong"), weights("b", "--augment", "strong", "--optim.accumulate", 2)
    for name, value in whole.items():
        torch.testing.assert_close(value, parts[name], rtol=1e-3, atol=2e-4)


def test_the_distillation_token_learns_from_the_teacher(weights):
    taught = weights("a", "--model.network.pool", "cls_dist", "--distill.kind", "hard")
    assert "for the distillation token, 50% of the loss" in weights.out
    head, token = taught["network.head.weight"], taught["network.head_dist.weight"]
    assert head.abs().sum() > 0 and token.abs().sum() > 0 and not torch.equal(head, token)


@pytest.mark.faults("M3")
@pytest.mark.parametrize("augment", ["none", pytest.param("light", marks=pytest.mark.slow)])
def test_a_resumed_training_is_exact_and_refuses_another_teacher(
    vit, weights, colors, teacher, tmp_path, monkeypatch, augment
):
    from vit.training.callbacks.checkpoints import LastCheckpoint

    own = tmp_path / "own.ckpt"
    shutil.copy(teacher, own)
    whole = weights("a", "--augment", augment, taught=("--teacher", own))
    ended = LastCheckpoint.on_validation_end

    def stop(self, trainer, module):
        ended(self, trainer, module)
        if trainer.global_step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LastCheckpoint, "on_validation_end", stop)
        words = ("--augment", augment, "--teacher", own, "--out", tmp_path / "b")
        assert vit("train", colors, *OPTIONS, *words).code != 0
    run = run_folder(tmp_path / "b")
    write_teacher(own, seed=1)
    vit("train", "--resume", run).failed(4, "own.ckpt", "hash", "new run")
    shutil.copy(teacher, own)
    vit("train", "--resume", run).ok()
    assert equal(whole, read_checkpoint(run / "checkpoints" / "last.ckpt")["state_dict"])


@pytest.mark.faults("M1")
@pytest.mark.parametrize("names", [("blue", "green", "violet"), (*CLASSES, "violet"), ("blue", "green")])
def test_other_classes_are_refused_by_name(vit, colors, tmp_path, names):
    write_teacher(tmp_path / "t.ckpt", names)
    answer = vit("train", colors, *OPTIONS, "--teacher", tmp_path / "t.ckpt", "--out", tmp_path / "out")
    answer.failed(3, "t.ckpt", *(repr(name) for name in set(names) ^ set(CLASSES)))
    assert not (tmp_path / "out").exists()


@pytest.mark.faults("M2")
@pytest.mark.parametrize("name", ["missing.ckpt", "broken.ckpt", "broken.onnx", "empty"])
def test_a_file_that_cannot_teach_is_refused(vit, colors, teacher, tmp_path, name):
    for broken in ("broken.ckpt", "broken.onnx"):
        (tmp_path / broken).write_bytes(teacher.read_bytes()[:1000])
    (tmp_path / "empty").mkdir()
    vit("train", colors, *OPTIONS, "--teacher", tmp_path / name, "--out", tmp_path / "out").failed(4, name)
    assert not (tmp_path / "out").exists()


@pytest.mark.faults("M4")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--freeze", "backbone", "--init_from", "TEACHER"), "--freeze backbone"),
        (("--optim.class_weights", "auto"), "class_weights"),
        (("--optim.logit_adjustment", 1), "logit_adjustment"),
        (("--strategy", "fsdp"), "fsdp"),
        (("--trainer.compile", "true", "--model.network.pool", "cls_dist"), "cls_dist"),
    ],
)
def test_options_that_contradict_a_teacher_are_refused(vit, colors, teacher, tmp_path, words, said):
    given = [teacher if word == "TEACHER" else word for word in words]
    options = () if "--freeze" in words else OPTIONS  # a linear probe refuses their length before
    vit("train", colors, *options, "--teacher", teacher, *given, "--out", tmp_path).failed(2, "--teacher", said)
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("M4")
def test_several_labels_folds_and_options_without_a_teacher_are_refused(vit, colors, labels_csv, teacher, tmp_path):
    for words, said in (
        (("train", labels_csv, "--teacher", teacher), "several labels"),
        (("crossval", colors, "--folds", 2, "--teacher", teacher), "--data.fold"),
        (("train", colors, "--distill.kind", "hard"), "give --teacher"),
    ):
        vit(*words, *OPTIONS, "--out", tmp_path / "out").failed(2, said)
        assert not (tmp_path / "out").exists()


@pytest.mark.faults("M5")
def test_a_network_without_a_distillation_token_is_refused_it(vit, colors, teacher, tmp_path):
    words = ("--network", "resnet10_small", "--model.network.pool", "cls_dist", "--distill.kind", "hard")
    vit("train", colors, "--teacher", teacher, *words, "--out", tmp_path / "out").failed(2, "pool")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A folder with three classes of images of 16 bits."""
    folder, rng = tmp_path_factory.mktemp("data") / "deep", np.random.default_rng(0)
    for level, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            values = 1000 + 50 * level + rng.integers(0, 20, (12, 12))
            Image.fromarray(values.astype(np.uint16)).save(folder / name / f"{number:02}.png")
    return folder


@pytest.mark.faults("M8")
@pytest.mark.parametrize(
    ("teacher", "words", "said"),
    [
        ({"window": (900.0, 1300.0)}, (), None),
        ({"window": (900.0, 1300.0)}, ("--model.preprocess.window", "[900, 1300]"), None),
        (
            {"window": (900.0, 1300.0)},
            ("--model.preprocess.window", "[0, 65535]"),
            "sees the values 900, 1300 of an image, and this network 0, 65535; "
            "give --model.preprocess.window '[900, 1300]'",
        ),
        ({}, (), "sees the values that files can have of an image, and this network 10"),
        (
            {"channels": 1, "mean": (0.5,), "std": (0.5,)},
            (),
            "sees 1 of an image's channels, and this network 3; give --model.preprocess.channels 1",
        ),
    ],
)
def test_the_teacher_sees_pixels_as_it_was_trained_on_them(vit, deep, tmp_path, teacher, words, said):
    """The pixels are made for the student: with another window the teacher saw black or gray, without an error."""
    write_teacher(tmp_path / "t.ckpt", preprocess=replace(OWN, **teacher))
    words = ("--teacher", tmp_path / "t.ckpt", *words, "--out", tmp_path / "out")
    answer = vit("train", deep, *OPTIONS, *words, "--dry_run")
    if said is None:
        assert answer.code == 0 and "gray values from 900 to 1,300" in answer.out, answer.err
    else:
        assert answer.code == 2 and f"--teacher {tmp_path / 't.ckpt'} {said}" in answer.err


def test_images_of_8_bits_have_no_window_that_could_differ(vit, colors, tmp_path):
    write_teacher(tmp_path / "t.ckpt", preprocess=replace(OWN, window=(900.0, 1300.0)))
    answer = vit("train", colors, *OPTIONS, "--teacher", tmp_path / "t.ckpt", "--out", tmp_path, "--dry_run")
    assert answer.code == 0 and "gray values" not in answer.out, answer.err


@pytest.mark.faults("M6")
def test_a_teacher_that_has_seen_the_test_images_is_warned_of(vit, colors, tmp_path):
    short = ("--optim.steps", 1)
    run = trained(tmp_path / "t", colors, *OPTIONS, *short, "--data.split_seed", 1)
    for seed, warned in ((1, False), (0, True)):
        words = ("--teacher", run, "--data.split_seed", seed, "--out", tmp_path / str(seed))
        answer = vit("train", colors, *OPTIONS, *short, *words).ok()
        assert ("has trained on" in answer.out + answer.err) is warned


@pytest.mark.slow
def test_classes_in_another_order_teach_the_same(weights, tmp_path):
    """A teacher whose classes are listed in another order, with its last layer in that order, is the same teacher."""
    from vit.checkpoints.io import write_checkpoint

    network = write_teacher(tmp_path / "one.ckpt", preprocess=OWN)
    content = read_checkpoint(tmp_path / "one.ckpt")
    content["vit"]["classes"] = ["red", "blue", "green"]
    heads = [name for name, value in network.state_dict().items() if len(value.shape) and value.shape[0] == 3]
    for name in heads[-2:]:
        content["state_dict"][f"network.{name}"] = content["state_dict"][f"network.{name}"][[2, 0, 1]]
    write_checkpoint(content, tmp_path / "other.ckpt")
    one, other = (weights(name, taught=("--teacher", tmp_path / f"{name}.ckpt")) for name in ("one", "other"))
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-4, atol=1e-5)
