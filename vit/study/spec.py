"""What a study compares, from the words of its command line or file: networks, varied values, values to tune."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vit.errors import UsageError
from vit.training.recipe import Recipe
from vit.training.recipe_values import plain

Grid = Mapping[str, Sequence[Any]]
Reader = Callable[[Sequence[str]], Recipe]
_FACTOR = re.compile(r"x(\d+(\.\d+)?)")


def make_series(
    networks: Mapping[str, Sequence[str]], shared: Mapping[str, Any], vary: Grid, tune: Grid, read: Reader
) -> dict[str, dict[str, Recipe]]:
    """{series: {choice: recipe}}: every network with every combination of the varied values, and of those to tune.

    A series is named by what tells it from the others: its network, its varied values, or both.

    Args:
        networks: {name: the options that make its recipe}.
        shared: options that all have in common, by dotted name.
        vary: {dotted option: values} that are compared.
        tune: {dotted option: values} that are chosen among on validation images; "x0.3" means 0.3 times the recipe's.
        read: makes a recipe of options as they stand on the command line of `vit train`.
    """
    series: dict[str, dict[str, Recipe]] = {}
    for name, beginning in networks.items():
        for varied in _combinations(vary):
            options = [*beginning, *_options(shared), *_options(varied)]
            values = ", ".join(_word(option, value) for option, value in varied.items())
            label = f"{name} ({values})" if values and len(networks) > 1 else values or name
            choices: dict[str, Recipe] = {}
            for tried in _combinations(tune):
                scaled = _scaled(tried, read(options)) if tried else {}
                choice = ", ".join(_word(option, value) for option, value in scaled.items())
                choices[choice] = read([*options, *_options(scaled)])
            series[label] = choices
    return series


def _combinations(grid: Grid) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _options(values: Mapping[str, Any]) -> list[str]:
    return [f"--{option}={_text(value)}" for option, value in values.items()]


def _word(option: str, value: object) -> str:
    return f"{option.rpartition('.')[2]}={_text(value)}"


def _text(value: object) -> str:
    """A value as the command line takes it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scaled(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The same values with factors multiplied out."""
    result: dict[str, Any] = {}
    for option, value in values.items():
        factor = _FACTOR.fullmatch(str(value))
        if factor is None:
            result[option] = value
            continue
        own: Any = plain(recipe)
        for part in option.split("."):
            own = own.get(part) if isinstance(own, dict) else None
        if not isinstance(own, int | float) or isinstance(own, bool):
            raise UsageError(f"tuning {option} by the factor {value}: the recipe has no number there", "give values")
        result[option] = float(f"{own * float(factor[1]):.6g}")
    return result
