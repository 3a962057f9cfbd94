"""The plan of a study on the terminal, how long its cells take by timed steps, and the design that a time allows"""

import heapq
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from vit.commands.studies.study_cells import work_of
from vit.commands.studies.study_options import AUTO
from vit.commands.studies.study_plan import StudyPlan
from vit.commands.studies.study_series import starts_of
from vit.commands.training.run_folder import facts_of_cells
from vit.console import Reporter, count_of, duration
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from vit.study.design import Design, StudyPace
    from vit.study.grid import Budget, Cell

ASKS_ABOVE = 3600.0  # seconds: such a study needs --yes
# seconds of a study whose time is open; on a CPU with at most so many training images
ON_GPU, ON_CPU = 900.0, ((500, 1200.0), (1500, 1800.0), (math.inf, 3600.0))
CELL_SECONDS = 4.0  # of a cell beside its steps: its process, its images and its files
PLANNED = 0.85  # of the time is given to cells, because other programs share the machine
PROBES_SECONDS = 100.0  # of all heads on frozen networks, on one core
_QUICK = 1e9, 1e-3  # FLOPs a second and seconds an image that any machine has: a bound that needs no timing


def show_study(reporter: Reporter, plan: StudyPlan) -> None:
    """Show what a study will do."""
    from vit.study.answer.answer_warnings import short_trainings, unequal_networks, unequal_start

    cells, source, design = plan.own_cells, plan.source, plan.design
    images = ", ".join(f"{len(samples):,} {split}" for split, samples in source.splits.items())
    seeds = list(map(len, plan.seeds.values()))
    several = f"{', '.join(map(str, seeds))} at these sizes" if len({*seeds}) > 1 else ""
    reporter.line(f"Study of {source.name}")
    reporter.facts(
        [
            ("data", f"{images}; {len(source.class_names):,} classes"),
            *(("note", note) for note in source.notes),
            ("compare", "; ".join(plan.series)),
            *(("start", f"{name}: {start}") for name, start in starts_of(plan.firsts)),
            *([("why", plan.why)] if plan.why else []),
            *([("note", unequal)] if (unequal := unequal_networks(plan.costs)) else []),
            *([("test", str(plan.protocol["test"]))] if plan.folds else []),
            ("sizes", ", ".join(f"{size:,}" for size in plan.sizes)),
            ("subsets", str(plan.protocol["subsets"])),
            ("seeds", several or ", ".join(map(str, plan.seeds[plan.sizes[-1]]))),
            ("budget", str(plan.protocol["budget_words"])),
            ("tuning", str(plan.protocol["tuning"])),
            ("cells", f"{len(cells):,}, {plan.protocol['jobs']}"),
            *([("time", _time_text(plan, design, plan.pace))] if design and plan.pace else []),
            *(facts_of_cells(cells[0].recipe, plan.folder.path) if cells else []),
            ("folder", str(plan.folder.path)),
        ]
    )
    if design is not None and plan.sizes[-1] < plan.pool and plan.options.sizes == AUTO:
        few = f"trainings have at most {plan.sizes[-1]:,} of your {plan.pool:,} training images in this time"
        reporter.warn(f"{few}, so fine-tuning says nothing of all of them. Give a longer --time")
    reporter.warn(short_trainings(plan.protocol))
    if mixed := unequal_start(plan.protocol):
        reporter.warn(f"{mixed} Give --init_from FILE for each network")


def _time_text(plan: StudyPlan, design: "Design", pace: "StudyPace") -> str:
    left = sum(CELL_SECONDS + pace.seconds(cell.series, cell.recipe) for cell in plan.cells_left) / pace.slots
    words = f"{duration(plan.seconds or 0.0)} for everything; the trainings take about {duration(left)}"
    words += ", more than this time: two seeds are trained in any case" * (left > (plan.seconds or 0.0))
    words += f"; without {', '.join(f'{size:,}' for size in design.left)} images" * bool(design.left)
    if more := design.more():
        minutes = math.ceil(((plan.seconds or 0.0) + design.gain_seconds - design.seconds) * 1.1 / 60)
        words += f"; after them --time {minutes}min would add {more}"  # before them, it may make each longer
    return words


