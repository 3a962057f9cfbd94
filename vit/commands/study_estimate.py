"""How long the cells of a study take, from timed steps: the design that a time allows, and the estimate of a plan"""

import heapq
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vit.commands.study_options import AUTO
from vit.commands.study_plan import StudyPlan
from vit.commands.study_progress import work_of
from vit.console import Reporter, count_of, duration
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from vit.study.grid import Budget, Cell
    from vit.study.runner import Machine

ASKS_ABOVE = 3600.0  # seconds: such a study needs --yes
ON_CPU, ON_GPU = 1800.0, 900.0  # seconds of a study whose time is open
CELL_SECONDS = 4.0  # of a cell beside its steps: its process, its images and its files
PLANNED = 0.85  # of the time is given to cells, because other programs share the machine
PROBES_SECONDS = 100.0  # of all heads on frozen networks, on one core
_QUICK = 1e9, 1e-3  # FLOPs a second and seconds an image that any machine has: a bound that needs no timing


@dataclass(frozen=True)
class Pace:
    """How fast the networks of a study are on this machine, with as many trainings at a time as the study has.

    Attributes:
        of_series: {series: (seconds of a step, images of this step, seconds of scoring an image)}.
        num_images: {split: number of images}.
        slots: number of cells that run at full speed at a time.
    """

    of_series: Mapping[str, tuple[float, int, float]]
    num_images: Mapping[str, int]
    slots: int

    @classmethod
    def measured(
        cls, largest: Mapping[str, Recipe], machine: "Machine", num_images: Mapping[str, int], is_here: bool = True
    ) -> "Pace":
        """Time a step of every network, several at a time as in the study.

        Args:
            largest: {series: recipe of a cell of the largest size}.
            is_here: whether cells run on this machine.
        """
        from vit.data.threads import available_cores
        from vit.study.runner import time_network
        from vit.training.planning.schedule import choose_schedule

        slots = min(machine.jobs, available_cores()) if is_here and not machine.gpus else machine.jobs
        with ThreadPoolExecutor(slots) as pool:
            timed = list(pool.map(lambda recipe: time_network(recipe, machine), largest.values()))
        batches = [choose_schedule(recipe, _images_of(recipe), 1).batch_size for recipe in largest.values()]
        steps = zip(largest, timed, batches, strict=True)
        return cls({name: (step, batch, image) for name, (step, image), batch in steps}, num_images, slots)

    def seconds(self, series: str, recipe: Recipe) -> float:
        """The time of a cell that trains its network.

        Args:
            recipe: recipe of the cell.
        """
        from vit.training.planning.schedule import choose_schedule

        schedule, (step, batch, image) = choose_schedule(recipe, _images_of(recipe), 1), self.of_series[series]
        steps = schedule.rounds * schedule.steps_per_round * schedule.batch_size / batch
        scored = schedule.rounds * self.num_images["validation"] + self.num_images["test"]
        return steps * step + scored * image


def with_design(study: StudyPlan, reporter: Reporter) -> StudyPlan:
    """The plan with the sizes, the seeds and the part of its length that fit into its time.

    A study that a time has designed keeps its length and its cells. More time adds cells.
    """
    from vit.study.design import PARTS, choose_design
    from vit.study.grid import Budget

    options, machine = study.options, study.machine
    seconds = options.seconds or (ON_GPU if machine.gpus else ON_CPU)
    held, length, spent = study.folder.designed()
    budget = Budget.parse(length) if length and options.budget == AUTO else study.budget
    num_images = {split: len(samples) for split, samples in study.source.splits.items()}
    largest = {name: _of_size(recipe, study.sizes[-1], budget) for name, recipe in study.firsts.items()}
    reporter.notice("Timing a step of each network")
    pace = Pace.measured(largest, machine, num_images)

    def cost(size: int, part: float) -> float:
        """Seconds of one seed at a size, divided by the cells at a time. Tuning tries all its values with one seed."""
        found = 0.0
        for name, choices in study.series.items():
            recipe = _of_size(next(iter(choices.values())), size, budget.part(part))
            found += (CELL_SECONDS + pace.seconds(name, recipe)) * (1 + (len(choices) - 1) / 2)
        return found / pace.slots

    if not study.folder.frozen_dir.is_dir() and all(recipe.model.init_from for recipe in study.firsts.values()):
        spent += sum(num_images.values()) * sum(image for _, _, image in pace.of_series.values()) + PROBES_SECONDS
    kept = {size: len(seeds) for size, seeds in held.items()}
    has_sizes = options.sizes != AUTO
    design = choose_design(
        study.sizes,
        cost,
        PLANNED * (seconds - (time.monotonic() - study.began) - spent / pace.slots),
        None if options.seeds == AUTO else len(options.seed_list()),
        kept,
        parts=(1.0,) if options.budget != AUTO or kept else PARTS,
        num_first=len(study.sizes) if has_sizes else 2,
        keeps_first=has_sizes,
    )
    seeds = {size: options.seed_list()[:count] for size, count in sorted(design.seeds.items())}
    return replace(study, budget=budget.part(design.part), seeds=seeds, pace=pace, design=design, seconds=seconds)


