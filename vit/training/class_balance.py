"""Unequal classes: how many images each has, and the weights and priors that correct the training loss for them"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.data.core.samples import Labels, Source
from vit.data.loading.epoch_order import Sampling, drawn_shares
from vit.errors import DataError, UsageError, some_of
from vit.training.recipes.recipe import Recipe

Floats = npt.NDArray[np.float64]
ClassWeights = Literal["none", "auto", "effective"] | Mapping[str, float]

BETA = 0.9999  # Cui et al. 2019, section 5: the value for CIFAR-10, ImageNet and iNaturalist
RARE = 1 / 20  # images of the rarest class, divided by those of the commonest: below, the plan says what to try


@dataclass(frozen=True)
class ClassBalance:
    """The training images of each class, and what a training does about unequal numbers."""

    class_names: tuple[str, ...]  # class names in the order of their numbers
    counts: Labels  # (C,) number of training images; of several labels for an image, the images that have each
    sampling: Sampling = "natural"  # how an epoch draws
    class_weights: ClassWeights = "none"  # `optim.class_weights` of the recipe
    logit_adjustment: float = 0.0  # tau of logit adjustment; 0: none

    @cached_property
    def shares(self) -> Floats:
        """(C,) expected fraction of each class among the images that training draws."""
        return drawn_shares(self.counts, self.sampling)

    @cached_property
    def weights(self) -> Floats | None:
        """(C,) class weights whose mean over the drawn images is 1; None: equal weights."""
        if self.class_weights == "none":
            return None
        found = _raw_weights(self.class_weights, self.class_names, self.counts)
        return found / float(self.shares @ found)

    @cached_property
    def adjustment(self) -> Floats | None:
        """(C,) numbers that training adds to the logits; None: none."""
        return self.logit_adjustment * np.log(self.shares) if self.logit_adjustment else None

    @property
    def extremes(self) -> tuple[int, int]:
        """Numbers of the rarest class that has images, and of the commonest."""
        present = np.where(self.counts > 0, self.counts, np.iinfo(np.int64).max)
        return int(present.argmin()), int(self.counts.argmax())

    @property
    def is_corrected(self) -> bool:
        return self.sampling != "natural" or self.class_weights != "none" or self.logit_adjustment > 0


def class_balance(recipe: Recipe, source: Source) -> ClassBalance:
    """The class balance of a recipe on its images.

    UsageError: a class of `optim.class_weights` does not exist, or two options correct the same thing.
    DataError: a class that must be drawn or weighted has no training images.
    """
    optim, names = recipe.optim, source.class_names
    counts = source.splits["train"].class_counts(len(names))
    found = ClassBalance(names, counts, recipe.data.sampling, optim.class_weights, optim.logit_adjustment)
    if isinstance(optim.class_weights, Mapping):
        _check_names(optim.class_weights, names)
    by_size = {
        "--data.sampling": recipe.data.sampling if recipe.data.sampling != "natural" else None,
        "--optim.class_weights": optim.class_weights if optim.class_weights in ("auto", "effective") else None,
        "--optim.logit_adjustment": f"{optim.logit_adjustment:g}" if optim.logit_adjustment else None,
    }
    given = [f"{option} {value}" for option, value in by_size.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)}: each corrects for the class sizes alone", "give one of them")
    empty = [names[number] for number in np.flatnonzero(counts == 0)]
    if given and empty:
        raise DataError(
            f"{given[0]} needs images of every class, and {some_of(map(repr, empty))} has no training images",
            f"add images, leave the class out, or train without {given[0].split()[0]}",
        )
    return found


def _raw_weights(class_weights: ClassWeights, class_names: Sequence[str], counts: Labels) -> Floats:
    if isinstance(class_weights, Mapping):
        return np.array([class_weights.get(name, 1.0) for name in class_names])
    numbers = np.maximum(counts, 1).astype(np.float64)
    return 1 / numbers if class_weights == "auto" else (1 - BETA) / (1 - BETA**numbers)


def _check_names(class_weights: Mapping[str, float], class_names: Sequence[str]) -> None:
    unknown = sorted(class_weights.keys() - set(class_names))
    if unknown:
        raise UsageError(
            f"--optim.class_weights names {some_of(map(repr, unknown))}, which the training images lack",
            f"give classes of the data: {some_of(map(repr, class_names))}",
        )
