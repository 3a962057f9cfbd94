"""The end of a run: what it found is written, and result.json last of all."""

from collections.abc import Callable

from vit.checkpoints.run import RunDirectory
from vit.inference.scored_rows import write_scored
from vit.training.result import FitResult


def finish(
    run: RunDirectory, fitted: FitResult, class_names: tuple[str, ...], others: Callable[[], None] | None = None
) -> None:
    """Write predictions, then whatever `others` writes, then result.json; for the first process alone.

    A run with a result.json is whole. One that ends before this has a checkpoint, goes on with `vit train --resume` or
    with its study, and comes here again.
    """
    for split, scored in fitted.scored.items():
        write_scored(run.scored_path(split), scored, class_names)
    if others is not None:
        others()
    fitted.result.write(run.result_path)
