"""The batch size of a training, its length in optimizer steps, and its validations

This module does not import torch, so that `vit study` names its cells fast.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from vit.console import count_of
from vit.errors import DataError, UsageError
from vit.training.recipes.recipe import Recipe

AUTO: Final = "auto"  # as batch_size: the largest that fits, on a GPU
LEAST_STEPS = 8  # of an epoch, where the batch size is automatic
LARGEST_AUTO_BATCH = 128
LARGEST_FINE_TUNING_BATCH = 64  # few epochs at 128 images a step have too few steps
ROUNDS = 10
LEAST_EPOCHS = 8  # of fine-tuning, whatever the number of images
PENALTIES = tuple(10.0 ** (-half / 2) for half in range(1, 11))  # of a linear probe's weights: 0.3 to 1e-5


def batch_multiple(recipe: Recipe, processes: int = 1) -> int:
    """The batch size is a multiple of this: all processes have equal micro-batches, and mixup and cutmix mix pairs."""
    return processes * recipe.optim.accumulate * (2 if recipe.augment.mixes else 1)


def choose_batch_size(recipe: Recipe, num_images: int, processes: int = 1) -> int:
    """The batch size of a recipe; for null, and for "auto" on a CPU, a micro-batch has two images: for batch norm."""
    if isinstance(recipe.optim.batch_size, int):
        return recipe.optim.batch_size
    multiple = batch_multiple(recipe, processes)
    largest = LARGEST_AUTO_BATCH if recipe.model.init_from is None else LARGEST_FINE_TUNING_BATCH
    wanted = min(largest, max(num_images // LEAST_STEPS, 2 * processes * recipe.optim.accumulate), num_images)
    return max(multiple, wanted - wanted % multiple)


@dataclass(frozen=True)
class Schedule:
    """How many optimizer steps a training takes, and when it validates."""

    batch_size: int  # number of images of one optimizer step, over all processes
    steps_per_epoch: int  # number of optimizer steps of a pass over the training images
    rounds: int  # number of validations with a checkpoint: one an epoch, or five to ten where the length is in steps
    steps_per_round: int  # number of optimizer steps between two validations

    @property
    def total_steps(self) -> int:
        return self.rounds * self.steps_per_round


def fine_tuning_steps(num_images: int, batch_size: int = LARGEST_FINE_TUNING_BATCH) -> int:
    """Optimizer steps of a fine-tuning: the length that `optim.epochs: auto` stands for.

    The number grows smoothly with the number n of training images: 250 (n / 100)^0.12, so that few images are seen
    often enough. From about 3,000 images on it is 8 epochs. Measured in docs/finetuning.md, "How few images are
    fine-tuned".
    """
    return max(round(250 * (num_images / 100) ** 0.12), LEAST_EPOCHS * (num_images // batch_size))


def choose_schedule(recipe: Recipe, num_images: int, world_size: int) -> Schedule:
    """The steps of a training on this number of images.

    UsageError: the batch size is not divisible among processes, micro-batches and pairs; or there are too few
    validations for `optim.patience`. DataError: there are fewer training images than a batch has.
    """
    optim, multiple = recipe.optim, batch_multiple(recipe, world_size)
    batch_size = choose_batch_size(recipe, num_images, world_size)
    if batch_size % multiple:
        pairs = " x 2 images (mixup and cutmix mix pairs)" if recipe.augment.mixes else ""
        raise UsageError(
            f"--batch_size {batch_size} is not divisible by {world_size} processes x {optim.accumulate} parts "
            f"(optim.accumulate){pairs}",
            f"give a multiple of {multiple}",
        )
    if batch_size > num_images:
        smaller = max(multiple, num_images // 4 - num_images // 4 % multiple)
        raise DataError(
            f"--batch_size {batch_size} > {num_images:,} training images",
            f"give --batch_size {smaller} or less, or add images" if smaller <= num_images else "add images",
        )
    steps_per_epoch = num_images // batch_size
    schedule = Schedule(batch_size, steps_per_epoch, *_rounds(recipe, steps_per_epoch, num_images, batch_size))
    rounds = ROUNDS if optim.is_timed else schedule.rounds
    if optim.patience is not None and optim.patience >= rounds:
        raise UsageError(
            f"--patience {optim.patience} cannot end a training that has {count_of(rounds, 'validation')}",
            "give a smaller --patience, or --epochs with more passes, of which each ends with a validation",
        )
    return schedule


def end_of_decay(done: int, rounds: int) -> int:
    """Number of validations of a training whose learning rate falls from the `done`-th validation on.

    The rate falls during a fifth of the training (Haegele et al. 2024, who find 10 to 20 % to be enough).
    """
    return min(rounds, done + math.ceil(done / 4))


def with_length(recipe: Recipe, schedule: Schedule) -> Recipe:
    """The recipe with the number of steps that automatic epochs stand for, unless a time decides it."""
    optim = recipe.optim
    if optim.epochs != AUTO or optim.steps is not None or optim.time is not None or recipe.model.freeze == "backbone":
        return recipe
    return replace(recipe, optim=replace(optim, steps=schedule.total_steps))


def _rounds(recipe: Recipe, steps_per_epoch: int, num_images: int, batch_size: int) -> tuple[int, int]:
    """(number of validations, number of steps between two). A linear probe has a validation for each penalty."""
    if recipe.model.freeze == "backbone":
        return len(PENALTIES), steps_per_epoch
    optim = recipe.optim
    if optim.steps is not None:
        return equal_rounds(optim.steps)
    if optim.epochs == AUTO:
        return equal_rounds(fine_tuning_steps(num_images, batch_size))
    return optim.epochs, steps_per_epoch


def equal_rounds(steps: int) -> tuple[int, int]:
    """As `_rounds`, for a length in steps: five to ten, the number that divides it or else overshoots it least."""
    counts = range(min(ROUNDS, steps), min(ROUNDS // 2, steps) - 1, -1)
    rounds = min(counts, key=lambda count: -steps % count)
    return rounds, -(-steps // rounds)
