"""The options of `vit study`: networks to compare, numbers of images, seeds, length, and a part of the cells"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import yaml
from jsonargparse import ActionConfigFile

from vit.checkpoints.model_path import check_weights
from vit.commands.arguments import StrPath, fraction, with_dry_run
from vit.commands.configs import find_config, shipped_configs
from vit.commands.executor_options import EXECUTOR_OPTIONS, ExecutorOptions, add_executor_options
from vit.commands.parser import Parser
from vit.commands.recipe_options import SHORT
from vit.errors import UsageError
from vit.plain_files import parse_yaml, read_text
from vit.training.recipes.ranges import seconds
from vit.training.recipes.values import plain_values

AUTO: Final = "auto"  # as networks, sizes, seeds, budget and time
_REPEATED = ("vary", "tune", "set")
_FILES = "init_from"  # repeatable as well: a list
_RANKING = "optim.best_metric"
_TUNE_LINES = "give a line 'OPTION: [A, B]' for each"
_FILE = "configs/studies/digits.yaml"
_ABOUT = (
    "Train every network on growing parts of DATA's training images, with several seeds. Report which network is "
    "better at which number of images, with intervals. Run the same command again to continue a study that has ended "
    "early."
)
_EXAMPLE = "vit study photos/ --seeds 5"
Value = bool | int | float | str | list[int | float | str | bool] | None
Words = list[str | int] | str | int  # a list, or its items with commas between them


@dataclass(frozen=True)
class StudyOptions(ExecutorOptions):
    """The options of a study, beside those that say where its cells run.

    Attributes:
        source: DATA as for vit train; null: the data of the recipes.
        networks: names from 'vit models', or recipes; the first is the reference. In a file with names of your own, and
            with options of one network: "digits --optim.lr=0.01". auto: a ViT and a CNN for the images; the ViT alone
            with vary, and where set or tune is about networks. They begin as in vit train: with photographs from
            published weights where these are available.
        init_from: file or name of weights to start from, as for vit train; repeatable, in the order of networks.
            Networks that are auto are those of the files.
        init: auto: photographs start from published weights, and without these nothing starts. random: two small
            networks at 64 pixels start from random weights.
        pairs: number of pairs of a ViT and a CNN, where networks is auto and the weights are published: 1 or 2.
        sizes: numbers of training images: counts, percentages, all. auto: up to four in equal ratios, from a tenth of
            the images, but two of each class, to all, as the time allows.
        seeds: number of seeds, or a list of seeds. auto: two to five at each size, as the time allows.
        budget: length of each training: steps:N, epochs:E, both with a comma for the longer, steps:N@M^G for
            N (images / M)^G steps, or recipe for that of each recipe. auto: a length that suits the start of the
            networks, or a part of it where the time allows no more.
        time: time of the whole study (30min, 2h), which sizes, seeds and budget follow where they are auto. auto: 30min
            on a CPU, 20min with at most 500 training images, 15min with a GPU. On a cluster there is none.
        yes: whether a study may start that takes more than an hour by its estimate.
        data: options of data, such as --data.root, as for vit train.
        vary: OPTION=A,B,...: values to compare; repeatable.
        tune: OPTION=A,B,... (repeatable), or a YAML file of such options. For each network and size each seed chooses a
            value for itself, on validation images. x0.3 means 0.3 times the recipe's value, rounded where that is a
            whole number.
        set: OPTION=VALUE for all cells; repeatable.
        shard: I/N: the I-th of N parts of the cells, for several machines.
        dry_run: whether to show cells and estimated time, and train nothing.
        target: accuracy; the report estimates the number of images that reaches this accuracy.
        margin: errors that differ by less count as equal, such as 0.01; null: 0.02.
        out: parent folder of study folders.
        name: name of the study's folder; null: the data's name.
        tracker: trackers of each cell and of the tables, with commas: wandb, tensorboard, mlflow; null: wandb.
        wandb: Weights & Biases run for each cell, all in one group; auto: online where you are logged in, else off, or
            offline where tracker names wandb.
        config_name: name of the study's YAML file; null: no file.
    """

    source: str | None = None
    networks: Words | dict[str, str] = AUTO
    init_from: list[str] = field(default_factory=list)
    init: Literal["auto", "random"] = AUTO
    pairs: Literal[1, 2] = 1
    sizes: Words = AUTO
    seeds: Words = AUTO
    budget: str = AUTO
    time: str = AUTO
    yes: bool = False
    data: dict[str, Value] = field(default_factory=dict)
    vary: dict[str, Value] = field(default_factory=dict)
    tune: dict[str, Value] | str = field(default_factory=dict)
    set: dict[str, Value] = field(default_factory=dict)
    shard: str = "1/1"
    dry_run: bool = False
    target: float | str | None = None
    margin: float | str | None = None
    out: str = "studies"
    name: str | None = None
    tracker: str | None = None
    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    config_name: str | None = None

    @property
    def accuracy(self) -> float | None:
        """The target as a fraction; UsageError for another number."""
        return fraction("--target", self.target)

    @property
    def least_difference(self) -> float | None:
        """The margin as a fraction; UsageError for another number."""
        return fraction("--margin", self.margin)

    @property
    def is_by_time(self) -> bool:
        """Whether the time decides sizes, seeds or the length: of one machine, where something is left to decide."""
        alone = self.executor == "local" and self.part == (1, 1)
        return alone and (self.time != AUTO or AUTO in (self.sizes, self.seeds))

    @property
    def seconds(self) -> float | None:
        """The time of the study; None: none is given. UsageError where it is wrong, or decides nothing."""
        if self.time == AUTO:
            return None
        if self.executor != "local" or self.part != (1, 1):
            raise UsageError(f"--time {self.time} on several machines", "give --sizes, --seeds and --budget instead")
        if AUTO not in (self.sizes, self.seeds, self.budget):
            raise UsageError(f"--time {self.time} with --sizes, --seeds and --budget", "leave one of them out")
        return seconds(self.time, "--time")

    @property
    def part(self) -> tuple[int, int]:
        """The shard as (number of the part, number of parts)."""
        found = re.fullmatch(r"(\d+)/(\d+)", self.shard)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(f"--shard {self.shard}", "give I/N with I from 1 to N, such as 2/8")
        return int(found[1]), int(found[2])

    def seed_list(self) -> list[int]:
        """The seeds: those of a list, or as many as a number says; the most that a time may choose where they are auto.

        Raises:
            UsageError: they are neither.
        """
        from vit.study.design import MOST_SEEDS

        seeds = [str(MOST_SEEDS)] if self.seeds == AUTO else items(self.seeds)
        if not all(seed.isdigit() for seed in seeds) or not seeds or seeds == ["0"]:
            raise UsageError(f"--seeds {self.seeds}", "give how many (5), or a list of them (0,1,2)")
        several = isinstance(self.seeds, list) or len(seeds) > 1
        return sorted({int(seed) for seed in seeds}) if several else list(range(int(seeds[0])))


def make_parser() -> Parser:
    """The parser of `vit study`, which also checks the files of studies."""
    parser = Parser("study", _ABOUT, _EXAMPLE)
    parser.add_argument("--config", action=ActionConfigFile, help=f"YAML file of a study, such as {_FILE}")
    about = "as for vit train; null: the data of the recipes"
    parser.add_argument("source", metavar="DATA", type=str | None, nargs="?", default=None, help=about)
    parser.add_class_arguments(StudyOptions, None, skip={"source", "config_name", *EXECUTOR_OPTIONS})
    add_executor_options(parser)
    return parser


def read_words(words: Sequence[str]) -> StudyOptions:
    """The options of a command line; UsageError for a wrong option, `--help` ends the program."""
    tokens, configs = _find_configs(_gather(with_dry_run(words)))
    values = make_parser().values([*(f"--config={path}" for path in configs), *tokens])
    values.pop("config")
    return _checked(StudyOptions(**values, config_name=configs[-1].stem if configs else None))


def read_values(data: StrPath | None, config: StrPath | None, values: Mapping[str, object]) -> StudyOptions:
    """The options of keyword arguments of Python; UsageError for an unknown name or a wrong value."""
    parser = make_parser()
    path = None if config is None else _study_file(os.fspath(config))
    whole = {} if path is None else parser.parse_path(str(path), defaults=False).as_dict()
    for name, value in values.items():
        if name.startswith("data."):
            whole["data"] = {**whole.get("data", {}), name.removeprefix("data."): value}
        elif name not in StudyOptions.__dataclass_fields__:
            parser.error(f"unrecognized arguments: --{name}")
        else:
            whole[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
    if data is not None:
        whole["source"] = os.fspath(data)
    found = plain_values(dict(vars(parser.instantiate(parser.parse_object(whole)))))
    found.pop("config")
    return _checked(StudyOptions(**found, config_name=None if path is None else path.stem))


def items(value: object) -> list[str]:
    """The words of a list, which has commas on the command line and is a list in YAML."""
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return [part.strip() for part in str(value).split(",") if part.strip()]


def _checked(options: StudyOptions) -> StudyOptions:
    """The same options with short flags written out in `vary`, `tune` and `set`; UsageError for a wrong value."""
    _, _, _, _ = options.accuracy, options.least_difference, options.part, options.seconds
    options.check(options.dry_run)
    for file in options.init_from:
        check_weights(file)
    if options.init_from and options.init == "random":
        raise UsageError("--init random with --init_from, which names weights", "leave one out")
    for name in {"tracker", "wandb"} & options.set.keys():
        raise UsageError(f"--set {name}=...", f"give --{name}, which holds for all cells")
    tune = options.tune
    if isinstance(tune, str):
        tune = _tune_file(tune)
    tuned = _dotted(tune)
    if _RANKING in tuned:
        raise UsageError(
            f"--tune {_RANKING}: tuning chooses by this metric, and values of different metrics cannot be ranked",
            f"give one with --set {_RANKING}=..., or compare several with --vary",
        )
    return replace(options, vary=_dotted(options.vary), tune=tuned, set=_dotted(options.set))


def _tune_file(name: str) -> dict[str, Value]:
    """The options of --tune FILE; UsageError for another file than a mapping."""
    path = find_config(name)
    try:
        found = parse_yaml(read_text(path))
    except ValueError as error:
        raise UsageError(f"--tune {path} cannot be read: {' '.join(str(error).split())}", _TUNE_LINES) from error
    if not isinstance(found, dict):
        raise UsageError(f"--tune {path} holds no options", _TUNE_LINES)
    return {str(key): value for key, value in found.items()}


def _dotted(values: Mapping[str, Value]) -> dict[str, Value]:
    return {SHORT.get(f"--{name}", f"--{name}").removeprefix("--"): value for name, value in values.items()}


def _gather(words: Sequence[str]) -> list[str]:
    """Put repeated options (--vary A=1,2 --vary B=3) together, as one mapping each."""
    rest: list[str] = []
    found: dict[str, dict[str, str | list[str]]] = {name: {} for name in _REPEATED}
    files: list[str] = []
    tokens = iter(words)
    for token in tokens:
        name, equals, value = token.removeprefix("--").partition("=")
        if token.startswith("--") and name == _FILES:
            files.append(value if equals else next(tokens, ""))
            continue
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
            found[name][option] = values if name == "set" else values.split(",")
    rest += [f"--{_FILES}={json.dumps(files)}"] if files else []
    return [*rest, *(f"--{name}={yaml.safe_dump(values, width=10**6)}" for name, values in found.items() if values)]


def _find_configs(tokens: Sequence[str]) -> tuple[list[str], list[Path]]:
    """(tokens without --config, files of --config)."""
    others: list[str] = []
    configs: list[Path] = []
    rest = iter(tokens)
    for token in rest:
        name, equals, value = token.partition("=")
        if name == "--config":
            configs.append(_study_file(value if equals else next(rest, "")))
        else:
            others.append(token)
    return others, configs


def _study_file(name: str) -> Path:
    """The file of --config: a path, or the name of a shipped study."""
    return find_config(f"studies/{name}" if f"studies/{name}" in shipped_configs() else name)
