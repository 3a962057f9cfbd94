"""The design of a study in a given time: how many seeds at which sizes, and how much of the usual length

The largest size comes first, because its answer is the one that counts, and two seeds are the least that have an
interval. Smaller sizes follow for the curve, and then more seeds from the largest size on: the interval narrows most
from the second seed to the third, where Student's quantile falls from 12.7 to 4.3, and little after the fifth. So a
training is shortened to half for this third seed, and further only where two seeds at the two largest sizes do not fit.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.console import count_of
from vit.study.answer.answer_warnings import HALF
from vit.study.findings import JsonValue
from vit.training.planning.schedule import Schedule, choose_schedule
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import as_trained

if TYPE_CHECKING:
    from vit.study.running.runner import MachineShare

LEAST_SEEDS, MOST_SEEDS = 2, 5
PARTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)  # of the usual length
SEED_LIKE_SIZES = 1.5  # one more seed at a size is worth as much as a size that is so many places smaller
Rung = tuple[int, int]  # size, and its number of seeds
CostOf = Callable[[int, float], float]  # (size, part of the length) -> seconds of one seed, all networks


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
        (size, seeds), now = self.gain, self.seeds.get(self.gain[0], 0)
        return f"{size:,} images" if not now else f"{count_of(seeds - now, 'seed')} at {size:,} images"


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
        is_closed = any(rung[0] == size for size, _ in passed)  # seeds of a size are taken in their order
        if taken.get(rung[0], 0) >= rung[1]:
            order.append(rung)  # a killed study goes on in its order
        elif not is_closed and (spent + price(part, rung) <= seconds or (keeps_first and rung in first)):
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
        batches = [_schedule(recipe).batch_size for recipe in largest.values()]
        steps = zip(largest, timed, batches, strict=True)
        return cls({name: (step, batch, image) for name, (step, image), batch in steps}, num_images, slots)

    def seconds(self, series: str, recipe: Recipe) -> float:
        schedule, (step, batch, image) = _schedule(recipe), self.of_series[series]
        steps = schedule.rounds * schedule.steps_per_round * schedule.batch_size / batch
        scored = schedule.rounds * self.num_images["validation"] + self.num_images["test"]
        return steps * step + scored * image


def _schedule(recipe: Recipe) -> Schedule:
    assert recipe.data.train_images is not None
    return choose_schedule(as_trained(recipe), recipe.data.train_images, 1)
