"""A study, fully decided: its cells and its protocol"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vit.checkpoints.model_path import check_model, check_weights, weights_name
from vit.commands.cli.recipe_options import listed_images
from vit.commands.studies.study_checks import (
    check_different,
    check_given,
    check_overridden,
    check_same_images,
    check_used,
    named_options,
)
from vit.commands.studies.study_options import AUTO, StudyOptions, items
from vit.commands.studies.study_series import (
    Series,
    decided,
    fold_sources,
    networks_for,
    num_folds,
    recipes_of,
    series_of,
    sizes_for,
    starts_of,
    usual_length,
)
from vit.commands.training.run_folder import find_bursts, read_images
from vit.commands.training.train_options import unused_options
from vit.console import Reporter, duration
from vit.errors import UsageError
from vit.launch import forget_launcher
from vit.study.running.cluster import describe_share, share_of
from vit.training.recipes.recipe import DistillConfig, Recipe
from vit.training.recipes.values import as_trained

if TYPE_CHECKING:
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Source
    from vit.models.spec import Cost
    from vit.study.design import Design, StudyPace
    from vit.study.findings import JsonValue
    from vit.study.folder import StudyDirectory
    from vit.study.grid import Budget, Cell, Inputs
    from vit.study.running.runner import MachineShare

SEEDS_OF_CLUSTER = 3  # where no time decides
RIGHT = "all its known labels are predicted right (exact match)"  # with several labels for an image


@dataclass(frozen=True)
class StudyPlan:
    """A study, fully decided."""

    options: StudyOptions
    source: "Source"
    contents: "Contents"
    series: Series  # recipes to compare, with every automatic choice made
    budget: "Budget"
    seeds: dict[int, list[int]]  # {number of training images: seeds of subset and training}
    inputs: "Inputs"
    machine: "MachineShare"
    costs: "Mapping[str, Cost]"
    pool: int  # number of all training images, which every seed has
    folds: int = 0  # number of folds of all images, of which each seed tests its own; 0: all share one test set
    why: str = ""  # reason for networks that no option chose; empty where there is none to tell
    pace: "StudyPace | None" = None  # how fast each series was, where the time decides the design; else None
    design: "Design | None" = None  # what the time allows; None: the options decide all
    seconds: float | None = None  # time of the study; None: as long as it takes
    began: float = 0.0  # `time.monotonic()` at its beginning
    part: float = 1.0  # of the usual length of a training, which a time allows

    @property
    def sizes(self) -> list[int]:
        """The numbers of training images, ascending."""
        return sorted(self.seeds)

    @cached_property
    def cells(self) -> "list[Cell]":
        """The cells of the whole study."""
        from vit.study.grid import make_cells

        return make_cells(self.series, self.seeds, self.budget, self.inputs, self.folds)

    @cached_property
    def own_cells(self) -> "list[Cell]":
        """The cells of this machine's shard."""
        from vit.study.grid import shard

        return shard(self.cells, *self.options.part)

    @cached_property
    def cells_left(self) -> "list[Cell]":
        """The cells of this machine's shard of which the study's folder has no result."""
        return [cell for cell in self.own_cells if not self.folder.run(cell).result_path.is_file()]

    @property
    def num_images(self) -> dict[str, int]:
        """{split: number of images} of the data."""
        return {split: len(samples) for split, samples in self.source.splits.items()}

    @property
    def is_probe(self) -> bool:
        """Whether every series fits a head to a frozen backbone, which has no length."""
        return all(recipe.model.freeze == "backbone" for recipe in recipes_of(self.series))

    @property
    def is_by_time(self) -> bool:
        """Whether a time decides what the options leave open."""
        return self.options.is_by_time and not self.is_probe

    @property
    def firsts(self) -> dict[str, Recipe]:
        """The recipe of each series with its first choice."""
        return {name: next(iter(choices.values())) for name, choices in self.series.items()}

    @property
    def folder(self) -> "StudyDirectory":
        """The folder of the study: of its name, its file's name, or the data's name."""
        return _folder(self.options, self.source)

    @cached_property
    def protocol(self) -> "dict[str, JsonValue]":
        """What study.json says of the study."""
        from vit.study.answer.answer_warnings import COMMONEST, PART
        from vit.study.answer.wording import LINEAR_PROBE, PROBE_WORDS, SHARED
        from vit.study.design import seeds_of_protocol
        from vit.training.planning.images import subset_text

        choices = {name: list(tried) for name, tried in self.series.items()}
        tuned = len(next(iter(choices.values())))
        recipes = recipes_of(self.series)
        tested = [*self.source.splits.values()] if self.folds else [self.source.splits["test"]]
        labels = [name for one in tested for name in self.source.task.names(one.labels, self.source.class_names)]
        length = PROBE_WORDS if self.is_probe else self.budget.describe()
        if self.part < 1:
            length += f", {100 * self.part:.3g} % of the usual length"
        if not self.is_probe and any(recipe.optim.patience is not None for recipe in recipes):
            length += "; fewer where patience ends them"
        if not self.is_probe and any(recipe.optim.best_metric != "last" for recipe in recipes):
            length += f"; {self.num_images['validation']:,} more images choose the weights"
        kinds = sorted({recipe.data.subset for recipe in recipes})
        drawn = " or ".join(subset_text(kind, self.source) for kind in kinds)
        shared = SHARED if len(kinds) == 1 else "for networks of one kind alike"
        tuning = f"chosen among {tuned} settings at every size by each seed for itself, on validation images"
        return {
            "data": self.source.name,
            "classes": len(self.source.class_names),
            "images": {**self.num_images, "train": self.pool},
            **(of_folds(self.folds) if self.folds else {}),
            "fingerprints": dict(self.inputs.image_hashes),
            **seeds_of_protocol(self.seeds),
            "budget": LINEAR_PROBE if self.is_probe else str(self.budget),
            "budget_words": length,
            "tuning": tuning if tuned > 1 else "fixed recipe",
            **({"settings": choices} if tuned > 1 else {}),
            "subsets": f"{drawn}, each inside the next larger, drawn once per seed and {shared}",
            **({} if self.source.task.is_exclusive else {"right": RIGHT}),
            COMMONEST: Counter(labels).most_common(1)[0][1] / len(labels),
            "series": list(self.series),
            **({} if self.seconds is None else {"time": duration(self.seconds), "seconds": self.seconds}),
            **({PART: self.part} if self.part < 1 else {}),
            "start": {name: weights_name(start) for name, start in starts_of(self.firsts)},
            "parameters": {name: cost.parameters for name, cost in self.costs.items()},
            **({"weights": dict(self.inputs.weight_hashes)} if self.inputs.weight_hashes else {}),
            "jobs": describe_share(self.options.executor, self.machine),
        }


