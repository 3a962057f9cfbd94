"""How long the cells of a study without a result would take, for `vit study --dry_run`"""

import heapq
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.study_plan import StudyPlan
from vit.commands.study_progress import work_of
from vit.console import Reporter, count_of, duration

if TYPE_CHECKING:
    from vit.study.grid import Cell


def show_estimate(reporter: Reporter, study: StudyPlan) -> None:
    """Time a step of every network, and show how long the cells without a result would take."""
    from vit.data.threads import available_cores
    from vit.study.runner import time_network
    from vit.training.planning.plan import make_plan

    cells, machine = study.cells_left, study.machine
    done = len(study.own_cells) - len(cells)
    if done:
        reporter.line(f"\n{done:,} of {len(study.own_cells):,} cells are done already")
    if not cells:
        return
    largest = {cell.series: cell for cell in sorted(cells, key=lambda cell: cell.num_images)}
    timed = {name: time_network(cell.recipe, machine) for name, cell in largest.items()}
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.series, cell.num_images), []).append(cell)
    plans = {group: make_plan(same[0].recipe) for group, same in groups.items()}
    num_images_of = {split: len(samples) for split, samples in study.source.splits.items()}
    work = {
        cell.folder: images
        for cell, images in zip(study.own_cells, work_of(study.own_cells, num_images_of), strict=True)
    }
    rows: list[tuple[object, ...]] = []
    times: dict[Path, float] = {}  # of each cell, by its folder
    for group, same in groups.items():
        series, num_images = group
        plan, (step, image) = plans[group], timed[series]
        if plan.recipe.model.freeze == "backbone":  # a network without its head computes each image once for all cells
            times |= {cell.folder: work[cell.folder] * image for cell in same}
            each = sum(times[cell.folder] for cell in same) / len(same)
            rows.append((series, f"{num_images:,}", len(same), "-", "-", duration(each)))
            continue
        relative_batch = plan.batch_size / plans[series, largest[series].num_images].batch_size
        scored = plan.rounds * len(plan.source.splits["validation"]) + len(plan.source.splits["test"])
        each = plan.total_steps * step * relative_batch + scored * image
        times |= dict.fromkeys((cell.folder for cell in same), each)
        counts = (len(same), f"{plan.total_steps:,}", str(plan.batch_size))
        rows.append((series, f"{num_images:,}", *counts, duration(each)))
    reporter.table(("series", "images", "cells", "steps", "batch", "time each"), rows)
    is_here = study.options.executor == "local"
    at_once, cores = min(machine.jobs, len(cells)), available_cores()
    slots = min(at_once, cores) if is_here and not machine.gpus else at_once  # more cells share the cores
    where = f" on {count_of(cores, 'core')}" if is_here else ""
    total = time_of_all([times[cell.folder] for cell in cells], slots)
    reporter.line(
        f"\n{count_of(len(cells), 'cell')}, about {duration(total)} with {at_once:,} at a time{where}; "
        f"{'a pass' if study.is_probe else 'a step'} of each network was timed, reading images and saving are not in it"
    )


def time_of_all(times: Iterable[float], slots: int) -> float:
    """The time until all cells have ended, of which each starts in its order as soon as a slot is free."""
    ends = [0.0] * slots
    for one in times:
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)
