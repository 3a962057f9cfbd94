"""What a user gives stands above recipes, and takes the place of what it contradicts in them."""

import re

import pytest
import yaml

from vit.commands.cli.recipe_layers import RecipeLayers
from vit.commands.cli.recipe_options import SHORT
from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_series import series_of
from vit.commands.training.train_options import read_values
from vit.errors import UsageError
from vit.models.spec import NetworkSpec

OTHERS = {"pool": "mean", "drop_path_rate": 0.1}  # options of the ViT of cifar10.yaml beside its size


@pytest.fixture
def printed(vit):
    """`printed("train", words...)` is the whole recipe that a command prints."""

    def ask(*words):
        answer = vit(*words, "--print_config")
        assert answer.code == 0, answer.err
        return yaml.safe_load(answer.out)

    return ask


def length(recipe):
    return {name: value for name, value in recipe["optim"].items() if name in ("epochs", "steps", "time")}


@pytest.mark.parametrize(
    ("words", "epochs"),
    [
        (("cifar10", "--epochs", 10), 10),
        (("cifar10", "--init_from", "weights.safetensors"), "auto"),  # of the recipe for fine-tuning
        (("digits", "--config", "steps.yaml", "--epochs", 2), 2),
        (("digits", "--config", "timed.yaml", "--epochs", 3), 3),
        (("digits", "--config", "timed.yaml", "--config", "epochs.yaml"), 7),
        (("digits", "--config", "epochs.yaml", "--optim.steps", "null"), 7),
    ],
)
def test_epochs_take_the_place_of_steps_and_of_a_time(words, epochs, printed, here):
    """Before, steps of a layer below decided the length, and the epochs were ignored."""
    for name, optim in {
        "steps": "{steps: 300}",
        "epochs": "{epochs: 7}",
        "timed": "{time: 10min, steps: 5000, epochs: 50}",  # as in the config.yaml of a run
    }.items():
        (here / f"{name}.yaml").write_text(f"optim: {optim}\n")
    assert length(printed("train", *words)) == {"epochs": epochs, "steps": None, "time": None}


def test_epochs_take_the_place_of_the_steps_of_a_pretraining(printed, here):
    (here / "config.yaml").write_text("optim: {epochs: 100, steps: 5000}\n")  # more than ten epochs become steps
    assert length(printed("pretrain", "digits", "--config", "config.yaml"))["steps"] == 5000
    given = printed("pretrain", "digits", "--config", "config.yaml", "--epochs", 5)
    assert length(given) == {"epochs": 5, "steps": None, "time": None}


@pytest.mark.parametrize(
    ("kept", "steps"),
    [("{epochs: 50, steps: 5000, time: null}", 5000), ("{epochs: 50, steps: null, time: null}", None)],
)
def test_a_whole_config_keeps_its_length(kept, steps, printed, here):
    (here / "config.yaml").write_text(f"optim: {kept}\n")
    words = ("train", "cifar10", "--config", "cifar10", "--config", "config.yaml")
    assert length(printed(*words)) == {"epochs": 50, "steps": steps, "time": None}


def test_two_lengths_are_refused(vit, here):
    vit("train", "digits", "--epochs", 2, "--optim.steps", 40).failed(2, "--epochs 2 with --optim.steps", "leave one")
    vit("train", "--optim.steps", 40, "--time", "10min", "--dry_run").failed(2, "--time 10min with --optim.steps")
    words = ("study", "digits", "--networks", "digits", "--set", "optim.steps=3", "--set", "optim.epochs=2")
    vit(*words, "--budget", "recipe").failed(2, "--epochs 2 with --optim.steps")


