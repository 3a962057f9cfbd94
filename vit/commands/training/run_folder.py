"""The run folder, the tracker and the page of a training, for `vit train` and `vit pretrain`"""

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.training.tracker_plan import sharing_of
from vit.console import Reporter
from vit.launch import is_first
from vit.training.recipes.values import plain

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.data.checks.contents import Contents
    from vit.training.planning.plan import Plan
    from vit.training.tracking.tracker import Tracker


def open_run(
    plan: "Plan", resumed: Path | None, contents: "Contents", lock: ExitStack, name: str | None
) -> "RunDirectory":
    """Make a run folder, or open the one to resume; lock it, and check or write what it holds before the first step.

    Args:
        name: last part of the name of a new folder.
    """
    from vit.checkpoints.run import RunDirectory
    from vit.training.fit import check_unchanged, write_beginning

    if resumed is None:
        run = RunDirectory.create(plan.recipe.out, plan.source.name, plan.spec.name, name)
        lock.enter_context(run.held())
        write_beginning(run, plan.recipe, plan.source, contents)
    else:
        run = RunDirectory(resumed)
        lock.enter_context(run.held())
        check_unchanged(run, plan.source, contents)
    return run


def tracker_of(plan: "Plan", run: "RunDirectory", reporter: Reporter) -> "Tracker":
    """The trackers of a training; only the first process has some."""
    from vit.training.tracking.open import Trackers, open_trackers
    from vit.training.tracking.tracker import Tracking

    if not is_first():
        return Trackers({}, reporter.notice)
    out = run.path.absolute().parents[2]  # the recipe's may be relative to another folder, where the run is resumed
    told = Tracking(run.path, out, run.path.name, None, plain(plan.recipe), sharing_of(plan.recipe))
    return open_trackers(plan.recipe, told, reporter.notice)


def draw_or_notice(reporter: Reporter, run: "RunDirectory", draw: Callable[[], None]) -> None:
    """Draw figures and page. A failure is a notice, because the training itself is finished."""
    try:
        draw()
    except Exception as error:  # noqa: BLE001  a font, a picture, a library: the training is finished all the same
        again = f"'vit report {shlex.quote(str(run.path))}' tries again"
        reporter.notice(f"WARNING: figures and report could not be drawn: {type(error).__name__}: {error}; {again}")
