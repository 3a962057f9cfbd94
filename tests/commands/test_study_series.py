"""A cell of a study is what `vit train` would train with the same words."""

from dataclasses import replace
from pathlib import Path

import pytest

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.load import write_new_checkpoint
from vit.commands.cli.recipe_options import AUTO
from vit.commands.studies.study_checks import check_overridden
from vit.commands.studies.study_options import StudyOptions, read_words
from vit.commands.studies.study_series import networks_for, series_of
from vit.commands.training.train_options import read_words as read_train_words
from vit.console import Reporter
from vit.data.pixels.preprocess import Preprocess
from vit.errors import UsageError
from vit.models.spec import NetworkSpec
from vit.study.grid import Budget
from vit.training.recipes.recipe import OptimConfig, Recipe, TrainerConfig
from vit.training.recipes.values import dump

WEIGHTS, RECIPE = "weights.safetensors", "own.yaml"


@pytest.mark.parametrize(
    ("networks", "options"),
    [
        ("vit_tiny_patch16_224", {}),
        ("vit_tiny_patch16_224", {"model.init_from": WEIGHTS}),
        ("vit_tiny_patch16_224", {"model.init_from": WEIGHTS, "model.lora": 4}),
        ("vit_tiny_patch16_224", {"model.init_from": "none"}),
        (RECIPE, {}),
        (RECIPE, {"optim.lr": 0.01}),
        ("vit_nano_patch2_8", {"data.source": "digits"}),
        ("resnet10_small", {"data.source": "fashion_mnist"}),
        ("finetune", {"model.init_from": WEIGHTS, "model.network.name": "resnet18"}),
    ],
)
def test_a_cell_has_the_recipe_of_a_training(networks, options, tmp_path, monkeypatch):
    """Before, weights did not bring the recipe for fine-tuning, and named data not their own recipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / WEIGHTS).write_bytes(b"")
    (tmp_path / RECIPE).write_text(f"model: {{init_from: {WEIGHTS}}}\noptim: {{epochs: 3}}\n")
    data = options.get("data.source", "photos")
    given = [f"--{name}={value}" for name, value in options.items() if name != "data.source"]
    is_recipe = networks in (RECIPE, "finetune")
    choice = f"--config={networks}" if is_recipe else f"--network={networks}"
    expected = read_train_words([data, choice, *given, "--wandb=off"]).layers.recipe()
    if expected.model.init_from in (AUTO, "none"):  # a network with a name starts from random weights
        expected = replace(expected, model=replace(expected.model, init_from=None))
    words = [data, "--networks", networks, *(f"--set={word.removeprefix('--')}" for word in given)]
    (choices,) = series_of(read_words([*words, "--wandb", "off"])).values()
    expected = replace(expected, trainer=replace(expected.trainer, devices=1))
    if expected.model.freeze != "backbone":  # a study tests the last weights, which no validation image chooses
        expected = replace(expected, optim=replace(expected.optim, best_metric="last"))
    assert list(choices.values()) == [expected]


@pytest.mark.parametrize(("budget", "length"), [("steps:7", (7, 50)), ("epochs:3", (None, 3)), ("recipe", (40, 50))])
def test_the_recipe_of_a_run_with_a_time_has_the_steps_that_it_measured(budget, length, tmp_path, monkeypatch):
    """Its config.yaml was refused: it has a time beside the steps that took its place."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    Path("config.yaml").write_text(dump(Recipe(optim=OptimConfig(time="20s", steps=40))))
    Path("untimed.yaml").write_text(dump(Recipe(optim=OptimConfig(steps=40))))
    timed, untimed = (
        next(iter(series_of(read_words(["photos", "--networks", name, "--wandb", "off"])).values()))[""]
        for name in ("config.yaml", "untimed.yaml")
    )
    assert timed == untimed
    optim = Budget.parse(budget).apply(timed, 100).optim
    assert (optim.steps, optim.epochs) == length


