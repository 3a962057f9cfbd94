"""The length of a training in optimizer steps, and its validations"""

from dataclasses import dataclass

from vit.training.planning.batch_size import choose_batch_size
from vit.training.recipes.recipe import Recipe

ROUNDS = 10
PENALTIES = tuple(10.0 ** (-half / 2) for half in range(1, 11))  # of a linear probe's weights: 0.3 to 1e-5


@dataclass(frozen=True)
class Schedule:
    """How many optimizer steps a training takes, and when it validates.

    Attributes:
        batch_size: number of images of one optimizer step, over all processes.
        steps_per_epoch: number of optimizer steps of a pass over the training images.
        rounds: number of validations: one an epoch, or five to ten where the length is given in steps.
        steps_per_round: number of optimizer steps between two validations.
    """

    batch_size: int
    steps_per_epoch: int
    rounds: int
    steps_per_round: int


def choose_schedule(recipe: Recipe, num_images: int, world_size: int) -> Schedule:
    """The steps of a training on this number of images.

    Raises:
        UsageError: the batch size is not divisible among processes, micro-batches and pairs.
        DataError: there are fewer training images than a batch has.
    """
    batch_size = choose_batch_size(recipe, num_images, world_size)
    steps_per_epoch = num_images // batch_size
    return Schedule(batch_size, steps_per_epoch, *_rounds(recipe, steps_per_epoch))


def _rounds(recipe: Recipe, steps_per_epoch: int) -> tuple[int, int]:
    """(number of validations, number of optimizer steps between two).

    A linear probe has a validation for each penalty. A length in steps has five to ten: the number that divides the
    length, or else overshoots it least.
    """
    if recipe.model.freeze == "backbone":
        return len(PENALTIES), steps_per_epoch
    if recipe.optim.steps is None:
        return recipe.optim.epochs, steps_per_epoch
    return equal_rounds(recipe.optim.steps)


def equal_rounds(steps: int) -> tuple[int, int]:
    """(number of validations, number of optimizer steps between two) of a length in steps, which is rounded up."""
    counts = range(min(ROUNDS, steps), min(ROUNDS // 2, steps) - 1, -1)
    rounds = min(counts, key=lambda count: -steps % count)
    return rounds, -(-steps // rounds)
