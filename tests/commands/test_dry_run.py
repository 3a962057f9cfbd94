"""`vit train --dry_run` and `vit train` without DATA: what is shown before anything is trained."""

import pytest

import vit as package
from vit.errors import UsageError

DIGITS = "no DATA is given: digits are trained on"


@pytest.mark.parametrize("flag", [("--dry_run",), ("--dry_run=true",), ("--dry_run", "true")])
def test_a_dry_run_shows_the_plan_and_leaves_nothing(vit, colors, here, flag):
    answer = vit("train", *flag, colors, "--epochs", 3).ok("none: a dry run trains nothing", "(3 epochs of ")
    assert answer.out.strip().splitlines()[-1] == f"Next: vit train {colors} --epochs 3"
    assert list(here.iterdir()) == [] and DIGITS not in answer.err


def test_a_plan_names_every_augmentation(vit, colors, here):
    words = "shift 0.125, flip 1, randaugment 1, mixup 0.2, cutmix 1, erasing 1, magnitude 12"
    options = ["--augment.flip=1", "--augment.randaugment=1", "--augment.magnitude=12", "--augment.erasing=1"]
    assert words in vit("train", "--dry_run", colors, "--augment=strong", *options).out
    assert "magnitude 12" not in vit("train", "--dry_run", colors, "--augment=light", "--augment.magnitude=12").out


def test_a_plan_says_that_steps_are_rounded_up(vit, here):
    assert "; 11 are rounded up to 6 equal rounds" in vit("train", "digits", "--dry_run", "--optim.steps", 11).out
    assert "rounded up" not in vit("train", "digits", "--dry_run", "--optim.steps", 12).out


@pytest.mark.parametrize("command", [pytest.param("study", marks=pytest.mark.slow), "crossval", "pretrain"])
def test_the_value_of_a_dry_run_may_stand_after_it(vit, here, command):
    answer = vit(command, "digits", "--dry_run", "true", "--wandb", "off").ok()
    assert answer.out.strip().splitlines()[-1] == f"Next: vit {command} digits --wandb off"


@pytest.mark.parametrize("command", ["train", "study", "crossval", "pretrain"])
def test_a_folder_below_a_file_is_refused_at_once(vit, here, command):
    """A dry run advised a command that failed."""
    (here / "notes").touch()
    answer = vit(command, "digits", "--dry_run", "--out", "notes/runs", "--wandb", "off")
    assert answer.code == 7 and "cannot write to notes/runs: notes is a file; choose another folder" in answer.err


def test_a_file_in_place_of_the_recipe_is_said(vit, here):
    """With the option of a file on the command line the whole recipe stays."""
    (here / "lr.yaml").write_text("optim: {lr: 0.002}\n")
    said = "--config lr.yaml takes the place of the recipe digits; --config digits --config lr.yaml changes that recipe"
    alone = vit("train", "digits", "--dry_run", "--config", "lr.yaml")
    assert said in alone.err and "adamw, learning rate 0.002" in alone.out
    for words in (("--config", "digits", "--config", "lr.yaml"), ("--lr", "0.002")):
        answer = vit("train", "digits", "--dry_run", *words)
        assert "takes the place" not in answer.err and "muon, learning rate 0.002" in answer.out
    (here / "whole.yaml").write_text("optim: {optimizer: adamw, lr: 0.002}\n")
    assert "takes the place" not in vit("train", "digits", "--dry_run", "--config", "whole.yaml").err


def test_training_without_data_says_what_it_trains_on(vit, here):
    assert DIGITS in vit("train", "--dry_run").err
    (here / "small.yaml").write_text("model: {network: {name: vit_nano_patch2_8}}\n")
    assert DIGITS in vit("train", "--dry_run", "--config", "small.yaml").err
    for words in (("digits",), ("--data.source=digits",), ("--config", "digits"), ("--config=digits_cnn",)):
        assert DIGITS not in vit("train", "--dry_run", *words).err


