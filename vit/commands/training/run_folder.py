"""Before and after the steps of trainings: reading images, the run folder, trackers; studies read images so, too"""

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.recipe_options import read_recipe
from vit.console import ProgressReport, Reporter
from vit.launch import is_first
from vit.registry import TRACKERS
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import plain
from vit.training.tracking.open import Trackers, open_trackers
from vit.training.tracking.tracker import WANDB, Sharing, Tracker, TrackerKind, Tracking, chosen_trackers, wandb_mode
from vit.training.tracking.wandb_tracker import intended

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Source
    from vit.training.distributed.processes import Rendezvous
    from vit.training.planning.plan import Plan

_NOTHING = "null"  # each process searches
_LARGEST = 4 * 2**20  # characters of clusters that are sent to the other processes


def find_bursts(
    listed: "Source | None", data: DataConfig, reporter: Reporter, rendezvous: "Rendezvous | None" = None
) -> None:
    """Search files for near-duplicates with progress; the plan that is made next knows them then.

    Args:
        listed: images of DATA; None: they have a name, and are in memory.
        rendezvous: where the processes meet, of which the first searches for all; None: there is one process.
    """
    from vit.data.checks.bursts import clusters_of
    from vit.data.core.groups import with_groups

    def search() -> str:
        if listed is None or data.bursts == "split":
            return _NOTHING
        with ProgressReport(reporter, "image compared") as progress:
            text = json.dumps(clusters_of(with_groups(listed, data.groups), progress.update))
        return text if len(text) < _LARGEST else _NOTHING

    if rendezvous is None:
        search()
        return
    known = json.loads(rendezvous.decided("bursts", search))
    if listed is not None and known is not None and not is_first():
        clusters_of(with_groups(listed, data.groups), known=known)


def read_images(source: "Source", reporter: Reporter) -> "Contents":
    """The content of the images, read with progress; DataError if validation or test files are not images.

    The reporter names copies with different labels.
    """
    from vit.data.checks.contents import read_contents
    from vit.data.checks.duplicates import conflicts_note
    from vit.training.running.run_images import check_readable

    with ProgressReport(reporter, "image read") as progress:
        contents = read_contents(source, progress.update)
    check_readable(source, contents)
    reporter.notice(contents.frames.warning.strip())
    reporter.notice(conflicts_note(source, contents.hashes))
    return contents


def read_on_first(source: "Source", reporter: Reporter, rendezvous: "Rendezvous") -> "Contents | None":
    """`read_images` on the first process; None on the others, which wait for it."""
    contents: list[Contents] = []

    def read() -> str:
        contents.append(read_images(source, reporter))
        return ""

    rendezvous.decided("contents read", read)
    return contents[0] if contents else None


def open_run(
    plan: "Plan", resumed: Path | None, contents: "Contents", lock: ExitStack, name: str | None
) -> "RunDirectory":
    """Make a run folder, or open the one to resume; lock it, and write or check its start before the first step."""
    from vit.checkpoints.run import RunDirectory
    from vit.training.fit import check_unchanged, write_beginning

    if resumed is None:
        run = RunDirectory.create(plan.recipe.out, plan.source.name, plan.spec.name, name)
        lock.enter_context(run.held())
        write_beginning(run, plan.recipe, plan.source, contents)
        return run
    run = RunDirectory(resumed)
    lock.enter_context(run.held())
    recipe = read_recipe(run.config_path)
    has_moved = recipe.data.source != plan.recipe.data.source
    check_unchanged(run, plan.source, contents, has_moved)
    if has_moved:
        write_beginning(run, replace(recipe, data=plan.recipe.data), plan.source, contents)
    return run


def tracker_of(plan: "Plan", run: "RunDirectory", reporter: Reporter) -> Tracker:
    """The trackers of a training; only the first process has some."""
    if not is_first():
        return Trackers({}, reporter.notice)
    out = run.path.absolute().parents[2]  # the recipe's may be relative to another folder, where the run is resumed
    sharing = Sharing(plan.recipe.tracker_media, plan.recipe.tracker_model)
    settings = Tracking(run.path, out, run.path.name, None, plain(plan.recipe), sharing)
    return open_trackers(plan.recipe, settings, reporter.notice)


def tracker_facts(recipe: Recipe, run: str) -> list[tuple[str, str]]:
    """A line of the plan for each tracker: what it gets, and where it goes. `run` may say why there is no folder."""
    sharing = Sharing(recipe.tracker_media, recipe.tracker_model)
    status, why = intended(wandb_mode(recipe))
    if recipe.tracker is not None and WANDB not in chosen_trackers(recipe):
        why = "not in --tracker"
    others = ((kind.title, kind.describe(recipe, Path(run), sharing)) for kind in _kinds(recipe))
    return [("W&B", sharing.describe(status, why)), *others]


def facts_of_cells(recipe: Recipe, folder: Path) -> list[tuple[str, str]]:
    """A line for each tracker of the cells of a study or a cross-validation in a folder, and of their tables."""
    has_wandb = WANDB in chosen_trackers(recipe)
    facts = [("W&B", f"{recipe.wandb}: numbers and configuration of every training, no images")] if has_wandb else []
    return [*facts, *((kind.title, kind.describe_cells(folder)) for kind in _kinds(recipe))]


def _kinds(recipe: Recipe) -> "list[TrackerKind]":
    names = chosen_trackers(recipe)
    return [entry.load()() for name, entry in TRACKERS.items() if name in names]


@contextmanager
def noticed_failure(reporter: Reporter, run: "RunDirectory") -> Iterator[None]:
    """While entered: a failure to draw figures or page is a notice, because the training itself is finished."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  a font, a picture, a library: the training is finished all the same
        again = f"'vit report {shlex.quote(str(run.path))}' tries again"
        reporter.warn(f"figures and report could not be drawn: {type(error).__name__}: {error}; {again}")