@pytest.mark.parametrize("name", ["vit_mini_patch4_28", "vitc_tiny_cifar", "resnet10_small", "vit_tiny_cifar"])
def test_a_network_above_a_recipe_has_its_own_size(name, vit, here):
    """Before, each name trained a ViT of the recipe's width and depth."""
    answer = vit("train", "digits", "--config", "cifar10", "--network", name, "--optim.optimizer", "adamw", "--dry_run")
    assert answer.code == 0 and f"Training {name} on" in answer.out, answer.err
    options = {} if name.startswith("resnet") else {"pool": "mean"}
    if name == "vit_tiny_cifar":  # the recipe's own network
        options |= {"embed_dim": 256, "depth": 7, "num_heads": 4}
    expected = NetworkSpec.named(name, 10, options).cost(32).parameters
    (shown,) = re.findall(r"([\d,]+) parameters", answer.out)
    assert shown == f"{expected:,}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("large.yaml --network vit_base_patch16_224", {"pool": "mean", "pos_embed": "sincos2d"}),
        ("large.yaml --network resnet50", {}),
        ("fashion_mnist --network vit_mini_patch4_28 --model.network.depth 3", {"pool": "mean", "depth": 3}),
        ("cifar10 --network vit_nano_patch2_8 --model.network.depth 3", {**OTHERS, "depth": 3}),
        ("cifar10 --network auto", OTHERS),
        ("narrow.yaml --network resnet18_cifar", {"zero_init_last": True}),
        ("nameless.yaml --network vit_mini_patch4_28", {"depth": 2}),
    ],
)
def test_options_that_are_not_a_size_stay(words, expected, printed, here):
    (here / "narrow.yaml").write_text(
        "model: {network: {name: resnet10_small, widths: [4, 4, 4, 4], zero_init_last: true}}\n"
    )
    (here / "nameless.yaml").write_text("model: {network: {depth: 2}}\n")
    (here / "large.yaml").write_text(
        "model: {network: {name: vit_large_patch16_224, pool: mean, pos_embed: sincos2d}}\n"
    )
    network = printed("train", "digits", "--config", *words.split())["model"]["network"]
    assert network == {"name": words.split()[2], **expected}


def test_a_study_compares_the_networks_that_it_names(here):
    words = ["cifar10", "--networks", "vit_tiny_cifar,vit_mini_patch4_28,vitc_mini_patch4_28", "--wandb", "off"]
    networks = {name: choices[""].model.network for name, choices in series_of(read_words(words)).items()}
    assert networks["vit_tiny_cifar"]["embed_dim"] == 256  # as in the recipe, which has this name
    for name in ("vit_mini_patch4_28", "vitc_mini_patch4_28"):
        assert networks[name] == {"name": name, **OTHERS}


def test_a_wrong_network_above_a_recipe_is_refused(vit, here):
    vit("train", "digits", "--config", "cifar10", "--network", "vit_mini").failed(2, "no network is called 'vit_mini'")


def test_recipes_that_one_parser_has_read_share_no_value():
    first, second = (RecipeLayers(("digits",)).recipe() for _ in range(2))
    first.model.network["depth"] = 9
    first.model.preprocess.mean = [0.0]
    assert second == RecipeLayers(("digits",)).recipe() and second.model.network != first.model.network


EMPTY = "optim:\n#  epochs: 3\n"


@pytest.mark.faults("K26")
@pytest.mark.parametrize("text", [EMPTY, "optim:\n", "model:\n  preprocess:\n  network:\n", "augment:\nseed: 0\n"])
def test_an_empty_section_of_a_recipe_has_no_values(text, here):
    """It was an internal error: a section must be a mapping."""
    (here / "mine.yaml").write_text(text)
    assert RecipeLayers(("digits", "mine.yaml")).recipe() == RecipeLayers(("digits",)).recipe()
    series = series_of(read_words(["digits", "--networks", "mine.yaml,vit_nano_patch2_8"]))
    assert len(series) == 2


