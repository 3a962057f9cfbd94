"""`vit pretrain`: from images without labels to a backbone that a training starts from."""

import json
import os
import re
import shutil
import signal

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.comparing import differences
from tests.processes import TWO, ended
from tests.runs import at_step, checkpoint, metrics, run_folder
from vit.commands.cli.recipe_options import read_recipe
from vit.data.core import samples
from vit.data.splits.split import read_splits
from vit.extras.pretrain.pretrainer import Pretrainer
from vit.weights.open import open_pretrained

# dropped paths, accumulated parts of a batch, and random crops have a state of their own
OPTIONS = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--model.network.drop_path_rate", 0.2,
    "--epochs", 3, "--batch_size", 8, "--optim.accumulate", 2, "--precision", "32-true", "--data.num_workers", 0,
    "--wandb", "off", "--keep_state", "true",
)  # fmt: skip


def same_end(run, other):
    assert differences(checkpoint(run), checkpoint(other)) == []
    assert (run / "backbone.safetensors").read_bytes() == (other / "backbone.safetensors").read_bytes()
    assert metrics(run) == metrics(other)
    return True


@pytest.fixture(scope="module")
def pretrained(vit, colors, tmp_path_factory):
    """(finished run on labeled images, its answer)."""
    out = tmp_path_factory.mktemp("pretrained")
    answer = vit("pretrain", colors, *OPTIONS, "--out", out, drawn=True).ok()
    return run_folder(out), answer


@pytest.fixture(scope="module")
def flat(colors, tmp_path_factory):
    """A folder of 20 pictures without class folders."""
    folder = tmp_path_factory.mktemp("data") / "flat"
    folder.mkdir()
    for number in range(20):
        shutil.copy(sorted(colors.glob("*/*.png"))[2 * number], folder / f"{number:02}.png")
    return folder


@pytest.mark.slow
def test_the_progress_is_shown_and_the_next_command_starts_from_the_backbone(vit, pretrained, colors, tmp_path):
    run, answer = pretrained
    assert re.search(r"never learned from: \d validation and \d test images", answer.out)
    assert "before the first step  k-NN acc" in answer.out + answer.err
    rows = metrics(run)
    assert [row["step"] for row in rows if row["val/knn_acc1"]] == ["0", "3", "6", "9"]
    assert [row["step"] for row in rows if not row["lr"]] == ["0"]  # no step, and so no learning rate
    (command,) = re.findall(r"Next: vit (train .*)", answer.out)
    assert command == f"train {colors} --init_from {run}"
    trained = vit(*command.split(), "--epochs", 1, "--wandb", "off", "--out", tmp_path).ok()
    assert "head.weight: the weights have no such head" in trained.out + trained.err


def test_the_head_has_a_column_for_each_training_image(pretrained):
    run, _ = pretrained
    splits = read_splits(run / "splits.csv")
    assert checkpoint(run)["state_dict"]["objective.head.weight"].shape == (len(splits["train"]), 64)


@pytest.mark.slow
def test_test_images_are_neither_read_nor_listed(vit, colors, pretrained, tmp_path, monkeypatch):
    """The training images are those of `vit train`, and no file of its test split is opened."""
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 1, "--batch_size", 8)
    options += ("--wandb", "off")
    assert vit("train", colors, *options, "--out", tmp_path / "train").code == 0
    splits = read_splits(run_folder(tmp_path / "train") / "splits.csv")
    run, _ = pretrained
    found = read_splits(run / "splits.csv")
    assert found["train"] == splits["train"] and found["validation"] == splits["validation"] and "test" not in found

    opened = []
    monkeypatch.setattr(samples, "read_bytes", _noting(opened))
    assert vit("pretrain", colors, *options, "--out", tmp_path / "again").code == 0
    used = {row.path for split in ("train", "validation") for row in splits[split]}
    assert set(opened) == used and not set(opened) & {row.path for row in splits["test"]}


def _noting(opened):
    read = samples.read_bytes

    def noted(path):
        opened.append(str(path))
        return read(path)

    return noted


@pytest.mark.slow
def test_a_pretraining_that_harms_says_so(vit, digits_run, tmp_path):
    """A learning rate that destroys the features: the next command compares them with those of before."""
    options = ("--init_from", digits_run.best, "--optim.lr", 0.3, "--optim.steps", 6, "--wandb", "off")
    answer = vit("pretrain", "digits", *options, "--out", tmp_path).ok()
    assert "WARNING: the k-NN accuracy fell" in answer.err + answer.out
    assert f"vit probe digits --backbones {digits_run.best},{run_folder(tmp_path)}" in answer.out