def test_python_wants_a_run(here, colors):
    with pytest.raises(UsageError, match="a dry run leaves no run folder"):
        package.train(colors, dry_run=True)


@pytest.mark.faults("K2")
@pytest.mark.parametrize("target", ["95", "95%", "1", "-1"])
def test_a_target_is_a_fraction_for_a_study_too(vit, here, target):
    answer = vit("study", "digits", f"--target={target}")
    assert answer.code == 2 and f"target is {target}; give a number" in answer.err


def test_a_plan_warns_once_of_classes_with_few_images(vit, draw_classes, tmp_path):
    data = draw_classes(tmp_path / "images", ("blue", "red"), 8)
    answer = vit("train", data, "--network", "vit_nano_patch2_8", "--dry_run", "--out", tmp_path / "runs")
    assert answer.code == 0 and answer.out.count("fewer than 10") == 1, answer.err
    assert "2 of 2 classes have fewer than 10 images in all (blue 8, red 8)" in answer.out


def test_options_that_change_nothing_are_said(vit, draw_classes, here):
    """DATA has splits of its own, or another option decides."""
    for split in ("train", "val", "test"):
        draw_classes(here / "split" / split, ("cat", "dog"), 3)
    words = ("train", "split", "--network", "vit_nano_patch2_8", "--init", "random", "--image_size", 8, "--dry_run")
    options = ("--data.validation", 0.3, "--data.test", 0.1, "--data.split_seed", 2, "--data.subset", "natural")
    options += ("--data.root", here, "--tracker", "tensorboard", "--tracker_media")
    vit(*words, *options, "--optim.momentum", 0.8, "--augment.magnitude", 3).ok("root and download change").noted(
        "--tracker_media changes nothing without wandb or mlflow as a tracker",
        "--data.validation changes nothing because DATA has validation images",
        "--data.test changes nothing because DATA has test images",
        "--data.split_seed changes nothing because DATA has all splits",
        "--data.subset changes nothing without --data.train_images",
        "--optim.momentum changes nothing with adamw",
        "--augment.magnitude changes nothing without --augment.randaugment",
    )
    used = ("--optim.optimizer", "sgd", "--optim.momentum", 0.8, "--data.train_images", 4, "--data.subset", "natural")
    used += ("--augment", "standard", "--augment.magnitude", 3, "--optim.ema_decay", 0.9999, "--optim.steps", 100)
    used += ("--data.sampling", "balanced")
    answer = vit(*words, *used).ok("with decay 0.95, as 0.9999 is for more steps", "so that nothing is to correct")
    assert "changes nothing" not in answer.err
    assert "--data.test changes nothing with --data.fold" in vit(*words, "--data.fold", "1/3", "--data.test", 0.1).err


def test_copies_with_other_labels_are_said(vit, draw_classes, here):
    """The network would learn that one picture is both."""
    draw_classes(here / "pets", ("cat", "dog"), 6)
    words = ("train", "pets", "--network", "vit_nano_patch2_8", "--init", "random", "--image_size", 8, "--dry_run")
    assert "another label" not in vit(*words).err
    (here / "pets" / "dog" / "copy.png").write_bytes((here / "pets" / "cat" / "00.png").read_bytes())
    error = vit(*words).err
    assert "WARNING: 1 image is a copy of one with another label, such as " in error
    assert "dog/copy.png (dog)" in error and "cat/00.png (cat)" in error
    paths = [f"pets/{folder}/0{number}.png" for folder in ("cat", "dog") for number in range(6)] + ["pets/dog/copy.png"]
    for last, is_conflict in (("?cat|dog", False), ("dog", True)):  # cat is not known there
        labels = ["cat"] * 6 + ["cat|dog"] * 5 + ["dog", last]
        rows = "".join(f"{path},{label}\n" for path, label in zip(paths, labels, strict=True))
        (here / "pets.csv").write_text(f"path,labels\n{rows.replace('pets/cat/00.png,cat', 'pets/cat/00.png,cat|dog')}")
        assert ("another label" in vit("train", "pets.csv", *words[2:]).err) == is_conflict
