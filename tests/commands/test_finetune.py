"""What `--init_from` switches on, beneath whatever is given."""

import json
import re

import pytest
import yaml

from tests.runs import run_folder, trained
from vit.commands.cli.recipe_options import shipped_configs
from vit.data.core.dataset_names import KNOWN

QUICK = ("--optim.steps", 2, "--data.train_images", 100, "--wandb", "off")


@pytest.fixture
def printed(vit, digits_run, tmp_path, monkeypatch):
    """`printed(words...)` is the recipe that `vit train` would take with these options and weights to start from."""
    monkeypatch.chdir(tmp_path)

    def ask(*words, start=("--init_from", digits_run.path)):
        answer = vit("train", *words, *start, "--print_config")
        assert answer.code == 0, answer.err
        return yaml.safe_load(answer.out)

    return ask


def test_weights_to_start_from_bring_a_recipe(printed):
    plain, tuned = printed("photos", start=()), printed("photos")
    assert plain["optim"]["layer_decay"] == 1.0
    assert tuned["optim"]["layer_decay"] == "auto" and tuned["optim"]["lr"] < plain["optim"]["lr"]
    assert (tuned["optim"]["epochs"], plain["optim"]["epochs"]) == ("auto", 50) and tuned["optim"]["ema_decay"] > 0
    assert tuned["model"]["network"] == plain["model"]["network"]


DATA_SETS = sorted({name.removesuffix("_cnn") for name in shipped_configs()} & KNOWN)


@pytest.mark.faults("K41")
@pytest.mark.parametrize("network", [(), ("--network", "vit_mini_patch4_28"), ("--network", "resnet10_small")])
@pytest.mark.parametrize("data", DATA_SETS)
def test_a_data_set_is_fine_tuned_as_the_same_images_in_a_folder(printed, data, network):
    """Before, batch, augmentation, weight decay and clipping of the recipe for random weights stayed."""
    shipped, named, folder = printed(data, *network, start=()), printed(data, *network), printed("photos", *network)
    assert named.pop("data") == shipped["data"]  # the same cut, so that both kinds of training can be compared
    del folder["data"]
    assert named == folder != shipped


def test_it_lies_beneath_all_that_is_given(printed, tmp_path):
    tuned = printed("digits")
    (tmp_path / "mine.yaml").write_text("optim: {lr: 0.02, layer_decay: 1.0}\naugment: {name: strong}\n")
    mine = printed("digits", "--config", "mine.yaml", "--epochs", 7)
    assert (mine["optim"]["lr"], mine["optim"]["layer_decay"], mine["optim"]["epochs"]) == (0.02, 1.0, 7)
    assert mine["augment"]["name"] == "strong" and mine["optim"]["warmup"] == tuned["optim"]["warmup"]


def test_a_recipe_may_name_the_weights(printed, digits_run, tmp_path):
    (tmp_path / "mine.yaml").write_text(f"model: {{init_from: {digits_run.path}}}\n")
    assert printed("photos", "--config", "mine.yaml", start=())["optim"]["layer_decay"] == "auto"


def test_a_run_s_config_is_read_as_it_was(digits_run, printed, tmp_path):
    """A run that started from weights with values of its own goes on with these."""
    text = yaml.safe_dump(printed("digits", "--optim.layer_decay", 1.0, "--lr", 0.01))
    (tmp_path / "config.yaml").write_text(text)
    again = printed("--config", "config.yaml", start=())
    assert again == yaml.safe_load(text)


def test_lora_brings_a_recipe_that_lies_above(printed, tmp_path):
    tuned, lora = printed("digits"), printed("digits", "--lora", 8)
    assert lora["optim"]["layer_decay"] == 1.0 and lora["optim"]["lr"] > tuned["optim"]["lr"]
    assert lora["model"]["lora"] == 8 and lora["augment"] == tuned["augment"]
    assert {key for key, value in lora["optim"].items() if value != tuned["optim"][key]} == {"lr", "layer_decay"}
    (tmp_path / "mine.yaml").write_text("model: {lora: 4}\noptim: {lr: 0.02}\n")
    mine = printed("digits", "--config", "mine.yaml")
    assert (mine["optim"]["lr"], mine["optim"]["layer_decay"]) == (0.02, 1.0)
    assert printed("digits", "--config", "lora")["model"]["lora"] == 16  # before, all weights trained at LoRA's rate
    assert printed("digits", "--config", "lora", "--lora", 8) == lora


@pytest.mark.parametrize("source", ["digits", "fashion_mnist", "cifar10"])
def test_network_and_preprocessing_come_with_the_weights_of_named_data_too(printed, source):
    """Before, the recipe of the data set stood above the weights."""
    shipped, tuned = printed(source, start=()), printed(source)
    assert shipped["model"]["network"]["name"] != "auto" and shipped["model"]["preprocess"]["mean"]
    assert tuned["model"]["network"] == {"name": "auto"} and not any(tuned["model"]["preprocess"].values())
    own = printed(source, "--image_size", 16, "--network", "vit_mini_patch4_28")["model"]
    assert own["network"]["name"] == "vit_mini_patch4_28"
    assert {name: value for name, value in own["preprocess"].items() if value} == {"image_size": 16}
    named = printed("--config", source)["model"]  # a recipe that the user names stands above the weights
    assert (named["network"], named["preprocess"]) == (shipped["model"]["network"], shipped["model"]["preprocess"])


