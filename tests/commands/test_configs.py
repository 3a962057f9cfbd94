"""Every recipe that comes with the program is read by its own parser, and can be carried out."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch
import yaml

from vit.commands.cli.recipe_layers import RecipeLayers
from vit.commands.cli.recipe_options import read_recipe, shipped_configs
from vit.commands.studies.study_options import items, read_words
from vit.commands.studies.study_series import series_of
from vit.models.spec import NetworkSpec
from vit.study.grid import Budget, Inputs, make_cells, parse_sizes
from vit.study.spec import without_cell_files
from vit.training.planning.plan import plan_of
from vit.training.recipes.image_options import AugmentConfig
from vit.training.recipes.values import plain

CONFIGS = shipped_configs()
RECIPES = sorted(name for name in CONFIGS if not name.startswith("studies/"))
STUDIES = sorted(set(CONFIGS) - set(RECIPES))
TREE = Path(__file__).parents[2] / "configs"


def spec_of(recipe):
    options = {key: value for key, value in recipe.model.network.items() if key != "name"}
    return NetworkSpec.named(recipe.model.network["name"], 10, options)


def test_every_file_of_the_tree_is_shipped():
    found = {str(path.relative_to(TREE).with_suffix("")) for path in TREE.rglob("*.yaml")}
    assert {"digits", "fashion_mnist"} <= found and found == set(CONFIGS)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_parses_and_its_network_can_be_built(name):
    recipe = read_recipe(CONFIGS[name])
    if recipe.model.network["name"] != "auto":
        spec = spec_of(recipe)
        cost = spec.cost(recipe.model.preprocess.image_size or spec.default_image_size)
        assert cost.parameters > 1000 and cost.flops > 1000


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_fits_some_data(name, draw_classes, digits_run, tmp_path):
    """What a recipe says of batch, augmentation and splits makes a plan; other data stand in for those not at hand."""
    recipe = read_recipe(CONFIGS[name])
    if recipe.data.source != "digits":
        recipe = replace(recipe, data=replace(recipe.data, source=str(draw_classes(tmp_path, ("a", "b"), 40))))
        recipe = replace(recipe, optim=replace(recipe.optim, batch_size=8 * recipe.optim.accumulate))
    if recipe.model.freeze != "none" or recipe.model.lora is not None:
        recipe = replace(recipe, model=replace(recipe.model, init_from=str(digits_run.best)))
    plan = plan_of(recipe)
    assert plan.total_steps >= (200 if recipe.optim.epochs == "auto" else recipe.optim.epochs)
    with torch.device("meta"):  # the largest networks have 600 million weights
        assert plan.preprocess.image_size == plan.build_network().image_size


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_header_says_what_it_is(name):
    header = [line for line in CONFIGS[name].read_text().splitlines() if line.startswith("#")]
    assert header, "a recipe begins with a comment"
    for key in ("source", "command", "expected", "time"):
        assert any(line.startswith(f"# {key}:") for line in header), key


def test_the_digits_recipe_is_the_default(vit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = vit("train", "fashion_mnist", "--print_config=skip_default")  # it would miss the shipped recipe
    assert (refused.code, "print_config is skip_default; give true or false" in refused.err) == (2, True)
    printed = [yaml.safe_load(vit("train", *words, "--print_config").out) for words in ([], ["digits"])]
    assert printed[0]["optim"] == printed[1]["optim"] == plain(read_recipe(CONFIGS["digits"]))["optim"]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_compares_recipes_that_can_be_built(name):
    given = read_words(["--config", name.removeprefix("studies/")])
    series = {
        name: {choice: without_cell_files(recipe) for choice, recipe in choices.items()}
        for name, choices in series_of(given).items()  # teachers and weights are made first
    }
    budget, sizes, seeds = Budget.parse(given.budget), parse_sizes(items(given.sizes), 60_000), given.seed_list()
    cells = make_cells(series, dict.fromkeys(sizes, seeds), budget, Inputs("photos", {}))
    assert len(cells) == sum(map(len, series.values())) * len(sizes) * len(seeds) > 1
    assert f"{len(cells)} cells" in CONFIGS[name].read_text()
    for recipe in (choice for choices in series.values() for choice in choices.values()):
        spec = spec_of(recipe)
        with torch.device("meta"):
            spec.build(recipe.model.preprocess.image_size or spec.default_image_size)


@pytest.mark.parametrize("source", ["digits", "fashion_mnist", "cifar10"])
@pytest.mark.parametrize(
    ("network", "ending"), [("auto", ""), ("vit_tiny_cifar", ""), ("deit_tiny_patch16_224", ""), ("resnet18", "_cnn")]
)
def test_a_cnn_takes_the_recipe_for_cnns(source, network, ending):
    recipe = RecipeLayers(options={"data.source": source}).with_option("network", network).recipe()
    shipped = RecipeLayers((f"{source}{ending}",)).recipe()
    assert recipe.optim == shipped.optim and recipe.augment == shipped.augment
    assert recipe.model.network["name"] == network


@pytest.mark.parametrize("files", [(), ("digits",)])
def test_a_given_augmentation_is_the_only_one(files, tmp_path):
    """The recipe shifts, rotates and zooms. "none" left all three before."""
    given = RecipeLayers(files, {"data.source": "digits"})
    assert given.recipe().augment.rotate == 15 and given.with_option("augment.flip", 0.5).recipe().augment.rotate == 15
    assert given.with_option("augment", "none").recipe().augment == AugmentConfig("none")
    rotated = given.with_option("augment", "none").with_option("augment.rotate", 5.0).recipe().augment
    assert rotated == AugmentConfig("none", rotate=5.0)
    (tmp_path / "mine.yaml").write_text("augment: {name: strong}")
    layered = replace(given, configs=(*files, "digits", str(tmp_path / "mine.yaml"))).recipe()
    assert layered.augment == AugmentConfig("strong")


def test_a_cnn_trains_on_named_data(vit, tmp_path):
    words = ("--optim.steps", 2, "--data.train_images", 100, "--out", tmp_path, "--wandb", "off")
    answer = vit("train", "digits", "--network", "resnet10_small", "--model.network.widths", "[4,4,4,4]", *words)
    assert answer.code == 0 and "optimizer  sgd" in answer.out


@pytest.mark.parametrize("command", ["train", "pretrain", "study"])
def test_the_schema_of_a_command_is_the_file_that_is_shipped(command, vit):
    printed = vit(command, "--print_schema")
    assert printed.code == 0 and printed.out == (TREE / "schemas" / f"{command}.json").read_text(), (
        f"vit {command} --print_schema > configs/schemas/{command}.json"
    )
    jsonschema.Draft7Validator.check_schema(json.loads(printed.out))


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_fits_the_schema_that_it_names_to_editors(name):
    text = CONFIGS[name].read_text()
    (place,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", text, re.MULTILINE)
    jsonschema.validate(yaml.safe_load(text), json.loads((CONFIGS[name].parent / place).read_text()))


def test_a_whole_recipe_fits_the_schema(vit, digits_run):
    schema = json.loads(vit("train", "--print_schema").out)
    jsonschema.validate(yaml.safe_load(vit("train", "digits", "--print_config").out), schema)
    jsonschema.validate(yaml.safe_load((digits_run.path / "config.yaml").read_text()), schema)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("optim: {lr: 0}", False), ("optim: {lr: 0.1}", True), ("optim: {learning_rate: 0.1}", False),
        ("optim: {epochs: auto}", True), ("optim: {epochs: all}", False), ("optim: {epochs: 1.5}", False),
        ("optim: {optimizer: mine:Adam}", True), ("optim: {optimizer: adam}", False), ("optim.lr: 0.1", True),
        ("optim:", True), ("optim: 3", False), ("seed: -1", False), ("name: null", True), ("seed: null", False),
        ("model: {network: {name: vit, depth: 3}}", True), ("model: {network: vit}", False), ("resume: run", False),
    ],
)  # fmt: skip
def test_the_schema_takes_what_vit_takes(text, fits, vit, tmp_path):
    (tmp_path / "recipe.yaml").write_text(text)
    schema = json.loads(vit("train", "--print_schema").out)
    taken = vit("train", "digits", "--config", tmp_path / "recipe.yaml", "--print_config").code == 0
    assert jsonschema.Draft7Validator(schema).is_valid(yaml.safe_load(text)) == taken == fits
