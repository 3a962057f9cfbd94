"""Writes the results of a finished training, with result.json last"""

from collections.abc import Callable

from vit.checkpoints.run import RunDirectory
from vit.inference.scored_rows import write_scored
from vit.training.result import FitResult


def finish(
    run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...], others: Callable[[], None] | None = None
) -> None:
    """Write predictions, then the files that `others` writes, then result.json. Only the first process does this.

    A run with a result.json is complete. A run that ends earlier has a checkpoint. `vit train --resume`, or its study,
    continues it and comes here again.
    """
    for split, scored in fitted.scored.items():
        write_scored(run.scored_path(split), scored, class_names)
    if others is not None:
        others()
    fitted.result.write(run.result_path)
