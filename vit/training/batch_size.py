"""How many images an optimizer step takes: what a recipe leaves open, and what it may not ask for.

This module imports nothing heavy, so that a study's cells are named without torch.
"""

from vit.errors import DataError, UsageError
from vit.training.recipe import Recipe

LARGEST_AUTO_BATCH = 128
LARGEST_FINE_TUNING_BATCH = 64  # few epochs: at 128 images a step, too few steps


def batch_multiple(recipe: Recipe, processes: int = 1) -> int:
    """What the batch size is a multiple of: every process computes equal parts, and mixup and cutmix mix pairs."""
    return processes * recipe.optim.accumulate * (2 if recipe.augment.mixes else 1)


def automatic_batch_size(recipe: Recipe, images: int, processes: int = 1) -> int:
    """The batch size that null stands for with so many training images: at least two for each part, for batch norm."""
    multiple = batch_multiple(recipe, processes)
    largest = LARGEST_AUTO_BATCH if recipe.model.init_from is None else LARGEST_FINE_TUNING_BATCH
    wanted = min(largest, max(images // 8, 2 * processes * recipe.optim.accumulate), images)
    return max(multiple, wanted - wanted % multiple)


def choose_batch_size(recipe: Recipe, images: int, processes: int) -> int:
    """The recipe's batch size, or the automatic one.

    Args:
        images: for training.
        processes: that share a batch.

    Raises:
        UsageError: it cannot be divided among processes, parts and pairs.
        DataError: there are fewer images.
    """
    multiple = batch_multiple(recipe, processes)
    batch_size = recipe.optim.batch_size or automatic_batch_size(recipe, images, processes)
    if batch_size % multiple:
        pairs = " x 2 images (mixup and cutmix mix pairs)" if recipe.augment.mixes else ""
        raise UsageError(
            f"--batch_size {batch_size} is not divisible by {processes} processes x {recipe.optim.accumulate} parts "
            f"(optim.accumulate){pairs}",
            f"give a multiple of {multiple}",
        )
    if batch_size > images:
        smaller = max(multiple, images // 4 - images // 4 % multiple)
        raise DataError(
            f"--batch_size {batch_size} > {images} training images",
            f"give --batch_size {smaller} or less, or add images" if smaller <= images else "add images",
        )
    return batch_size
