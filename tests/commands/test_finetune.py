"""What `--init_from` switches on, beneath whatever is given."""

import pytest
import yaml


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
    assert tuned["optim"]["layer_decay"] < 1.0 and tuned["optim"]["lr"] < plain["optim"]["lr"]
    assert tuned["optim"]["epochs"] < plain["optim"]["epochs"] and tuned["optim"]["ema_decay"] > 0
    assert tuned["model"]["network"] == plain["model"]["network"]


def test_it_lies_above_the_recipe_of_a_data_set_and_beneath_all_that_is_given(printed, tmp_path):
    digits, tuned = printed("digits", start=()), printed("digits")
    assert digits["optim"]["optimizer"] == "muon" and tuned["optim"]["optimizer"] == "adamw"
    assert tuned["augment"]["rotate"] == digits["augment"]["rotate"]
    (tmp_path / "mine.yaml").write_text("optim: {lr: 0.02, layer_decay: 1.0}\naugment: {name: strong}\n")
    mine = printed("digits", "--config", "mine.yaml", "--epochs", 7)
    assert (mine["optim"]["lr"], mine["optim"]["layer_decay"], mine["optim"]["epochs"]) == (0.02, 1.0, 7)
    assert mine["augment"]["name"] == "strong" and mine["optim"]["warmup"] == tuned["optim"]["warmup"]


def test_a_recipe_may_name_the_weights(printed, digits_run, tmp_path):
    (tmp_path / "mine.yaml").write_text(f"model: {{init_from: {digits_run.path}}}\n")
    assert printed("photos", "--config", "mine.yaml", start=())["optim"]["layer_decay"] < 1.0


def test_a_run_s_config_is_read_as_it_was(vit, digits_run, printed, tmp_path):
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
