"""The batch size of an optimizer step: the automatic value, and checks

This module does not import torch, so that `vit study` names its cells fast.
"""

from typing import Final

from vit.errors import DataError, UsageError
from vit.training.recipes.recipe import Recipe

AUTO: Final = "auto"  # as batch_size: the largest that fits, on a GPU
LEAST_STEPS = 8  # of an epoch, where the batch size is automatic
LARGEST_AUTO_BATCH = 128
LARGEST_FINE_TUNING_BATCH = 64  # few epochs at 128 images a step have too few steps


def batch_multiple(recipe: Recipe, processes: int = 1) -> int:
    """The batch size is a multiple of this: all processes have equal micro-batches, and mixup and cutmix mix pairs."""
    return processes * recipe.optim.accumulate * (2 if recipe.augment.mixes else 1)


def given_batch_size(recipe: Recipe) -> int | None:
    """The batch size that the recipe gives as a number."""
    batch_size = recipe.optim.batch_size
    return None if batch_size == AUTO else batch_size


def automatic_batch_size(recipe: Recipe, num_images: int, processes: int = 1) -> int:
    """The batch size for null, and for "auto" on a CPU: at least two images for each micro-batch, for batch norm."""
    multiple = batch_multiple(recipe, processes)
    largest = LARGEST_AUTO_BATCH if recipe.model.init_from is None else LARGEST_FINE_TUNING_BATCH
    wanted = min(largest, max(num_images // LEAST_STEPS, 2 * processes * recipe.optim.accumulate), num_images)
    return max(multiple, wanted - wanted % multiple)


def choose_batch_size(recipe: Recipe, num_images: int, processes: int) -> int:
    """The recipe's batch size, or the automatic one.

    Args:
        num_images: number of training images.
        processes: number of processes that share a batch.

    Raises:
        UsageError: the batch size is not divisible among processes, micro-batches and pairs.
        DataError: there are fewer training images.
    """
    multiple = batch_multiple(recipe, processes)
    batch_size = given_batch_size(recipe) or automatic_batch_size(recipe, num_images, processes)
    if batch_size % multiple:
        pairs = " x 2 images (mixup and cutmix mix pairs)" if recipe.augment.mixes else ""
        raise UsageError(
            f"--batch_size {batch_size} is not divisible by {processes} processes x {recipe.optim.accumulate} parts "
            f"(optim.accumulate){pairs}",
            f"give a multiple of {multiple}",
        )
    if batch_size > num_images:
        smaller = max(multiple, num_images // 4 - num_images // 4 % multiple)
        raise DataError(
            f"--batch_size {batch_size} > {num_images} training images",
            f"give --batch_size {smaller} or less, or add images" if smaller <= num_images else "add images",
        )
    return batch_size
