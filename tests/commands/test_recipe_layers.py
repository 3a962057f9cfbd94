"""What a user gives stands above recipes, and takes the place of what it contradicts in them."""

import pytest
import yaml

from tests.commands.test_train_errors import refused


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
        (("cifar10", "--init_from", "weights.safetensors"), 8),  # of the recipe for fine-tuning
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
    refused(vit("train", "digits", "--epochs", 2, "--optim.steps", 40), 2, "--epochs 2 with --optim.steps", "leave one")
    refused(vit("train", "--optim.steps", 40, "--time", "10min", "--dry_run"), 2, "--time 10min with --optim.steps")
    words = ("study", "digits", "--networks", "digits", "--set", "optim.steps=3", "--set", "optim.epochs=2")
    refused(vit(*words, "--budget", "recipe"), 2, "--epochs 2 with --optim.steps")
