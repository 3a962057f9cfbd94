"""The largest batch that fits into the memory of a device, found by trial steps"""

from dataclasses import replace

from lightning.pytorch import Callback, LightningModule, Trainer

from vit.errors import ResourceError, is_out_of_memory
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import LEAST_STEPS, batch_multiple
from vit.training.trials.trial import StopTrial, Trial

_STEPS = 2  # the first makes the optimizer's state, which the second keeps beside its activations


class _EndAfter(Callback):
    """Ends a trial after so many optimizer steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if trainer.global_step >= self.steps:
            raise StopTrial


def plan_with_largest_batch(trial: Trial) -> Plan:
    """The plan of a trial with the largest batch whose first steps fit.

    The candidates are powers of two, times the number that a batch size is a multiple of. The largest is an eighth of
    the training images, so that an epoch has steps. The search begins near the automatic batch size. The learning rate
    stays as it is.

    Raises:
        ResourceError: not even the smallest batch fits.
    """
    plan, smallest = trial.plan, batch_multiple(trial.plan.recipe)
    largest = max(len(plan.source.splits["train"]) // LEAST_STEPS, smallest)
    size = smallest
    while 2 * size <= min(plan.batch_size, largest):
        size *= 2
    found = None
    while size <= largest and _fits(trial.of(plan.of_batch(size))):
        found, size = size, 2 * size
    while found is None and size > smallest:
        size //= 2
        found = size if _fits(trial.of(plan.of_batch(size))) else None
    if found is None:
        raise ResourceError(
            f"out of memory with {size} images of {plan.preprocess.image_size} pixels in {plan.precision}",
            "give a smaller --image_size or --network",
        )
    return plan.of_batch(found)


def _quickly_started(plan: Plan) -> Plan:
    """The plan with a random head, and not compiled: neither makes the memory of its steps smaller."""
    recipe, model = plan.recipe, replace(plan.recipe.model, init_head="random")
    return replace(plan, recipe=replace(recipe, model=model, trainer=replace(recipe.trainer, compile=False)))


def _fits(trial: Trial) -> bool:
    """Whether the first steps of a plan find enough memory."""
    trial = trial.of(_quickly_started(trial.plan))
    try:
        trial.run(_EndAfter(_STEPS))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    trial.clear()  # after the `except`, whose traceback keeps the tensors of the failed step
    return False
