"""A training in as many attempts as memory needs, with its signals, and with errors that say how to go on"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from vit.atomic_files import write_text
from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.training.callbacks.listener import Listener
from vit.training.failures import explained, how_to_resume
from vit.training.loop import Watch
from vit.training.micro_batches import StepCount, until_it_fits, words
from vit.training.planning.plan import Plan
from vit.training.recipes.values import dump
from vit.training.signals import Signals

P = TypeVar("P", bound=Plan)
T = TypeVar("T")


def in_attempts(
    plan: P,
    run: RunDirectory,
    listeners: Sequence[Listener],
    data: ImageDataModule,
    attempt: Callable[[P, ImageDataModule, Watch], T],
    reads_images: bool = True,
) -> T:
    """The result of an attempt. Where memory runs out in its first steps, smaller micro-batches are tried.

    Args:
        listeners: receivers of steps, rows and notices.
        data: loaders that may hold images in memory already.
        attempt: function that trains a plan with these loaders and with whoever watches.
        reads_images: whether the attempt reads the training images.

    Raises:
        CheckpointError: neither the last checkpoint nor the previous one is readable.
        DivergedError: a loss, gradient or weight is not finite.
        ResourceError: a checkpoint could not be written, or memory is not sufficient.
        ProcessesError: another process of the same training has ended, or differs from this one.
        StoppedError: Ctrl-C, SIGTERM or SIGUSR1 ended the training, and its state is saved.
    """

    def once(plan: P, count: StepCount) -> T:
        return attempt(plan, data.renewed(plan.loader_options), Watch(signals, [*listeners, count]))

    def again(plan: P) -> None:
        for path in (run.previous_path, run.last_path, run.best_path):  # their batches would be read as micro-batches
            path.unlink(missing_ok=True)
        write_text(run.config_path, dump(plan.recipe))
        for listener in listeners:
            listener.replanned(plan.recipe)
            listener.notice(words(plan))

    with Signals(how_to_resume(run)) as signals, explained(plan, run):
        if plan.world_size == 1 and reads_images:
            data.dataset("train")  # memory that the images need is not a matter of micro-batches
        return until_it_fits(plan, once, again, may_divide=not run.can_resume)
