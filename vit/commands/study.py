"""`vit study DATA`: networks x numbers of images x seeds, and what they say together."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.commands.reading import read_images
from vit.commands.recipe_options import listed_images
from vit.commands.study_options import grid_of, parse_study, series_of, shard_of
from vit.commands.study_report import report_findings
from vit.console import ProgressReport, Reporter, duration, percent
from vit.errors import StoppedError, UsageError
from vit.training.recipe import Recipe

if TYPE_CHECKING:
    from vit.data.contents import Contents
    from vit.data.samples import Source
    from vit.study.grid import Inputs

Series = dict[str, dict[str, Recipe]]


def study(arguments: Sequence[str]) -> int:
    """Run the cells that are not done yet, then write the report."""
    given = parse_study(arguments)
    series = series_of(given)
    first = next(iter(next(iter(series.values())).values()))
    listed = listed_images(first)

    from vit.checkpoints.locking import alone
    from vit.study.folder import StudyDirectory
    from vit.study.grid import make_cells, shard
    from vit.study.runner import machine
    from vit.training.plan import make_plan

    reporter = Reporter()
    plan = make_plan(first, listed)
    if "test" not in plan.source.splits:
        raise UsageError("a study needs test images", "give --data.test a share above 0")
    contents = read_images(plan.source, reporter)
    series = _decided(series, plan.source)
    budget, sizes, seeds = grid_of(given, len(plan.source.splits["train"]))
    inputs = _inputs(series, plan.source, contents)
    cells = make_cells(series, sizes, seeds, budget, inputs)
    for cell in {(cell.series, cell.choice): cell for cell in reversed(cells)}.values():
        make_plan(cell.recipe)  # a value that cannot be is refused now, not in every cell
    folder = StudyDirectory(Path(given.out).expanduser() / (given.name or _name(given, plan.source.name)))
    folder.check_extends(cells)
    place = machine(given.jobs)
    mine = shard(cells, *shard_of(given.shard))
    protocol = _protocol(given, plan, budget, sizes, seeds, series, inputs, place)
    _show(reporter, protocol, plan.source.notes, mine, place, folder.path)
    if given.dry_run:
        _estimate(reporter, mine, place)
        reporter.next_command(f"vit study {shlex.join(token for token in arguments if token != '--dry_run')}")
        return 0
    folder.describe(cells, protocol)
    failed = _run(reporter, folder, mine, place, contents.by_path(plan.source))
    with alone(folder.lock_path):  # of shards that end together the last one reports, and sees the cells of all
        report_findings(reporter, folder.path, given.target)
    return 5 if failed else 0


def _decided(series: Series, source: "Source") -> Series:
    """The same with what "auto" means for these images: one kind of subset for all sizes, a network by its name."""
    from vit.training.images import with_subset
    from vit.training.plan import make_plan

    def named(name: str, recipe: Recipe) -> str:
        network, space, values = name.partition(" ")
        return make_plan(recipe).network["name"] + space + values if network == "auto" else name

    found: Series = {}
    for name, tried in series.items():
        own = {choice: with_subset(source, recipe) for choice, recipe in tried.items()}
        found[named(name, next(iter(own.values())))] = own
    return found


def _inputs(series: Series, source: "Source", contents: "Contents") -> "Inputs":
    """All that cells learn from: a cell's key says what images and weights hold."""
    from vit.study.grid import Inputs
    from vit.weights.hashing import weights_hash

    recipes = [recipe for tried in series.values() for recipe in tried.values()]
    starts = {recipe.model.init_from for recipe in recipes} - {None}
    weights = {start: weights_hash(start) for start in starts if start is not None}
    return Inputs(source.name, contents.split_hashes(source), weights)


def _subsets(series: Series) -> str:
    """The protocol's words for the kinds of subsets."""
    from vit.training.images import SUBSETS

    kinds = {recipe.data.subset for tried in series.values() for recipe in tried.values()}
    return " or ".join(SUBSETS[kind] for kind in sorted(kinds))


def _name(given: Any, data: str) -> str:
    from vit.checkpoints.run import slug

    return Path(str(given.config[-1])).stem if given.config and given.source is None else slug(data)


def _protocol(
    given: Any,
    plan: Any,
    budget: Any,
    sizes: Sequence[int],
    seeds: Sequence[int],
    series: Series,
    inputs: "Inputs",
    place: Any,
) -> dict[str, Any]:
    tuned = len(next(iter(series.values())))
    choices = {name: list(found) for name, found in series.items()}
    return {
        "data": plan.source.name,
        "classes": len(plan.source.class_names),
        "images": {split: len(samples) for split, samples in plan.source.splits.items()},
        "fingerprints": dict(inputs.image_hashes),
        "sizes": list(sizes),
        "seeds": list(seeds),
        "budget": str(budget),
        "budget_words": budget.words(),
        "tuning": f"chosen among {tuned} settings at every size, on validation images, with seed {seeds[0]}; then fixed"
        if tuned > 1
        else "fixed recipe",
        **({"settings": choices} if tuned > 1 else {}),
        "subsets": f"{_subsets(series)}, each inside the next larger, drawn once per seed and shared by all networks",
        "series": list(series),
        "jobs": f"{place.jobs} at a time, {place.threads} threads each" + f", {place.gpus} GPUs" * bool(place.gpus),
    }