def make_study_plan(options: StudyOptions, reporter: Reporter) -> StudyPlan:
    """Decide a study: read its images, make every automatic choice, and check each series and its folder."""
    began = time.monotonic()
    forget_launcher()  # a study that a launcher has started plans and trains alone
    check_overridden(options)
    series = series_of(options)
    first = recipes_of(series)[0]
    listed = listed_images(first)

    from vit.study.grid import Budget, parse_sizes
    from vit.study.spec import without_cell_files
    from vit.training.planning.network_choice import choose_network, wanted_network
    from vit.training.planning.plan import make_plan, open_inputs, plan_of
    from vit.training.running.run_images import seen_before

    model = replace(first.model, init_head="random", freeze="none", lora=None)  # needs no other files
    alone = without_cell_files(replace(as_trained(first), distill=DistillConfig(), model=model))
    opened = open_inputs(alone, listed)
    if listed is not None:
        for model in (one.model for one in recipes_of(series) if one.model.init_from is None):
            choose_network(model, wanted_network(model), listed, len(listed.class_names))  # refuses a wrong size
    find_bursts(listed, first.data, reporter)
    source = make_plan(alone, opened).source
    if "test" not in source.splits:
        raise UsageError("a study needs test images", "give --data.test a fraction above 0")
    folds = num_folds(options, source, listed)
    pool = len(source.splits["train"])
    if folds:
        options = replace(options, data={**options.data, "fold": f"1/{folds}"})
        series = series_of(options)
        first = recipes_of(series)[0]
        sources = fold_sources(first.data, listed, folds)
        source, pool = sources[0], min(len(one.splits["train"]) for one in sources)
    if len(source.splits["test"]) < 2:
        problem = f"{source.name} has one test image, and a study needs two or more: one says nothing about others"
        raise UsageError(problem, "add test images, or give --data.test a larger fraction")
    why = ""
    if options.is_open:
        networks, why = networks_for(options, first, source, _folder(options, source), reporter)
        options = replace(options, networks=networks, init_from=[])
        series = series_of(options)
    named = sizes_for(pool, len(source.class_names)) if options.sizes == AUTO else items(options.sizes)
    sizes = parse_sizes(named, pool)
    budget = Budget.parse(usual_length(recipes_of(series), pool) if options.budget == AUTO else options.budget)
    contents = read_images(source, reporter)
    series = decided(series, source)
    check_given(named_options(options), budget)
    seeds = options.seed_list()
    if not options.is_by_time and options.seeds == AUTO:
        seeds = seeds[:SEEDS_OF_CLUSTER]
    inputs = _inputs(series, source, contents, sizes, seeds)
    share = share_of(options.executor, options.cluster_options, options.jobs)
    costs: dict[str, Cost] = {}
    plan = StudyPlan(
        options, source, contents, series, budget, dict.fromkeys(sizes, seeds), inputs, share, costs, pool, folds, why,
        began=began,
    )  # fmt: skip
    check_different(plan.cells, inputs)
    unused: list[tuple[str, dict[str, str]]] = []
    for cell in {(cell.series, cell.choice): cell for cell in reversed(plan.cells)}.values():
        made = plan_of(cell.recipe)  # refuses a wrong value now, before it fails in every cell
        check_same_images(cell.series, made.source, next(iter(series)), source)
        costs[cell.series] = made.cost
        names = named_options(options, cell.series)
        unused.append((cell.series, unused_options(names, made.recipe, opened.images.splits)))
    check_used(options, unused, reporter)
    by_weights = {(cell.recipe.distill.teacher, cell.recipe.model.init_from): cell.recipe for cell in plan.cells}
    sentences = [sentence for recipe in by_weights.values() for sentence in seen_before(recipe, source, contents)]
    reporter.warn(*dict.fromkeys(sentences))
    if not plan.is_by_time:
        plan.folder.check_extends(plan.cells)
    return plan


