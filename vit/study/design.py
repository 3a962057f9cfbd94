"""The design of a study: the recipes of its series, and how many seeds of which sizes fit into a given time

The largest size comes first, because its answer is the one that counts, and two seeds are the least that have an
interval. Smaller sizes follow for the curve, and then more seeds from the largest size on: the interval narrows most
from the second seed to the third, where Student's quantile falls from 12.7 to 4.3, and little after the fifth. A
training is shortened only where two seeds at the two largest sizes do not fit otherwise.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from vit.errors import UsageError
from vit.study.findings import JsonValue
from vit.training.planning.schedule import choose_schedule
from vit.training.recipes.recipe import DistillConfig, Recipe
from vit.training.recipes.values import plain

if TYPE_CHECKING:
    from vit.study.running.runner import MachineShare

Grid = Mapping[str, Sequence[JsonValue]]
Reader = Callable[[Sequence[str]], Recipe]
_NETWORK = "model.network."
_FACTOR = re.compile(r"x(\d+(\.\d+)?)")
LEAST_SEEDS, MOST_SEEDS = 2, 5
HALF = 0.5  # of the usual length: it is shortened so far for a third seed at the largest size
PARTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)  # of the usual length
SEED_LIKE_SIZES = 1.5  # one more seed at a size is worth as much as a size that is so many places smaller
Rung = tuple[int, int]  # size, and its number of seeds
CostOf = Callable[[int, float], float]  # (size, part of the length) -> seconds of one seed, all networks


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
            options = [*beginning, *_options(shared), *_options(varied)]
            values = ", ".join(_word(option, value) for option, value in varied.items())
            label = f"{name} ({values})" if values and len(networks) > 1 else values or name
            choices: dict[str, Recipe] = {}
            for tried in _combinations(tune):
                scaled = _scaled(tried, read(options)) if tried else {}
                choice = ", ".join(_word(option, value) for option, value in scaled.items())
                choices[choice] = read([*options, *_options(scaled)])
            if label in series:
                raise UsageError(f"two series are {label}", "leave one out")
            series[label] = choices
    return series


def _combinations(grid: Grid) -> list[dict[str, JsonValue]]:
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _options(values: Mapping[str, JsonValue]) -> list[str]:
    return [f"--{option}={_text(value)}" for option, value in values.items()]


def _word(option: str, value: object) -> str:
    return f"{option.rpartition('.')[2]}={_text(value)}"


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scaled(values: Mapping[str, JsonValue], recipe: Recipe) -> dict[str, JsonValue]:
    """The same values, with each factor multiplied by the recipe's value; whole numbers stay whole and at least 1."""
    result: dict[str, JsonValue] = {}
    for option, value in values.items():
        factor = _FACTOR.fullmatch(str(value))
        if factor is None:
            result[option] = value
            continue
        own: object = plain(recipe)
        for part in option.split("."):
            own = own.get(part) if isinstance(own, dict) else None
        if not isinstance(own, int | float) or isinstance(own, bool):
            raise UsageError(f"tuning {option} by the factor {value}: the recipe has no number there", "give values")
        result[option] = _product(own, float(factor[1]), option.startswith(_NETWORK))
    return result


def _product(own: float, factor: float, is_of_network: bool) -> float:
    """A number of the recipe times a factor. A whole number becomes the nearest, at least 1: its option takes no other.

    A value of a network may be written as a whole number where others are allowed (mlp_ratio 4). It is not rounded.
    """
    scaled = float(f"{own * factor:.6g}")
    if not isinstance(own, int) or (is_of_network and not scaled.is_integer()):
        return scaled
    return max(min(1, own), math.floor(scaled + 0.5))


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
        try:
            path = str(Path(name.format(images=num_images, seed=seed)).expanduser())
        except (ValueError, LookupError, AttributeError) as error:
            raise UsageError(f"{option} {name}: {error}", "only {images} and {seed} may stand in a name") from error
        found = sorted(glob(path)) if has_magic(path) else [path]
        if len(found) != 1:
            raise UsageError(
                f"{option} {path} stands for {len(found)} files or folders, not for one",
                f"{fix}, one for each number of images and seed",
            )
        return found[0]

    start = of_cell("model.init_from", recipe.model.init_from, "pretrain first")
    teacher = of_cell("distill.teacher", recipe.distill.teacher, "train the teachers first")
    model, distill = replace(recipe.model, init_from=start), replace(recipe.distill, teacher=teacher)
    return replace(recipe, model=model, distill=distill)


def _is_pattern(name: str | None) -> bool:
    return name is not None and ("{" in name or has_magic(name)) and not Path(name).expanduser().exists()


@dataclass(frozen=True)
class Design:
    """What a time allows."""

    seeds: Mapping[int, int]  # {size: number of seeds}
    part: float
    seconds: float
    order: Sequence[Rung]  # the rungs in their order; cells run in this order
    left: Sequence[int] = ()  # sizes that do not fit, ascending
    gain: Rung | None = None  # the next rung, which more time would buy; None: nothing is left to buy
    gain_seconds: float = 0.0

    def more(self) -> str:
        """What more time would buy, in words; empty: nothing."""
        if self.gain is None:
            return ""
        size, seeds = self.gain
        return f"{size:,} images" if size not in self.seeds else f"seed {seeds} at {size:,} images"