def test_every_weight_of_the_backbone_arrives(pretrained):
    run, _ = pretrained
    kept = load_file(run / "backbone.safetensors")
    in_checkpoint = checkpoint(run)["state_dict"]
    assert all(torch.equal(value, in_checkpoint[f"network.{name}"]) for name, value in kept.items())
    for source in (run, run / "backbone.safetensors", run / "checkpoints" / "last.ckpt"):
        filled = open_pretrained(str(source)).build(num_classes=4)
        weights = filled.network.state_dict()
        assert {name for name in weights if name not in kept} == {"head.weight", "head.bias"}
        assert all(torch.equal(weights[name], value) for name, value in kept.items())
        assert filled.spec.options["depth"] == 2 and filled.preprocess.image_size == 8


def test_two_runs_of_one_seed_are_equal_and_another_seed_differs(vit, colors, pretrained, tmp_path):
    run, _ = pretrained
    for seed in (0, 1):
        assert vit("pretrain", colors, *OPTIONS, "--seed", seed, "--out", tmp_path / str(seed)).code == 0
    assert same_end(run_folder(tmp_path / "0"), run)
    other = load_file(run_folder(tmp_path / "1") / "backbone.safetensors")
    kept = load_file(run / "backbone.safetensors")
    assert any(not torch.equal(value, other[name]) for name, value in kept.items())


@pytest.mark.slow
def test_an_attempt_after_memory_ran_out_writes_its_rows_alone(vit, colors, tmp_path, monkeypatch):
    batch_loss, calls = Pretrainer.batch_loss, []

    def refused_once(module, batch):
        calls.append(len(batch.path))
        if len(calls) == 1:
            raise torch.OutOfMemoryError("out of memory")
        return batch_loss(module, batch)

    monkeypatch.setattr(Pretrainer, "batch_loss", refused_once)
    vit("pretrain", colors, *OPTIONS, "--epochs", 1, "--out", tmp_path).noted("out of memory: starting again")
    assert [row["step"] for row in metrics(run_folder(tmp_path)) if row["val/knn_acc1"]] == ["0", "3"]


def killed(folder, step, *words):
    """The run folder of a pretraining that is killed at a step."""
    script = "import os\nfrom vit.commands.training.train_progress import TrainProgress\n"
    script += f"TrainProgress.step = lambda self, done, *_: done == {step} and os.kill(os.getpid(), 9)\n"
    ended(folder, -signal.SIGKILL, "pretrain", *words, "--checkpoint_every", "0s", "--out", "out", script=script)
    run = run_folder(folder / "out")
    assert checkpoint(run)["global_step"] == step - 1 and not (run / "backbone.safetensors").exists()
    return run


@pytest.mark.faults("A11")
@pytest.mark.parametrize("step", [pytest.param(2, marks=pytest.mark.slow), 6])
def test_a_killed_pretraining_ends_bit_equal(vit, colors, pretrained, tmp_path, step):
    run = killed(tmp_path, step, colors, *OPTIONS)
    vit("pretrain", "--resume", run).ok()
    assert same_end(run, pretrained[0])


@pytest.mark.faults("A11")
@pytest.mark.slow
def test_a_killed_masked_autoencoder_hides_the_same_patches_again(vit, colors, tmp_path):
    words = (colors, *OPTIONS, "--method", "mae")
    assert vit("pretrain", *words, "--out", tmp_path / "whole").code == 0
    run = killed(tmp_path, 5, *words)
    vit("pretrain", "--resume", run).ok()
    assert same_end(run, run_folder(tmp_path / "whole"))


@pytest.mark.faults("A11")
def test_a_signal_in_a_measurement_says_how_to_go_on(vit, colors, pretrained, tmp_path, monkeypatch):
    def stop(module, batch, batch_idx, dataloader_idx=0):
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(module, batch, batch_idx, dataloader_idx)

    validate = Pretrainer.validation_step
    with monkeypatch.context() as patch:
        patch.setattr(Pretrainer, "validation_step", stop)
        answer = vit("pretrain", colors, *OPTIONS, "--out", tmp_path)
    run = run_folder(tmp_path)
    assert answer.code == 143 and f"to go on: vit pretrain --resume {run}" in answer.err
    assert vit("pretrain", "--resume", "auto", colors, *OPTIONS, "--out", tmp_path).code == 0
    assert same_end(run, pretrained[0])