def _folder(options: StudyOptions, source: "Source") -> "StudyDirectory":
    from vit.checkpoints.run import slug
    from vit.study.folder import StudyDirectory

    by_file = options.config_name if options.source is None else None
    return StudyDirectory(Path(options.out).expanduser() / (options.name or by_file or slug(source.name)))


def _inputs(series: Series, source: "Source", contents: "Contents", sizes: list[int], seeds: list[int]) -> "Inputs":
    """Hashes of the images, weights and teachers that cells learn from."""
    from vit.study.grid import Inputs
    from vit.study.spec import with_cell_files
    from vit.weights.open import weights_hash

    cells = [with_cell_files(recipe, size, seed) for recipe in recipes_of(series) for size in sizes for seed in seeds]
    teachers, starts = {cell.distill.teacher for cell in cells}, {cell.model.init_from for cell in cells}
    for teacher in sorted(filter(None, teachers)):
        check_model(teacher)
    for start in sorted(filter(None, starts)):
        check_weights(start)
    weights = {file: weights_hash(file) for file in sorted(filter(None, starts | teachers))}
    return Inputs(source.name, contents.split_hashes(source), weights)


def of_folds(folds: int) -> "dict[str, JsonValue]":
    """What a protocol says of folds, of which each seed tests its own."""
    counted = "each counts as many images as the smallest"
    return {"folds": folds, "test": f"each seed tests another of {folds} folds; {counted}"}
