"""Writes the results of a finished training, with result.json last"""

from collections.abc import Callable

from vit.checkpoints.run import RunDirectory
from vit.training.callbacks.listener import Listener
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import plain
from vit.training.result import FitResult
from vit.training.tracking.tracker import Tracker


class TrackedRows(Listener):
    """Hands the rows of metrics.csv to a tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """A tracker gets rows, which are fewer than steps."""

    def row(self, row: dict[str, float], step: int) -> None:
        """Track a row."""
        self.tracker.log({key: value for key, value in row.items() if key != "step"}, step)

    def replanned(self, recipe: Recipe) -> None:
        """Track the new recipe."""
        self.tracker.configure(plain(recipe))


def finish(
    run: RunDirectory, fitted: FitResult, tracker: Tracker, write_others: Callable[[], None], keep_state: bool
) -> None:
    """Write predictions, then what `write_others` writes, then result.json, and close the tracker.

    Only the first process calls this. A run with a result.json is complete. A run that ends earlier has a checkpoint.
    `vit train --resume`, or its study, continues it and comes here again.

    Args:
        keep_state: whether last.ckpt stays, from which a training would resume.

    Raises:
        ResourceError: the run folder is gone.
    """
    if not run.config_path.is_file():
        raise run.gone()
    names = fitted.data.source.class_names
    for split, scored in fitted.scored.items():
        scored.write(run.scored_path(split), names, fitted.result.rules)
    write_others()
    if not run.config_path.is_file():
        raise run.gone()
    fitted.result.write(run.result_path)
    if not keep_state:
        run.last_path.unlink(missing_ok=True)
    tracker.finish()