def choose_design(
    sizes: Sequence[int],
    cost: CostOf,
    seconds: float,
    seeds: int | None = None,
    kept: Mapping[int, int] | None = None,
    parts: Sequence[float] = PARTS,
    num_first: int = 2,
    keeps_first: bool = False,
) -> Design:
    """The design for a time. The least seeds at the smallest size are in it, whatever they take.

    Args:
        cost: as `CostOf`: of all cores together, so that a size and a seed add up.
        seeds: number of seeds of every size; None: as many as fit, from 2 to 5.
        kept: {size: seeds} that a study has already, which cost nothing.
        parts: parts of the usual length that may be taken, descending: the largest with which the first rungs fit.
        keeps_first: whether the first `num_first` rungs stay where they do not fit.
    """
    down = sorted(sizes, reverse=True)
    worth = {  # sizes descend, and a further seed is worth `SEED_LIKE_SIZES` sizes
        (size, count): place + SEED_LIKE_SIZES * (count - LEAST_SEEDS)
        for place, size in enumerate(down)
        for count in range(LEAST_SEEDS, MOST_SEEDS + 1)
    }
    rungs = sorted(worth, key=lambda rung: worth[rung]) if seeds is None else [(size, seeds) for size in down]
    first = sorted(rungs, key=lambda rung: rung[1])[:num_first]
    taken = dict(kept or {})

    def price(part: float, *wanted: Rung) -> float:
        return sum((count - taken.get(size, 0)) * cost(size, part) for size, count in wanted)

    three = [(down[0], 3), *first[1:]]
    better = [part for part in parts if seeds is None and part >= HALF and price(part, *three) <= seconds]
    part, *_ = better or [part for part in parts if price(part, *first) <= seconds] or parts[-1:]
    spent, order, passed = 0.0, list[Rung](), list[Rung]()

    def take(rung: Rung) -> None:
        nonlocal spent
        spent += price(part, rung)
        taken[rung[0]] = rung[1]
        order.append(rung)

    for rung in rungs:
        if taken.get(rung[0], 0) >= rung[1]:
            continue
        is_closed = any(rung[0] == size for size, _ in passed)  # seeds of a size are taken in their order
        fits = spent + price(part, rung) <= seconds or (keeps_first and rung in first)
        if fits and not is_closed:
            take(rung)
        else:
            passed.append(rung)
    if not taken:
        least = (down[-1], rungs[0][1])
        take(least)
        passed.remove(least)
    gain = next((rung for rung in passed if rung[1] > taken.get(rung[0], 0)), None)
    left = [size for size in sorted(sizes) if size not in taken]
    return Design(taken, part, spent, order, left, gain, spent + (price(part, gain) if gain else 0.0))


def seeds_of_protocol(seeds: Mapping[int, Sequence[int]]) -> dict[str, JsonValue]:
    """What a protocol says of sizes and seeds: the seeds of every size, and their numbers where these differ."""
    common = sorted(set.intersection(*map(set, seeds.values()))) if seeds else []
    differ = len({*map(len, seeds.values())}) > 1
    numbers: dict[str, JsonValue] = {f"{size:,} images": len(seeds[size]) for size in sorted(seeds)}
    return {"sizes": sorted(seeds), "seeds": common, **({"numbers of seeds": numbers} if differ else {})}


@dataclass(frozen=True)
class StudyPace:
    """How fast the networks of a study are on this machine, with as many trainings at a time as the study has."""

    # {series: (seconds of a step, images of this step, seconds of scoring an image)}
    of_series: Mapping[str, tuple[float, int, float]]
    num_images: Mapping[str, int]
    slots: int  # number of cells that run at full speed at a time

    @classmethod
    def measured(
        cls, largest: Mapping[str, Recipe], machine: "MachineShare", num_images: Mapping[str, int], is_here: bool = True
    ) -> "StudyPace":
        """Time a step of every network, several at a time as in the study, with recipes of the largest size."""
        from vit.data.loading.threads import available_cores
        from vit.study.running.runner import time_network

        slots = min(machine.jobs, available_cores()) if is_here and not machine.gpus else machine.jobs
        with ThreadPoolExecutor(slots) as pool:
            timed = list(pool.map(lambda recipe: time_network(recipe, machine), largest.values()))
        batches = [choose_schedule(recipe, _images_of(recipe), 1).batch_size for recipe in largest.values()]
        steps = zip(largest, timed, batches, strict=True)
        return cls({name: (step, batch, image) for name, (step, image), batch in steps}, num_images, slots)

    def seconds(self, series: str, recipe: Recipe) -> float:
        schedule, (step, batch, image) = choose_schedule(recipe, _images_of(recipe), 1), self.of_series[series]
        steps = schedule.rounds * schedule.steps_per_round * schedule.batch_size / batch
        scored = schedule.rounds * self.num_images["validation"] + self.num_images["test"]
        return steps * step + scored * image


def _images_of(recipe: Recipe) -> int:
    assert recipe.data.train_images is not None
    return recipe.data.train_images