def _show(
    reporter: Reporter,
    protocol: dict[str, Any],
    notes: Sequence[str],
    cells: Sequence[Any],
    place: Any,
    folder: Path,
) -> None:
    images = ", ".join(f"{count:,} {split}" for split, count in protocol["images"].items())
    mode = cells[0].recipe.wandb if cells else "off"
    reporter.line(f"Study of {protocol['data']}")
    reporter.facts(
        [
            ("data", f"{images}; {protocol['classes']} classes"),
            *(("note", note) for note in notes),
            ("compare", "; ".join(protocol["series"])),
            ("sizes", ", ".join(f"{size:,}" for size in protocol["sizes"])),
            ("subsets", protocol["subsets"]),
            ("seeds", ", ".join(map(str, protocol["seeds"]))),
            ("budget", protocol["budget_words"]),
            ("tuning", protocol["tuning"]),
            ("cells", f"{len(cells):,}, {protocol['jobs']}"),
            *((("W&B", f"{mode}: numbers and configuration of every cell, no figures or images"),) * (mode != "off")),
            ("folder", str(folder)),
        ]
    )


def _run(reporter: Reporter, folder: Any, cells: Sequence[Any], place: Any, digests: Mapping[str, str]) -> int:
    """Run cells, those first that tuning chooses by; returns how many failed."""
    from vit.study.folder import ListedCell, tuned
    from vit.study.runner import run_cells

    watcher = _Watcher(reporter, folder.path, cells)
    group = folder.path.name
    try:
        if any(cell.choice for cell in cells):
            first = {cell.group: cell.seed for cell in reversed(cells)}
            tried = [cell for cell in cells if cell.seed == first[cell.group]]
            run_cells(folder.path, tried, place, group, digests, watcher.told)
            choices = tuned(folder, [ListedCell.of(cell) for cell in cells])
            cells = [cell for cell in cells if choices.get(cell.group) == cell.choice]
            watcher.expect(cells)
        run_cells(folder.path, cells, place, group, digests, watcher.told)
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to go on, give the same command again") from error
    finally:
        watcher.close()
    return watcher.failed


class _Watcher:
    """Tells what became of the cells."""

    def __init__(self, reporter: Reporter, study: Path, cells: Sequence[Any]) -> None:
        self.reporter, self.study = reporter, study
        self.progress = ProgressReport(reporter, "cell")
        self.running = self.done = self.failed = self.behind = 0
        self.expect(cells)

    def expect(self, cells: Sequence[Any]) -> None:
        """So many are left."""
        from vit.layout import RunLayout

        left = [cell for cell in cells if not RunLayout(self.study / cell.folder).result_path.is_file()]
        self.total = self.done + self.failed + len(left)
        self.work = self.behind + sum(cell.images_shown for cell in left)
        if len(left) < len(cells) and not self.done:
            self.reporter.notice(f"{len(cells) - len(left):,} of {len(cells):,} cells were done before")

    def told(self, cell: Any, what: str) -> None:
        """A cell started, or ended."""
        from vit.checkpoints.run import RunDirectory

        if what == "started":
            self.running += 1
        else:
            self.running -= 1
            self.behind += cell.images_shown
            run = RunDirectory(self.study / cell.folder)
            if what == "done":
                self.done += 1
                result = run.read_result()
                assert result is not None
                accuracy = percent(result.metrics["acc1"]["value"])
                words = f"{accuracy} test accuracy, {duration(result.seconds)}"
            else:
                self.failed += 1
                words = f"FAILED: {run.failure_path.read_text(encoding='utf-8').strip()} (see {run.log_path})"
            self.reporter.notice(f"{self.done + self.failed}/{self.total}  {cell.words()}: {words}")
        words = f"{self.running} running, {self.failed} failed"
        self.progress.update(self.done + self.failed, self.total, words, share=self.behind / self.work)

    def close(self) -> None:
        """Take the bar away."""
        self.progress.close()


def _estimate(reporter: Reporter, cells: Sequence[Any], place: Any) -> None:
    """Time a step of every network, and show what the cells would take."""
    from vit.study.runner import time_network
    from vit.training.plan import make_plan

    largest = {cell.series: cell for cell in sorted(cells, key=lambda cell: int(cell.num_images))}
    timed = {name: time_network(cell.recipe, place) for name, cell in largest.items()}
    groups: dict[tuple[str, int], list[Any]] = {}
    for cell in cells:
        groups.setdefault(cell.group, []).append(cell)
    plans = {group: make_plan(same[0].recipe) for group, same in groups.items()}
    rows, seconds = [], 0.0
    for (series, images), same in groups.items():
        plan, (step, image) = plans[series, images], timed[series]
        each = plan.batch_size / plans[largest[series].group].batch_size
        scored = plan.rounds * len(plan.source.splits["validation"]) + len(plan.source.splits["test"])
        took = plan.total_steps * step * each + scored * image
        seconds += took * len(same)
        rows.append((series, f"{images:,}", len(same), f"{plan.total_steps:,}", plan.batch_size, duration(took)))
    reporter.table(("series", "images", "cells", "steps", "batch", "time each"), rows)
    total = duration(seconds / place.jobs)
    reporter.line(
        f"\n{len(cells):,} cells, about {total} with {place.jobs} at a time on {os.cpu_count()} cores; "
        "a step of each network was timed, reading images and saving are not in it"
    )