@pytest.mark.faults("A11")
@pytest.mark.slow
def test_auto_goes_on_in_the_micro_batches_that_the_run_began_with(vit, colors, pretrained, tmp_path):
    """Where memory ran out, config.yaml has more micro-batches than the command; their count is not one of batches."""
    run = killed(tmp_path, 6, colors, *OPTIONS)
    words = ("--resume", "auto", colors, *OPTIONS, "--optim.accumulate", 1, "--out", tmp_path / "out")
    answer = vit("pretrain", *words)
    assert answer.code == 0 and f"going on with {run}" in answer.err and "in 2 micro-batches" in answer.out, answer.err
    assert same_end(run, pretrained[0])


@pytest.mark.slow
@pytest.mark.faults("A12")
def test_two_processes_learn_what_one_learns(colors, tmp_path):
    """Numbers of images are those of the whole list, and the gradients are those of the whole batch."""
    options = (*OPTIONS, "--model.network.drop_path_rate", 0, "--epochs", 1, "--data.train_images", 24)
    options += ("--optim.optimizer", "sgd", "--lr", 0.1)  # AdamW would make steps of the rounding of gradients near 0
    ends = {}
    for name, devices in (("one", ("--devices", 1, "--trainer.accelerator", "cpu")), ("two", TWO)):
        folder = tmp_path / name
        folder.mkdir()
        ended(folder, 0, "pretrain", colors, *options, *devices, "--out", "out")
        ends[name] = run_folder(folder / "out")
    one, two = (load_file(run / "backbone.safetensors") for run in ends.values())
    assert max(float((value - two[name]).abs().max()) for name, value in one.items()) < 1e-5
    accuracies = [[row["val/knn_acc1"] for row in metrics(run)] for run in ends.values()]
    assert accuracies[0] == accuracies[1]


def test_pictures_without_labels_have_no_accuracy(vit, flat, tmp_path):
    answer = vit("pretrain", flat, *OPTIONS, "--out", tmp_path, drawn=True).ok()
    run = run_folder(tmp_path)
    assert "without labels no accuracy shows the progress" in answer.out and "k-NN" not in answer.out + answer.err
    assert "val/knn_acc1" not in metrics(run)[0]
    assert {row.label for row in read_splits(run / "splits.csv")["train"]} == {""}
    assert "Next: vit train LABELED_IMAGES --init_from" in answer.out
    page = (run / "report.html").read_text()
    assert "Nearest neighbors" in page and "No image has a label" in page


def test_the_page_can_be_written_again(vit, pretrained):
    run, _ = pretrained
    before = (run / "report.html").read_bytes()
    assert vit("report", run).code == 0
    vit("report", run, "--root", "sets").failed(2, "--root is for runs with classes")
    assert (run / "report.html").read_bytes() == before
    page = before.decode()
    assert "Nearest neighbors" in page and "Augmented training images" in page and "Reconstructions" not in page
    assert "images without labels" not in page  # they have labels, which are not learned
    assert "vit train DATA --init_from RUN</code> starts" in page  # a folder's name alone is not its path


@pytest.mark.faults("A13")
def test_further_images_are_learned_from_without_copies_of_unseen_images(vit, colors, flat, tmp_path):
    answer = vit("pretrain", colors, *OPTIONS, "--epochs", 1, "--data.unlabeled", flat, "--out", tmp_path).ok()
    rows = read_splits(run_folder(tmp_path) / "splits.csv")
    more = [row for row in rows["train"] if row.path.startswith(str(flat))]
    unseen = {row.content_hash for row in rows["validation"]}
    assert 0 < len(more) < 20 and all(row.label == "" and row.content_hash not in unseen for row in more)
    assert f"{20 - len(more)} of them are copies of validation or test images" in answer.out


def test_a_pretrained_network_goes_on_learning(vit, colors, pretrained, tmp_path):
    run, _ = pretrained
    options = ("--epochs", 1, "--batch_size", 8, "--wandb", "off", "--precision", "32-true", "--out", tmp_path)
    assert vit("pretrain", colors, "--init_from", run, *options).code == 0
    recipe = read_recipe(run_folder(tmp_path) / "config.yaml")
    assert recipe.optim.lr == 1e-4 and recipe.optim.layer_decay == 1 and recipe.model.network["depth"] == 2