@pytest.mark.faults("K26")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("optim: 3\n", ("optim is 3", "one by one")),
        ("optim: [lr]\n", ("optim is ['lr']",)),
        ("data: photos/\n", ("data is photos/",)),
        ("model:\n  preprocess: 3\n", ("model.preprocess is 3",)),
        ("optim: {lr: 0.1}\n".encode("utf-16"), ("not a text in UTF-8",)),
        (bytes(range(256)), ("not a text in UTF-8",)),
        ("- optim\n", ("holds no options",)),
        ("\toptim: 3\n", ("line 1",)),
        ("lr: 0.5\n", ("no option lr", "give optim.lr, in a file the key 'lr' below 'optim:'")),
        ("network: x\n", ("give model.network.name, in a file the key 'name' below 'model:' and 'network:'",)),
        ("resume: auto\n", ("'resume'", "not an option of a file", "give --resume")),
        ("dry_run: 3\n", ("'dry_run'", "give --dry_run")),
        ("config: [finetune]\n", ("'config'", "give --config")),
        ("optim.lr: 1\noptim: {lr: 2}\n", ("optim.lr is given twice", "keep one")),
    ],
)
@pytest.mark.parametrize("command", ["train", "crossval"])
def test_a_recipe_file_that_cannot_be_used_is_named(command, text, words, vit, here):
    """Most of these were internal errors. `resume` counted for nothing, and the advice for `lr` was `lr`."""
    (here / "mine.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    vit(command, "digits", "--config", "mine.yaml", "--dry_run").failed(2, "mine.yaml", *words)


def test_a_study_file_that_names_another_file_is_refused(vit, here):
    """This was an internal error."""
    (here / "mine.yaml").write_text("config: digits\n")
    vit("study", "digits", "--config", "mine.yaml", "--dry_run").failed(2, "mine.yaml", "'config'", "give --config")


@pytest.mark.faults("K27")
@pytest.mark.parametrize(
    "name",
    [
        "epochs", "lr", "optim.warmup", "optim.accumulate", "trainer.devices", "data.validation", "data.sampling",
        "seed", "optim.optimizer", "optim.label_smoothing", "precision", "trainer.strategy", "wandb", "freeze", "out",
    ],
)  # fmt: skip
def test_none_in_python_is_refused_where_an_option_must_have_a_value(name):
    """Some ended in a TypeError or a KeyError, and others were accepted."""
    dotted = SHORT.get(f"--{name}", name).removeprefix("--")
    with pytest.raises(UsageError, match=f"{re.escape(dotted)} is None; give a value, or leave it out"):
        read_values("digits", (), None, {name: None}).layers.recipe()


def test_none_stays_a_value_of_options_that_may_have_none():
    names = ["optim.steps", "init_from", "batch_size", "name", "data.groups", "augment.rotate", "checkpoint_every"]
    recipe = read_values("digits", (), None, dict.fromkeys(names)).layers.recipe()
    assert recipe.model.init_from is None and recipe.optim.batch_size is None and recipe.augment.rotate is None


@pytest.mark.faults("K27")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--epochs", "null"), "optim.epochs is null; give a whole number"),
        (("--lr", "null"), "optim.lr is null; give a number"),
        (("--lr", "[1]"), "optim.lr is a list; give a number"),
        (("--network", "null"), "model.network.name is null; give a value, or leave it out"),
    ],
)
def test_null_on_the_command_line_is_refused_as_other_values_are(words, error, vit):
    vit("train", "digits", *words, "--dry_run").failed(2, error)


@pytest.mark.parametrize("data", ["digits", "photos"])
def test_none_for_the_network_in_python_is_refused(data):
    with pytest.raises(UsageError, match=r"model\.network\.name is None; give a value"):
        read_values(data, (), None, {"network": None}).layers.recipe()


def test_a_recipe_for_a_gpu_names_the_one_for_a_cpu_and_its_time():
    """Before, `vit train cifar10` planned 10,000 steps of 1,024 images on a CPU without a word."""
    cifar10 = read_values("cifar10", None, None, {}).layers
    assert cifar10.note_for_cpu() == (
        "the recipe cifar10 is for a GPU; --config cifar10_cpu is for a CPU: 2.3 h a run on 1 core of an Intel Xeon"
    )
    assert "--config cifar10_cpu_cnn is for" in cifar10.with_option("network", "resnet18_cifar").note_for_cpu()
    for silent in (cifar10.with_option("init_from", "w.pth"), read_values("digits", None, None, {}).layers):
        assert silent.note_for_cpu() == ""
    assert read_values("cifar10", "cifar10_cpu", None, {}).layers.note_for_cpu() == ""
