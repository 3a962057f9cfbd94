"""The recipes of a study: networks, varied values, values to tune, and files that each cell has of its own"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path

from vit.errors import DAMAGE, UsageError, explained
from vit.study.findings import JsonValue
from vit.training.recipes.recipe import DistillConfig, Recipe
from vit.training.recipes.values import plain

Grid = Mapping[str, Sequence[JsonValue]]
Reader = Callable[[Sequence[str]], Recipe]
_NETWORK = "model.network."
_FACTOR = re.compile(r"x(\d+(\.\d+)?)")


def make_series(
    networks: Mapping[str, Sequence[str]], shared: Mapping[str, JsonValue], vary: Grid, tune: Grid, read: Reader
) -> dict[str, dict[str, Recipe]]:
    """{series: {choice: recipe}}: every network with every combination of the varied values, and of those to tune.

    The name of a series is its network, its varied values, or both, as far as they differ between series. UsageError
    where two series have one name, because a value is varied twice.

    Args:
        shared: {dotted option: value} of all networks.
        vary: {dotted option: values} to compare.
        tune: {dotted option: values} to choose from on validation images; "x0.3" means 0.3 times the recipe's value,
            rounded where that is a whole number.
        read: function from options of the command line of `vit train` to a recipe.
    """
    series: dict[str, dict[str, Recipe]] = {}
    for name, beginning in networks.items():
        for varied in _combinations(vary):
            options = [*beginning, *option_words(shared), *option_words(varied)]
            values = ", ".join(_word(option, value) for option, value in varied.items())
            label = f"{name} ({values})" if values and len(networks) > 1 else values or name
            choices: dict[str, Recipe] = {}
            for tried in _combinations(tune):
                scaled = _scaled(tried, read(options)) if tried else {}
                choice = ", ".join(_word(option, value) for option, value in scaled.items())
                choices[choice] = read([*options, *option_words(scaled)])
            if label in series:
                raise UsageError(f"two series are {label}", "leave one out")
            series[label] = choices
    return series


def _combinations(grid: Grid) -> list[dict[str, JsonValue]]:
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def option_words(values: Mapping[str, JsonValue]) -> list[str]:
    """Words of a command line for {dotted option: value}."""
    return [f"--{option}={_text(value)}" for option, value in values.items()]


def _word(option: str, value: object) -> str:
    return f"{option.rpartition('.')[2]}={_text(value)}"


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_factor(value: JsonValue) -> bool:
    """Whether a value to tune is a factor of the recipe's value, such as x0.3."""
    return _FACTOR.fullmatch(str(value)) is not None


def _scaled(values: Mapping[str, JsonValue], recipe: Recipe) -> dict[str, JsonValue]:
    """The same values, with each factor multiplied by the recipe's value; whole numbers stay whole and at least 1."""
    result: dict[str, JsonValue] = {}
    for option, value in values.items():
        factor = _FACTOR.fullmatch(str(value))
        if factor is None:
            result[option] = value
            continue
        current: object = plain(recipe)
        for part in option.split("."):
            current = current.get(part) if isinstance(current, dict) else None
        if not isinstance(current, int | float) or isinstance(current, bool):
            raise UsageError(f"tuning {option} by the factor {value}: the recipe has no number there", "give values")
        result[option] = _product(current, float(factor[1]), option.startswith(_NETWORK))
    return result


def _product(value: float, factor: float, is_of_network: bool) -> float:
    """A number of the recipe times a factor. A whole number becomes the nearest, at least 1: its option takes no other.

    A value of a network may be written as a whole number where others are allowed (mlp_ratio 4). It is not rounded.
    """
    scaled = float(f"{value * factor:.6g}")
    if not isinstance(value, int) or (is_of_network and not scaled.is_integer()):
        return scaled
    return max(min(1, value), math.floor(scaled + 0.5))


def has_weights_pattern(recipe: Recipe) -> bool:
    """Whether the weights to start from depend on the cell."""
    return _is_pattern(recipe.model.init_from)


def without_cell_files(recipe: Recipe) -> Recipe:
    """The recipe without the weights and the teacher that depend on the cell, nor options that need such weights."""
    if has_weights_pattern(recipe):
        recipe = replace(recipe, model=replace(recipe.model, init_from=None, freeze="none", lora=None))
    return replace(recipe, distill=DistillConfig()) if _is_pattern(recipe.distill.teacher) else recipe


def with_cell_files(recipe: Recipe, num_images: int, seed: int) -> Recipe:
    """The recipe with the weights and the teacher of a cell: each seed can have its own.

    {images} and {seed} in their names stand for those of the cell, with a format as in Python: {images:07d}. A * stands
    for any text. UsageError where a name is wrong, or does not stand for exactly one file or folder.
    """

    def of_cell(option: str, name: str | None, fix: str) -> str | None:
        if name is None or not _is_pattern(name):
            return name
        with explained(UsageError, f"{option} {name}", "only {images} and {seed} may stand in a name", DAMAGE):
            path = str(Path(name.format(images=num_images, seed=seed)).expanduser())
        paths = sorted(glob(path)) if has_magic(path) else [path]
        if len(paths) != 1:
            problem = f"{option} {path} stands for {len(paths):,} files or folders, not for one"
            raise UsageError(problem, f"{fix}, one for each number of images and seed")
        return paths[0]

    start = of_cell("model.init_from", recipe.model.init_from, "pretrain first")
    teacher = of_cell("distill.teacher", recipe.distill.teacher, "train the teachers first")
    model, distill = replace(recipe.model, init_from=start), replace(recipe.distill, teacher=teacher)
    return replace(recipe, model=model, distill=distill)


def _is_pattern(name: str | None) -> bool:
    return name is not None and ("{" in name or has_magic(name)) and not Path(name).expanduser().exists()