def test_the_result_says_that_it_is_a_pretraining(pretrained):
    result = json.loads((pretrained[0] / "result.json").read_text())
    assert result["method"] == "diet" and result["metrics"] == {} and result["classes"] == 0
    weights = load_file(pretrained[0] / "backbone.safetensors")
    assert result["parameters"] == sum(value.numel() for value in weights.values())


@pytest.mark.faults("L5")
@pytest.mark.parametrize("command", ["predict", "evaluate", "explain", "export", "compare"])
def test_a_pretraining_has_no_answers(vit, pretrained, colors, here, tmp_path_factory, command):
    run, _ = pretrained
    other = shutil.copytree(run, tmp_path_factory.mktemp("copy") / "run")
    images = {"predict": (colors / "red",), "explain": (colors / "red" / "00.png",), "compare": (other,)}
    words = images.get(command, ())
    for model in (run, run / "checkpoints" / "last.ckpt"):
        if command == "compare" and model != run:
            continue
        answer = vit(command, model, *words).failed(2, "is of a pretraining: its network has no classes")
        assert f"vit train DATA --init_from {model}" in answer.err and not list(here.iterdir())


@pytest.mark.faults("L6")
def test_weights_of_another_network_are_refused(vit, colors, pretrained, tmp_path):
    options = ("--init_from", pretrained[0], "--network", "vit_mini_patch4_28", "--wandb", "off", "--out", tmp_path)
    answer = vit("pretrain", colors, *options)
    assert answer.code == 4 and "does not fit the network" in answer.err and not list(tmp_path.iterdir())


@pytest.mark.faults("L7")
def test_fewer_images_than_a_batch_are_refused(vit, flat, tmp_path):
    answer = vit("pretrain", flat, "--batch_size", 32, "--wandb", "off", "--out", tmp_path)
    assert answer.code == 3 and "--batch_size 32 > 20 training images" in answer.err and not list(tmp_path.iterdir())


@pytest.mark.faults("L8")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--optim.label_smoothing", "0.5"), ("--freeze", "backbone"), ("--lora", "8"), ("--augment.mixup", "0.2"),
        ("--time", "1h"), ("--optim.ema_decay", "0.9"), ("--data.fold", "1/5"), ("--batch_size", "auto"),
        ("--strategy", "fsdp"),
    ],
)  # fmt: skip
def test_options_of_a_training_with_labels_are_refused(vit, colors, tmp_path, option, value):
    answer = vit("pretrain", colors, option, value, "--wandb", "off", "--out", tmp_path)
    assert answer.code == 2 and not list(tmp_path.iterdir())
    assert "for a pretraining" in answer.err or "of a pretraining" in answer.err


@pytest.mark.faults("L9")
def test_a_run_of_the_other_kind_is_not_resumed(vit, colors, tmp_path):
    with at_step(4):
        assert vit("pretrain", colors, *OPTIONS, "--out", tmp_path).code == 1
    run = run_folder(tmp_path)
    vit("train", "--resume", run).failed(2, f"is of a pretraining; give 'vit pretrain --resume {run}'")
    vit("evaluate", run).failed(2, "its network has no classes")


@pytest.mark.parametrize("config", ["pretrain_mae", "pretrain_diet", "pretrain_mae_further", "pretrain_diet_further"])
def test_a_recipe_of_a_method_names_the_method(vit, config):
    assert f"method: {config.split('_')[1]}" in vit("pretrain", "--config", config, "--print_config").out


def test_the_help_hides_what_a_pretraining_does_not_use(vit):
    said = vit("pretrain", "--help", "all").out
    assert "--method" in said and "--data.unlabeled" in said
    assert not re.findall(
        r"label_smoothing|lora|--freeze|--time|mlflow.register|distill|teacher|find:|fsdp|finetune", said
    )
    shown = {
        name: re.search(rf"--{name} .*?\[([\w.]+)\]", said, re.DOTALL)[1]
        for name in ("augment.name", "augment.crop", "optim.optimizer", "optim.lr", "optim.epochs", "optim.warmup")
    }
    recipe = yaml.safe_load(vit("pretrain", "--print_config").out)
    assert shown == {name: str(recipe[name.split(".")[0]][name.split(".")[1]]) for name in shown}