def with_design(study: StudyPlan, reporter: Reporter) -> StudyPlan:
    """The plan with the sizes, the seeds and the part of its length that fit into its time.

    A study that a time has designed keeps its length and its cells. More time adds cells.
    """
    from vit.study.design import PARTS, StudyPace, choose_design
    from vit.study.grid import Budget

    options, machine = study.options, study.machine
    on_cpu = next(seconds for most, seconds in ON_CPU if study.sizes[-1] <= most)
    seconds = options.seconds or (ON_GPU if machine.gpus else on_cpu)
    held, length, before = study.folder.designed(study.inputs.image_hashes)
    budget = Budget.parse(length) if length and options.budget == AUTO else study.budget
    largest = {name: _of_size(recipe, study.sizes[-1], budget) for name, recipe in study.firsts.items()}
    reporter.notice("Timing a step of each network")
    pace = StudyPace.measured(largest, machine, study.num_images)

    def cost(size: int, part: float) -> float:
        """Seconds of one seed at a size, divided by the cells at a time. Tuning tries all its values."""
        total = 0.0
        for name, choices in study.series.items():
            recipe = _of_size(next(iter(choices.values())), size, budget.part(part))
            total += (CELL_SECONDS + pace.seconds(name, recipe)) * len(choices)
        return total / pace.slots

    reserve, all_images = 0.0, sum(study.num_images.values())
    if not study.folder.frozen_dir.is_dir() and all(recipe.model.init_from for recipe in study.firsts.values()):
        reserve = all_images * sum(image for _, _, image in pace.of_series.values()) + PROBES_SECONDS
    held_counts = {size: len(seeds) for size, seeds in held.items()}
    reserve += sum(count * cost(size, 1.0) for size, count in held_counts.items()) * pace.slots
    left = PLANNED * (seconds - (time.monotonic() - study.began) - reserve / pace.slots)
    has_sizes = options.sizes != AUTO
    is_same = seconds <= before and options.seeds == AUTO and not has_sizes  # the same command goes on as it began
    num_seeds = None if options.seeds == AUTO else len(options.seed_list())
    parts = (1.0,) if options.budget != AUTO or held_counts else PARTS
    num_first = len(study.sizes) if has_sizes else 2
    left = 0.0 if is_same else left
    design = choose_design(study.sizes, cost, left, num_seeds, held_counts, parts, num_first, keeps_first=has_sizes)
    seeds = {size: options.seed_list()[:count] for size, count in sorted(design.seeds.items())}
    seconds = max(seconds, before)
    allowed, usual = budget.part(design.part), study.budget
    share = min((allowed.steps or allowed.epochs or 1) / (usual.steps or usual.epochs or 1), 1.0)
    designed = replace(study, budget=allowed, seeds=seeds, pace=pace, design=design, seconds=seconds, part=share)
    designed.folder.check_extends(designed.cells)
    return designed


def _of_size(recipe: Recipe, size: int, budget: "Budget") -> Recipe:
    return budget.apply(replace(recipe, data=replace(recipe.data, train_images=size)), size)


def show_estimate(reporter: Reporter, study: StudyPlan) -> float:
    """Show how long the cells without a result would take; returns the seconds, 0 without such cells."""
    from vit.data.loading.threads import available_cores
    from vit.study.design import StudyPace
    from vit.training.planning.schedule import choose_schedule

    cells, machine = study.cells_left, study.machine
    if done := len(study.own_cells) - len(cells):
        reporter.line(f"\n{done:,} of {len(study.own_cells):,} cells are done already")
    if not cells:
        return 0.0
    is_here, pace = study.options.executor == "local", study.pace
    if pace is None:  # no design has timed the networks
        recipes = {cell.series: cell.recipe for cell in sorted(cells, key=lambda cell: cell.num_images)}
        pace = StudyPace.measured(recipes, machine, study.num_images, is_here)
    work = work_of(study.own_cells, pace.num_images)
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.series, cell.num_images), []).append(cell)
    rows: list[tuple[object, ...]] = []
    times: dict[object, float] = {}  # of each cell, by its folder
    for (series, num_images), same in groups.items():
        recipe, length = same[0].recipe, ("-", "-")
        if recipe.model.freeze == "backbone":  # a network without its head computes each image once for all cells
            times |= {cell.folder: work[cell.folder] * pace.of_series[series][2] for cell in same}
        else:
            schedule = choose_schedule(recipe, num_images, 1)
            times |= dict.fromkeys((cell.folder for cell in same), pace.seconds(series, recipe))
            length = f"{schedule.rounds * schedule.steps_per_round:,}", str(schedule.batch_size)
        each = sum(times[cell.folder] for cell in same) / len(same)
        rows.append((series, f"{num_images:,}", len(same), *length, duration(each)))
    reporter.table(("series", "images", "cells", "steps", "batch", "time each"), rows)
    at_once = min(machine.jobs, len(cells))
    total = time_of_all([times[cell.folder] for cell in cells], min(at_once, pace.slots))
    where = f" on {count_of(available_cores(), 'core')}" if is_here else ""
    timed = f"{'a pass' if study.is_probe else 'a step'} of each network was timed"
    about = f"{count_of(len(cells), 'cell')}, about {duration(total)} with {at_once:,} at a time{where}"
    reporter.line(f"\n{about}; {timed}, reading images and saving are not in it")
    return total


def check_time(reporter: Reporter, study: StudyPlan) -> None:
    """Raise UsageError before a study on this machine that would take more than an hour, unless it is asked for."""
    cells = study.cells_left
    flops, seconds_an_image = _QUICK
    slowest = sum(cell.images_shown * (3 * study.costs[cell.series].flops / flops + seconds_an_image) for cell in cells)
    is_designed = study.design is not None and study.design.seconds < ASKS_ABOVE
    if study.options.yes or study.options.executor != "local" or slowest < ASKS_ABOVE or is_designed:
        return
    if (total := show_estimate(reporter, study)) > ASKS_ABOVE:
        fix = "give --yes to start it, --time 1h for a smaller design, or fewer --sizes, --seeds and a shorter --budget"
        raise UsageError(f"this study takes about {duration(total)}", fix)


def time_of_all(times: Iterable[float], slots: int) -> float:
    """The time until all cells have ended, of which each starts in its order as soon as a slot is free."""
    ends = [0.0] * slots
    for one in times:
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)
