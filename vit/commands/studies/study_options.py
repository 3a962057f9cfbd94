"""The options of `vit study`: networks to compare, numbers of images, seeds, length, and a part of the cells"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from vit.checkpoints.model_path import check_weights
from vit.commands.cli.arguments import EXECUTOR_OPTIONS, ExecutorOptions, StrPath
from vit.commands.cli.command_line import SCHEMA, Parser
from vit.commands.cli.recipe_options import SHORT, find_config, read_config, shipped_configs
from vit.commands.cli.recipe_options import make_parser as make_recipe_parser
from vit.errors import UsageError
from vit.options import Option, options_of
from vit.ranges import Fraction, seconds

MOST_NUMBERED: Final = 1_000  # seeds that a number asks for, which is more than any study needs
AUTO: Final = "auto"  # as networks, sizes, seeds, budget and time
_REPEATED = ("vary", "tune", "set")
_JOINED = ("data", "cluster", *_REPEATED)  # mappings, which keep what files say of other options
_ABOUT = (
    "Train every network on growing parts of DATA's training images, with several seeds. Report which network is "
    "better at which number of images, with intervals. Run the same command again to continue a study that has ended "
    "early."
)
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
        time: time of the whole study (30min, 2h), which sizes, seeds and budget follow where they are auto. auto: 15min
            with a GPU; else 20min with at most 500 training images, 30min to 1,500, 1h with more. A cluster: none.
        yes: whether a study may start that takes more than an hour by its estimate.
        data: options of data, such as --data.root, as for vit train.
        vary: OPTION=A,B,...: values to compare; repeatable.
        tune: OPTION=A,B,...; repeatable. For each network and size each seed chooses a value for itself, on validation
            images. x0.3 means 0.3 times the recipe's value, rounded where that is a whole number.
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
    tune: dict[str, Value] = field(default_factory=dict)
    set: dict[str, Value] = field(default_factory=dict)
    shard: str = "1/1"
    dry_run: bool = False
    target: Fraction | None = None
    margin: Fraction | None = None
    out: str = "studies"
    name: str | None = None
    tracker: str | None = None
    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    config_name: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether no option chooses a network or its initial weights, beside --init_from."""
        beginnings, named = ("model.network", "model.init_from"), (*self.set, *self.tune, *self.vary)
        return self.networks == AUTO and not any(name.startswith(beginnings) for name in named)

    @property
    def compares_both(self) -> bool:
        """Whether an open study compares a ViT and a CNN: it compares no values, and sets none that suits one alone."""
        named = [name for name in (*self.set, *self.tune) if not name.startswith("model.preprocess.")]
        return not self.vary and not any(name.startswith(("model.", "distill.")) for name in named)

    @property
    def is_alone(self) -> bool:
        """Whether this machine trains all cells."""
        return self.executor == "local" and self.part == (1, 1)

    @property
    def is_by_time(self) -> bool:
        """Whether the time decides sizes, seeds or the length: of one machine, where something is left to decide."""
        return self.is_alone and (self.time != AUTO or AUTO in (self.sizes, self.seeds))

    @property
    def seconds(self) -> float | None:
        """The time of the study; None: none is given. UsageError where it is wrong, or decides nothing."""
        if self.time == AUTO:
            return None
        if not self.is_alone:
            raise UsageError(f"--time {self.time} on several machines", "give --sizes, --seeds and --budget instead")
        if AUTO not in (self.sizes, self.seeds, self.budget):
            raise UsageError(f"--time {self.time} with --sizes, --seeds and --budget", "leave one of them out")
        return seconds(self.time, "--time")

    @property
    def part(self) -> tuple[int, int]:
        """The shard as (number of the part, number of parts)."""
        parts = re.fullmatch(r"(\d+)/(\d+)", self.shard)
        if parts is None or not 1 <= int(parts[1]) <= int(parts[2]):
            raise UsageError(f"--shard {self.shard}", "give I/N with I from 1 to N, such as 2/8")
        return int(parts[1]), int(parts[2])

    def seed_list(self) -> list[int]:
        """The seeds: those of a list, or as many as a number says; auto: the most that a time may choose."""
        from vit.study.design import MOST_SEEDS

        seeds = [str(MOST_SEEDS)] if self.seeds == AUTO else items(self.seeds)
        if not all(seed.isdecimal() for seed in seeds) or not seeds or seeds == ["0"]:
            raise UsageError(f"--seeds {self.seeds}", "give how many (5), or a list of them (0,1,2)")
        if isinstance(self.seeds, list) or len(seeds) > 1:
            return sorted({int(seed) for seed in seeds})
        if int(seeds[0]) > MOST_NUMBERED:
            raise UsageError(f"--seeds {self.seeds}", f"give at most {MOST_NUMBERED:,}, or a list of seeds (0,1,2)")
        return list(range(int(seeds[0])))


