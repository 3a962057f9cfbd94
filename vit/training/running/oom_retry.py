"""Retry after out-of-memory: smaller micro-batches in the first steps, the same optimizer steps in more parts

Without batch norm the gradients are the same up to rounding, because the gradient of a batch is the mean of those of
its equal parts. Batch norm takes its statistics from each part, and the notice then says so. Dropout draws other
numbers.
"""

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TypeVar

import torch

from vit.atomic_files import write_text
from vit.checkpoints.run import RunDirectory
from vit.errors import ResourceError, is_out_of_memory
from vit.memory import give_back_freed_memory, return_freed_memory
from vit.plain_files import parse_yaml
from vit.training.observers import Listener
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import batch_multiple
from vit.training.recipes.recipe import PLACES
from vit.training.recipes.values import dump, plain, training_options

FIRST_STEPS = 10  # a later failure has another cause than the size of a micro-batch
P = TypeVar("P", bound=Plan)
T = TypeVar("T")


class StepCount(Listener):
    """Counts the optimizer steps of an attempt."""

    def __init__(self) -> None:
        self.done = 0

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        self.done = done


def until_it_fits(
    plan: P, attempt: Callable[[P, StepCount], T], again: Callable[[P], None], may_divide: bool = True
) -> T:
    """The result of an attempt, which is repeated with smaller micro-batches where memory runs out in its first steps.

    Several processes would have to agree while one of them waits for the others, so that their error stands.
    ResourceError: memory is not sufficient.

    Args:
        attempt: function of a plan that begins at the first step, and tells its steps to a listener.
        again: receiver of a plan with smaller micro-batches before its attempt.
    """
    may_divide = may_divide and plan.world_size == 1
    is_retry = False
    while True:
        count = StepCount()
        try:
            if is_retry and plan.device.type == "cpu":
                return _in_new_thread(partial(attempt, plan, count))
            return attempt(plan, count)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            smaller = with_more_parts(plan) if may_divide and count.done < FIRST_STEPS else None
            if smaller is None:
                raise _out_of_memory(plan, error) from error
        plan, is_retry = smaller, True
        return_freed_memory()
        free_memory(plan.device)  # after the `except`, whose traceback keeps the tensors of the failed step
        again(plan)


def start_again(plan: Plan, run: RunDirectory, listeners: Sequence[Listener]) -> None:
    """Prepare a run folder for an attempt with smaller micro-batches, and tell the listeners."""
    for path in (run.previous_path, run.last_path, run.best_path):  # their batches would be read as micro-batches
        path.unlink(missing_ok=True)
    write_text(run.config_path, dump(plan.recipe))
    for listener in listeners:
        listener.replanned(plan.recipe)
        listener.notice(describe_parts(plan))


def _in_new_thread(work: Callable[[], T]) -> T:
    """The result of a function in a thread of its own, whose errors are raised here.

    Where the system has once refused a thread memory for the code of a oneDNN kernel, the thread gets no kernel any
    more, however much memory is free later: the assembler of oneDNN, Xbyak, keeps the error of a thread.
    """
    done: Future[T] = Future()
    threads = torch.get_num_threads()

    def run() -> None:
        torch.set_num_threads(threads)  # OpenMP counts them for each thread
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised in the other thread, also where a signal ends the training
            done.set_exception(error)

    Thread(target=run, daemon=True, name="training").start()  # a daemon: a signal may end the program before the loop
    return done.result()


def free_memory(device: torch.device) -> None:
    """Free what a failed or finished attempt has left: a trainer and its loops refer to each other."""
    gc.collect()
    give_back_freed_memory()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def with_more_parts(plan: P) -> P | None:
    """The plan with micro-batches of at most half the size; None where they cannot be divided."""
    recipe, smallest = plan.recipe, 2 if plan.takes_batch_stats else 1
    for parts in range(2 * recipe.optim.accumulate, plan.batch_size // smallest + 1):
        divided = replace(recipe, optim=replace(recipe.optim, accumulate=parts))
        if plan.batch_size % batch_multiple(divided) == 0:
            return replace(plan, recipe=divided)
    return None


def describe_parts(plan: Plan) -> str:
    """What follows from the number of micro-batches of a plan that memory has not allowed before."""
    parts = plan.recipe.optim.accumulate
    norm = "; batch norm takes its statistics from each" if plan.takes_batch_stats else ""
    return (
        f"out of memory: starting again in {parts} micro-batches of {plan.batch_size // parts} images, with the same "
        f"optimizer steps{norm} (optim.accumulate {parts} in config.yaml)"
    )


def as_begun(plan: Plan, config: str) -> Plan | None:
    """The plan with the micro-batches of a cell that began with it; None where the cell began with another recipe.

    Trackers, caches and the like may differ, and so may the places of images and weights: a cell's folder is named by
    their contents.
    """
    values = parse_yaml(config)
    try:
        optim = replace(plan.recipe.optim, accumulate=values["optim"]["accumulate"])
        begun = replace(plan, recipe=replace(plan.recipe, optim=optim))
        both = [training_options(some) for some in (values, plain(begun.recipe))]
        for section, name in PLACES:
            for options in both:
                del options[section][name]
    except (KeyError, TypeError):  # not a whole recipe
        return None
    return begun if both[0] == both[1] else None


def _out_of_memory(plan: Plan, error: Exception) -> ResourceError:
    reason = ": ".join(["", *str(error).splitlines()[:1]])[:200]  # Python's own error is empty
    divided = with_more_parts(plan)
    in_parts = f"--optim.accumulate {divided.recipe.optim.accumulate} (the same steps, in parts), " if divided else ""
    return ResourceError(
        f"out of memory with {plan.batch_size} images of {plan.preprocess.image_size} pixels in "
        f"{plan.precision}, {plan.recipe.optim.accumulate} parts{reason}",
        f"give {in_parts}a smaller --batch_size or --image_size, --trainer.grad_checkpointing true (ViTs), or "
        "--data.cache none",
    )
