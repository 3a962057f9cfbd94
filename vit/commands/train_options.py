"""What `vit train` is asked for: by a command line, or by keyword arguments of Python"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vit.commands.arguments import expand
from vit.commands.recipe_layers import AUTO, Given, given_values
from vit.commands.recipe_options import SHORT, make_parser

PRINT = "--print_config"


@dataclass(frozen=True)
class TrainOptions:
    """What a training is asked for.

    Attributes:
        given: values for the recipe.
        resume: run folder to resume; "auto": the newest unfinished run that fits; None: a new run.
        dry_run: whether only the plan is wanted.
        print_config: whether only the recipe is wanted.
    """

    given: Given
    resume: str | None = None
    dry_run: bool = False
    print_config: bool = False

    @property
    def run(self) -> Path | None:
        """The run folder to resume, where one is named."""
        return None if self.resume in (None, AUTO) else Path(str(self.resume)).expanduser()

    @property
    def names_data(self) -> bool:
        """Whether the training data are named: by an option, a recipe file, or the run to resume."""
        return self.run is not None or self.given.says("data.source")


def read_words(words: Sequence[str]) -> TrainOptions:
    """The options of a command line; `--help` ends the program."""
    parser = make_parser()
    parser.set_defaults({"model.init_from": AUTO})
    expanded = expand(words, SHORT, "data.source")
    configs = [word.partition("=")[2] for word in expanded if word.startswith("--config=")]
    others = [word for word in expanded if word != PRINT and not word.startswith("--config=")]
    values = parser.parse_args(others, defaults=False).as_dict()
    resume, dry_run = values.pop("resume", None), values.pop("dry_run", False)
    return TrainOptions(Given(tuple(configs), values), resume, dry_run, PRINT in expanded)


def read_values(configs: Sequence[str], values: Mapping[str, object]) -> TrainOptions:
    """The options of keyword arguments of Python."""
    return TrainOptions(given_values(configs, values))