def _of_size(recipe: Recipe, size: int, budget: "Budget") -> Recipe:
    return budget.apply(replace(recipe, data=replace(recipe.data, train_images=size)), size)


def show_estimate(reporter: Reporter, study: StudyPlan) -> float:
    """Show how long the cells without a result would take; returns the seconds, 0 without such cells."""
    cells, machine = study.cells_left, study.machine
    done = len(study.cells_to_train) - len(cells)
    if done:
        reporter.line(f"\n{done:,} of {len(study.cells_to_train):,} cells are done already")
    if not cells:
        return 0.0
    pace, is_here = pace_of(study), study.options.executor == "local"
    work = dict(zip((one.folder for one in study.own_cells), work_of(study.own_cells, pace.num_images), strict=True))
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    rows: list[tuple[object, ...]] = []
    times: dict[object, float] = {}  # of each cell, by its folder
    for (series, num_images), same in groups.items():
        recipe = same[0].recipe
        if recipe.model.freeze == "backbone":  # a network without its head computes each image once for all cells
            times |= {cell.folder: work[cell.folder] * pace.of_series[series][2] for cell in same}
            each = sum(times[cell.folder] for cell in same) / len(same)
            rows.append((series, f"{num_images:,}", len(same), "-", "-", duration(each)))
            continue
        from vit.training.planning.schedule import choose_schedule

        schedule, each = choose_schedule(recipe, num_images, 1), pace.seconds(series, recipe)
        times |= dict.fromkeys((cell.folder for cell in same), each)
        steps = schedule.rounds * schedule.steps_per_round
        rows.append((series, f"{num_images:,}", len(same), f"{steps:,}", str(schedule.batch_size), duration(each)))
    reporter.table(("series", "images", "cells", "steps", "batch", "time each"), rows)
    at_once = min(machine.jobs, len(cells))
    total = time_of_all([times[cell.folder] for cell in cells], min(at_once, pace.slots))
    from vit.data.threads import available_cores

    where = f" on {count_of(available_cores(), 'core')}" if is_here else ""
    reporter.line(
        f"\n{count_of(len(cells), 'cell')}, about {duration(total)} with {at_once:,} at a time{where}; "
        f"{'a pass' if study.is_probe else 'a step'} of each network was timed, reading images and saving are not in it"
    )
    return total


def pace_of(study: StudyPlan) -> Pace:
    """The pace of a plan, which is timed unless its design was."""
    if study.pace is not None:
        return study.pace
    largest = {cell.series: cell for cell in sorted(study.cells_left, key=lambda cell: cell.num_images)}
    num_images = {split: len(samples) for split, samples in study.source.splits.items()}
    recipes = {name: cell.recipe for name, cell in largest.items()}
    return Pace.measured(recipes, study.machine, num_images, study.options.executor == "local")


def check_time(reporter: Reporter, study: StudyPlan) -> None:
    """Raise UsageError before a study on this machine that would take more than an hour, unless it is asked for."""
    cells = study.cells_left
    flops, seconds_an_image = _QUICK
    slowest = sum(cell.images_shown * (3 * study.costs[cell.series].flops / flops + seconds_an_image) for cell in cells)
    if study.options.yes or study.options.executor != "local" or slowest < ASKS_ABOVE:
        return
    if study.design is not None and study.design.seconds < ASKS_ABOVE:
        return
    total = show_estimate(reporter, study)
    if total > ASKS_ABOVE:
        raise UsageError(
            f"this study takes about {duration(total)}",
            "give --yes to start it, --time 1h for a smaller design, or fewer --sizes, --seeds and a shorter --budget",
        )


def time_of_all(times: Iterable[float], slots: int) -> float:
    """The time until all cells have ended, of which each starts in its order as soon as a slot is free."""
    ends = [0.0] * slots
    for one in times:
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)


def _images_of(recipe: Recipe) -> int:
    """The number of training images of a cell's recipe."""
    assert recipe.data.train_images is not None
    return recipe.data.train_images