@pytest.mark.faults("K28")
def test_a_cell_of_a_recipe_for_several_devices_trains_on_one(tmp_path, monkeypatch):
    """The cell started the study again on its second device, and waited for it without end."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    recipes = {}
    for name, trainer in (("one", TrainerConfig()), ("two", TrainerConfig(devices=2, num_nodes=3))):
        Path(f"{name}.yaml").write_text(dump(Recipe(trainer=trainer)))
        recipes[name] = next(iter(series_of(read_words(["photos", "--networks", f"{name}.yaml"])).values()))[""]
    assert recipes["one"] == recipes["two"]
    assert (recipes["two"].trainer.devices, recipes["two"].trainer.num_nodes) == (1, 1)


@pytest.mark.parametrize("given", ["optim.time=20s", "optim.batch_size=auto"])
def test_what_trial_steps_would_decide_is_refused(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    with pytest.raises(UsageError, match="cells mean the same on every machine"):
        series_of(read_words(["photos", "--networks", "vit_nano_patch2_8", "--set", given, "--wandb", "off"]))


def test_options_of_study_files_stay_beside_those_of_the_command_line(tmp_path, monkeypatch):
    """One --set dropped every other set of the file, so that the cells trained by other rules than it says."""
    monkeypatch.chdir(tmp_path)
    Path("first.yaml").write_text("set: {optim.lr: 0.1, optim.weight_decay: 0}\ndata: {root: here}\nvary: {seed: [1]}")
    Path("second.yaml").write_text("data: {groups: x}\ntune: {optim.lr: [1, 2]}\n")
    words = ["--config", "first.yaml", "--config", "second.yaml", "--set", "lr=0.3", "--tune", "optim.warmup=0.9"]
    options = read_words(words)
    assert options.set == {"optim.lr": "0.3", "optim.weight_decay": 0}
    assert options.data == {"root": "here", "groups": "x"}
    assert (options.vary, options.tune) == ({"seed": [1]}, {"optim.lr": [1, 2], "optim.warmup": ["0.9"]})


@pytest.mark.parametrize("words", ["--set lr=0.1", "--vary lr=0.01,0.1", "--tune lr=x2,0.1", "--data.groups=b"])
def test_no_value_of_a_network_or_an_option_is_replaced_by_another(words):
    """A network of a study file silently lost the option that was written for it."""
    options = replace(read_words(["digits", *words.split()]), networks={"A": "digits --lr=0.01 --data.groups=a"})
    with pytest.raises(UsageError, match=r"--networks A: (optim\.lr=0\.01|data\.groups=a) with .*; leave one out"):
        check_overridden(options)
    with pytest.raises(UsageError, match=r"--networks A: init_from=a with --init_from b; leave one out"):
        series_of(replace(options, networks={"A": "digits --init_from=a"}, init_from=["b"]))
    check_overridden(replace(options, set={"optim.lr": "1e-2"}, vary={}, tune={"optim.lr": ["x2"]}, data={}))


def test_files_of_a_study_may_have_spaces_in_their_paths(tmp_path):
    """`vit probe "my photos/"` took half of its own recipe's path for a network, and `vit study` half of a file's."""
    folder = tmp_path / "o'neil & co"
    folder.mkdir()
    weights, recipe = folder / "best 1.ckpt", folder / "my recipe.yaml"
    recipe.write_text(f'model: {{freeze: backbone, init_from: "{weights}"}}')
    spec = NetworkSpec.named("vit_nano_patch2_8", 2)
    description = Description(("a", "b"), spec, Preprocess(8))
    write_new_checkpoint(checkpoint_content(description, spec.build(8).state_dict()), weights)
    options = StudyOptions(source="digits", init_from=[str(weights)], wandb="off")
    of_file, _ = networks_for(options, Recipe(), None, None, Reporter())
    for networks in ({"of the recipe": str(recipe)}, of_file):
        ((choices,),) = [series_of(StudyOptions(source="digits", networks=networks, wandb="off")).values()]
        assert choices[""].model.init_from == str(weights)
    with pytest.raises(UsageError, match="No closing quotation"):
        series_of(StudyOptions(source="digits", networks={"a": "digits --lr='1"}, wandb="off"))