def make_parser() -> Parser:
    """The parser of `vit study`, which also checks the files of studies."""
    data = Option("source", str | None, "as for vit train; null: the data of the recipes", None, "DATA", True)
    about = "YAML file of a study, such as configs/studies/digits.yaml, or the name of a shipped study"
    config = Option("config", str, about, None, takes_several=True)
    options = [option for option in options_of(StudyOptions) if option.name not in ("source", "config_name")]
    options.sort(key=lambda option: option.name in EXECUTOR_OPTIONS)
    short = {flag: SHORT[flag] for flag in ("--image_column", "--label_column")}
    return Parser("study", _ABOUT, "vit study photos/ --seeds 5", (data, config, *options), short)


def read_words(words: Sequence[str]) -> StudyOptions:
    """The options of a command line; UsageError for a wrong option, `--help` ends the program."""
    parser = make_parser()
    if SCHEMA in words:
        parser.read_words([SCHEMA])  # of files, where the repeated options are mappings
    repeated = {name: {"kind": str, "takes_several": True} for name in (*_REPEATED, "init_from")}
    values = parser.changed(repeated).read_words(words)
    for name in (name for name in _REPEATED if name in values):  # --vary A=1,2 --vary B=3
        assigned: dict[str, str | list[str]] = {}
        for text in values[name]:
            option, _, value = text.partition("=")
            if not value:
                raise UsageError(f"--{name} {text}", f"give --{name} OPTION=VALUE{',VALUE' * (name != 'set')}")
            assigned[option] = value if name == "set" else value.split(",")
        values[name] = assigned
    return _options(parser, values.pop("config", []), values)


def read_values(
    data: StrPath | None, config: StrPath | Sequence[StrPath] | None, values: Mapping[str, object]
) -> StudyOptions:
    """The options of keyword arguments of Python; UsageError for an unknown name or a wrong value."""
    parser, of_function = make_parser(), {"source": data, "config": config}
    by_name = {**values, **{name: value for name, value in of_function.items() if value is not None}}
    checked = parser.read_values(by_name)
    return _options(parser, checked.pop("config", []), checked)


def _options(parser: Parser, configs: Sequence[str], values: Mapping[str, Any]) -> StudyOptions:
    """The options of study files, a later one above an earlier one, and of values above all files."""
    files, name = list[Mapping[str, Any]](), None
    for config in configs:
        shipped = f"studies/{config}"
        found = shipped if shipped in shipped_configs() else config
        name, files = find_config(found).stem, [*files, read_config(found, parser)]
    whole: dict[str, Any] = {}
    for layer in (*files, values):
        whole |= {key: {**whole.get(key, {}), **one} if key in _JOINED else one for key, one in layer.items()}
    return _checked(StudyOptions(**whole, config_name=name))


def items(value: object) -> list[str]:
    """The words of a list, which has commas on the command line and is a list in YAML."""
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return [part.strip() for part in str(value).split(",") if part.strip()]


def _checked(options: StudyOptions) -> StudyOptions:
    """The same options with short flags written out in `vary`, `tune` and `set`; UsageError for a wrong value."""
    _, _ = options.part, options.seconds
    options.check(options.dry_run)
    for file in options.init_from:
        check_weights(file)
    if options.init_from and options.init == "random":
        raise UsageError("--init random with --init_from, which names weights", "leave one out")
    options = replace(options, vary=_dotted(options.vary), tune=_dotted(options.tune), set=_dotted(options.set))
    if options.pairs == 2 and (options.init_from or not options.compares_both or not options.is_open):
        fix = "leave it out, or leave out --networks, --init_from and options of networks"
        raise UsageError("--pairs 2 is for networks that the study chooses", fix)
    known = make_recipe_parser()
    for name in (*options.set, *options.vary, *options.tune, *(f"data.{key}" for key in options.data)):
        if known.find(name) is None:
            raise known.unknown(f"--{name}")
    if "optim.best_metric" in options.tune:
        problem = "--tune optim.best_metric: tuning chooses by this metric, and different metrics cannot be ranked"
        raise UsageError(problem, "give one with --set optim.best_metric=..., or compare several with --vary")
    return options


def _dotted(values: Mapping[str, Value]) -> dict[str, Value]:
    return {SHORT.get(f"--{name}", f"--{name}").removeprefix("--"): value for name, value in values.items()}