def test_a_pretraining_of_named_data_goes_on_with_the_network_of_the_weights(vit, digits_run):
    answer = vit("pretrain", "fashion_mnist", "--init_from", digits_run.path, "--print_config")
    model = yaml.safe_load(answer.out)["model"]
    assert model["network"] == {"name": "auto"} and not any(model["preprocess"].values())


def test_a_training_goes_on_with_what_was_pretrained(vit, tmp_path):
    """Before, the terminal stated values of the weights that the training did not use, and small ViTs did not fit."""
    half, small = "[0.5,0.5,0.5]", ("--model.network.embed_dim", 32, "--model.network.depth", 2)
    of_pixels = ("--model.preprocess.mean", half, "--model.preprocess.std", half)
    answer = vit("pretrain", "digits", "--method", "mae", *small, *of_pixels, *QUICK, "--out", tmp_path / "pretrained")
    assert answer.code == 0, answer.err
    (command,) = re.findall(r"Next: vit (train .*)", answer.out)
    answer = vit(*command.split(), *QUICK, "--out", tmp_path / "trained")
    assert answer.code == 0, answer.err
    assert ", mean 0.5 0.5 0.5, std 0.5 0.5 0.5, " in answer.err and "but for" not in answer.err
    model = yaml.safe_load((run_folder(tmp_path / "trained") / "config.yaml").read_text())["model"]
    assert model["network"]["depth"] == 2 and model["preprocess"]["mean"] == [0.5, 0.5, 0.5]
    own = ("--model.preprocess.mean", "[0.3,0.3,0.3]", "--out", tmp_path / "own")
    answer = vit(*command.split(), *QUICK, *own)
    assert answer.code == 0 and ", mean 0.3 0.3 0.3, std 0.5 0.5 0.5, " in answer.err, answer.err
    assert re.search(r"weights, preprocessing: .*, but for mean\)", answer.err)


def test_a_cnn_is_the_start_of_another_cnn(vit, tmp_path):
    words = ("--network", "resnet10_small", "--model.network.widths", "[4,4,4,4]", *QUICK)
    assert vit("train", "digits", *words, "--out", tmp_path).code == 0
    answer = vit("train", "digits", "--init_from", run_folder(tmp_path), *QUICK, "--dry_run")
    assert answer.code == 0 and "Training resnet10_small on digits" in answer.out, answer.err


@pytest.fixture(scope="module")
def two_colors(draw_classes, tmp_path_factory):
    """A run that tells blue and red images apart."""
    out = tmp_path_factory.mktemp("two")
    data = draw_classes(out / "images", ("blue", "red"), 20)
    return trained(out / "runs", data, *TWO, "--epochs", 20)


TWO = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--batch_size", 8, "--augment",
    "none", "--data.num_workers", 0, "--wandb", "off", "--lr", 0.003,
)  # fmt: skip


@pytest.mark.faults("C18")
@pytest.mark.parametrize(
    ("names", "said"), [(("cold", "warm"), "the weights have other classes"), (("1 red", "2 blue"), "other classes")]
)
def test_as_many_other_classes_get_a_new_head(vit, two_colors, draw_classes, tmp_path, names, said):
    """The head of other classes would be wrong in every answer: by default a linear probe fits a new one."""
    blue = draw_classes(tmp_path / "images", ("blue", "red"), 20)
    for old, new in zip(("red", "blue"), names, strict=True):
        (blue / old).rename(blue / new)
    few = ("--init_from", two_colors, "--optim.steps", 1, "--out", tmp_path / "runs")
    answer = vit("train", blue, *TWO[:-2], *few)
    assert answer.code == 0 and said in answer.err, answer.err
    result = json.loads((run_folder(tmp_path / "runs") / "result.json").read_text())
    assert result["metrics"]["acc1"]["value"] > 0.8


@pytest.mark.faults("C18")
def test_the_same_classes_in_another_order_keep_their_rows(vit, two_colors, tmp_path):
    source = yaml.safe_load((two_colors / "config.yaml").read_text())["data"]["source"]
    start = ("--init_from", two_colors, "--lr", 1e-9, "--optim.steps", 1)
    rows = [f"{source}/{name}/{number:02}.png,{name}" for name in ("red", "blue") for number in range(20)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    answer = vit("train", tmp_path / "list.csv", *TWO[:-2], *start, "--out", tmp_path / "runs")
    assert answer.code == 0, answer.err
    result = json.loads((run_folder(tmp_path / "runs") / "result.json").read_text())
    assert result["metrics"]["acc1"]["value"] > 0.8
