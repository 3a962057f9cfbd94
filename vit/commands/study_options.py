"""The options of `vit study`, and what they mean: networks to compare, sizes, seeds, a length, a part of the cells."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from jsonargparse import ActionConfigFile

from vit.commands.arguments import fraction, parse
from vit.commands.configs import find_config, shipped_configs
from vit.commands.parser import Parser
from vit.commands.recipe_options import SHORT, check_names, make_parser, to_recipe
from vit.errors import UsageError
from vit.models.names import check_network
from vit.training.recipe import Recipe

if TYPE_CHECKING:
    from vit.study.grid import Budget

_REPEATED = ("vary", "tune", "set")
_FILE = "configs/studies/digits.yaml"


def parse_study(arguments: Sequence[str]) -> Any:
    """The namespace of `vit study`; UsageError for anything that does not fit."""
    parser = Parser(
        "study",
        "Train every network on growing parts of DATA's training images, with several seeds, and report who is better "
        "where, with intervals. Run the same command again to go on with a study that was ended.",
        "vit study photos/ --networks vit_tiny_cifar,resnet18_cifar --sizes 100,300,1000,all --seeds 5 "
        "--budget steps:2000",
    )
    parser.add_argument("--config", action=ActionConfigFile, help=f"a study's YAML file, such as {_FILE}")
    parser.add_argument(
        "source", metavar="DATA", type=str | None, nargs="?", default=None, help="as for vit train; null: the recipe's"
    )
    listed = list[str | int] | dict[str, str] | str | int
    parser.add_argument(
        "--networks",
        type=listed,
        default="auto",
        help="names from 'vit models', or recipes; the first is the reference",
    )
    parser.add_argument("--sizes", type=listed, default="10%,30%,100%", help="training images: counts, percent, all")
    parser.add_argument("--seeds", type=listed, default=3, help="how many, or a list of them")
    parser.add_argument("--budget", type=str, default="steps:2000", help="steps:N, epochs:E, or both for the longer")
    parser.add_argument("--data", type=dict[str, Any], default={}, help="--data.root and the like, as for vit train")
    parser.add_argument("--vary", type=dict[str, Any], default={}, help="OPTION=A,B,...: compare values; repeatable")
    parser.add_argument(
        "--tune",
        type=dict[str, Any] | str,
        default={},
        help="OPTION=A,B,... (repeatable), or a YAML file of such: chosen on validation images with the first seed, "
        "for every network and size; x0.3 means 0.3 times the recipe's value",
    )
    parser.add_argument("--set", type=dict[str, Any], default={}, help="OPTION=VALUE for all cells; repeatable")
    parser.add_argument("--jobs", type=int | None, default=None, help="cells at a time; null: one a GPU, or a CPU core")
    parser.add_argument("--shard", type=str, default="1/1", help="I/N: the I-th of N parts, for as many machines")
    parser.add_argument("--dry_run", action="store_true", help="show cells and estimated time, and train nothing")
    parser.add_argument(
        "--target", type=float | str | None, default=None, help="accuracy: how many images would reach it?"
    )
    parser.add_argument("--out", type=str, default="studies", help="folder that study folders are made in")
    parser.add_argument("--name", type=str | None, default=None, help="the study's folder; null: the data's name")
    parser.add_argument(
        "--wandb",
        type=Literal["auto", "online", "offline", "off"],
        default="auto",
        help="a run per cell, all in one group; auto: online where you are logged in, else off",
    )
    given = parse(parser, [*_find_configs(_gather(arguments))])
    given.target = fraction("--target", given.target)
    return given


def _gather(arguments: Sequence[str]) -> list[str]:
    """Put repeated options (--vary A=1,2 --vary B=3) together, as one mapping each."""
    rest: list[str] = []
    found: dict[str, dict[str, Any]] = {name: {} for name in _REPEATED}
    tokens = iter(arguments)
    for token in tokens:
        name, equals, value = token.removeprefix("--").partition("=")
        if not token.startswith("--") or name not in _REPEATED:
            rest.append(token)
            continue
        text = value if equals else next(tokens, "")
        option, equals, values = text.partition("=")
        if not equals and name == "tune" and Path(text).expanduser().is_file():
            rest.append(f"--tune={text}")
        elif not equals or not values:
            raise UsageError(f"--{name} {text}", f"give --{name} OPTION=VALUE{',VALUE' * (name != 'set')}")
        else:
            dotted = SHORT.get(f"--{option}", f"--{option}").removeprefix("--")
            found[name][dotted] = values if name == "set" else values.split(",")
    return [*rest, *(f"--{name}={yaml.safe_dump(values, width=10**6)}" for name, values in found.items() if values)]


def _find_configs(tokens: Sequence[str]) -> list[str]:
    """The same with --config as a path; a shipped study is found by its name."""
    result: list[str] = []
    rest = iter(tokens)
    for token in rest:
        name, equals, value = token.partition("=")
        if name == "--config":
            value = value if equals else next(rest, "")
            value = f"studies/{value}" if f"studies/{value}" in shipped_configs() else value
            result.insert(0, f"--config={find_config(value)}")
        else:
            result.append(token)
    return result


def series_of(given: Any) -> dict[str, dict[str, Recipe]]:
    """What is compared: {name: {tried values: recipe}}."""
    from vit.study.spec import make_series

    parser = make_parser()

    def read(options: Sequence[str]) -> Recipe:
        return to_recipe(parser, parse(parser, options))

    networks = {}
    named = given.networks if isinstance(given.networks, dict) else {word: word for word in _words(given.networks)}
    for label, word in named.items():
        is_recipe = word in shipped_configs() or Path(word).expanduser().suffix in (".yaml", ".yml")
        if not is_recipe and word != "auto":
            check_network(word, [name for name in shipped_configs() if not name.startswith("studies/")])
        networks[str(label)] = [f"--config={find_config(word)}"] if is_recipe else [f"--model.network.name={word}"]
    if not networks:
        raise UsageError("--networks is empty", "give at least one; 'vit models' lists them")
    data = {f"data.{key}": value for key, value in given.data.items()}
    if given.source is not None:
        data["data.source"] = given.source
    mode = given.wandb
    if mode == "auto":
        from vit.training.wandb_login import logged_in

        mode = "online" if logged_in() else "off"
    shared = {**data, **given.set, "wandb": mode}
    tune = given.tune
    if isinstance(tune, str):
        tune = yaml.safe_load(Path(tune).expanduser().read_text(encoding="utf-8"))
    vary, tune = ({key: _words(values) for key, values in grid.items()} for grid in (given.vary, tune or {}))
    series = make_series(networks, shared, vary, tune, read)
    for choices in series.values():
        for recipe in choices.values():
            check_names(recipe)
    sources = {recipe.data.source for choices in series.values() for recipe in choices.values()}
    if len(sources) > 1:
        raise UsageError(f"the recipes name different data: {', '.join(sorted(sources))}", "give DATA")
    return series


def grid_of(given: Any, pool: int) -> tuple["Budget", list[int], list[int]]:
    """The length of a training, the numbers of images out of `pool`, and the seeds."""
    from vit.study import grid

    seeds = _words(given.seeds)
    if not all(seed.isdigit() for seed in seeds) or not seeds or seeds == ["0"]:
        raise UsageError(f"--seeds {given.seeds}", "give how many (5), or a list of them (0,1,2)")
    several = isinstance(given.seeds, list) or len(seeds) > 1
    numbers = sorted({int(seed) for seed in seeds}) if several else list(range(int(seeds[0])))
    return grid.Budget.parse(given.budget), grid.parse_sizes(_words(given.sizes), pool), numbers


def shard_of(text: str) -> tuple[int, int]:
    """ "I/N" as two numbers."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text}", "give I/N with I from 1 to N, such as 2/8")
    return int(found[1]), int(found[2])


def _words(value: Any) -> list[str]:
    """A list from the command line (commas) or from YAML."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return [part.strip() for part in str(value).split(",") if part.strip()]
