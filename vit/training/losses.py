"""The training loss: its correction for unequal classes, losses and metrics of the user, and averages that a run shows

A run shows the mean loss of an epoch, and the average loss of the last steps.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from vit.data.core.image_header import no_warnings
from vit.data.core.samples import Labels, Source
from vit.data.loading.sampler import Sampling, drawn_shares
from vit.errors import DataError, UsageError, some_of
from vit.own_code import load, running
from vit.training.recipes.recipe import OptimConfig

Floats = npt.NDArray[np.float64]
ClassWeights = Literal["none", "auto", "effective"] | Mapping[str, float]

BETA = 0.9999  # Cui et al. 2019, section 5: the value for CIFAR-10, ImageNet and iNaturalist
RARE = 1 / 20  # images of the rarest class, divided by those of the commonest: below, the plan says what to try
DECAY = 0.95  # of the smoothed loss at every step: its memory is about 20 steps


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
        numbers = np.maximum(self.counts, 1).astype(np.float64)
        if isinstance(self.class_weights, Mapping):
            weights = np.array([self.class_weights.get(name, 1.0) for name in self.class_names])
        else:
            weights = 1 / numbers if self.class_weights == "auto" else (1 - BETA) / (1 - BETA**numbers)
        return weights / float(self.shares @ weights)

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


def class_balance(optim: OptimConfig, sampling: Sampling, source: Source) -> ClassBalance:
    """The class balance of a training on its images.

    UsageError: a class of `optim.class_weights` does not exist, or two options correct the same thing.
    DataError: a class that must be drawn or weighted has no training images.
    """
    names = source.class_names
    counts = source.splits["train"].class_counts(len(names))
    named = optim.class_weights.keys() if isinstance(optim.class_weights, Mapping) else set[str]()
    if unknown := sorted(named - set(names)):
        problem = f"--optim.class_weights names {some_of(map(repr, unknown))}, which the training images lack"
        raise UsageError(problem, f"give classes of the data: {some_of(map(repr, names))}")
    by_size = {
        "--data.sampling": sampling if sampling != "natural" else None,
        "--optim.class_weights": optim.class_weights if optim.class_weights in ("auto", "effective") else None,
        "--optim.logit_adjustment": f"{optim.logit_adjustment:g}" if optim.logit_adjustment else None,
    }
    options = [f"{option} {value}" for option, value in by_size.items() if value is not None]
    if len(options) > 1:
        raise UsageError(f"{' and '.join(options)}: each corrects for the class sizes alone", "give one of them")
    empty = [names[number] for number in np.flatnonzero(counts == 0)]
    if options and empty:
        problem = f"{options[0]} needs images of every class, and {some_of(map(repr, empty))} has no training images"
        raise DataError(problem, f"add images, leave the class out, or train without {options[0].split()[0]}")
    return ClassBalance(names, counts, sampling, optim.class_weights, optim.logit_adjustment)


class EpochLoss(Metric):
    """Mean loss of the batches of an epoch, over all processes. Losses that are not finite do not count."""

    total: Tensor
    batches: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("batches", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, loss: Tensor | float, batches: float = 1.0) -> None:
        """Add the loss of a batch, or the sum of the losses of several batches."""
        loss = torch.as_tensor(loss, dtype=torch.float32, device=self.device)
        finite = loss.isfinite()  # stays on the device: reading the value would wait for a GPU
        self.total += torch.where(finite, loss, 0.0)
        self.batches += torch.where(finite, batches, 0.0)

    def compute(self) -> Tensor:
        return self.total / self.batches


def epoch_loss(module: nn.Module) -> EpochLoss:
    """The `train_loss` of one of our training modules."""
    loss = module.train_loss
    assert isinstance(loss, EpochLoss)
    return loss


class OwnLoss(nn.Module):
    """A training loss of the user's at an import path: a function, or a class that is made without arguments.

    UsageError where it fails, has weights, or gives anything but one number with a gradient.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        loss: Any = load(path, "--optim.loss")
        with self._running():
            self.loss = loss() if isinstance(loss, type) else loss
        if any(weight.requires_grad for weight in self.parameters()):
            raise UsageError(f"--optim.loss {path} has weights, which nothing trains", "make them buffers")

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of logits (B, C) float32 and labels: class numbers (B,), or shares (B, C), -1 where unknown."""
        with self._running():
            loss = self.loss(logits, labels)
            if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
                shown = f"a tensor {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
                raise TypeError(f"it gives {shown}, and not one number with a gradient")
        return loss

    def _running(self) -> AbstractContextManager[None]:
        return running(self.path, "--optim.loss", "return the mean loss of logits (B, C) and labels as a tensor")


def own_metric(path: str, labels: npt.NDArray[Any], num_classes: int) -> dict[str, Metric]:
    """{name in metrics.csv, without val/: the metric at an import path}, of the user's or of a library.

    It is made for a number of classes. It takes probabilities (B, C) and labels, class numbers (B,) or (B, C) 1, 0 and
    -1, which is tried with some labels here, and gives one number. UsageError where it does not.
    """
    with running(path, "--optim.metric", "make a torchmetrics.Metric of one number for a number of classes"):
        metric = load(path, "--optim.metric")(num_classes)
        if not isinstance(metric, Metric):
            raise TypeError(f"it makes {type(metric).__name__}")
        tried = torch.from_numpy(labels[:: len(labels) // 16 + 1]).long()
        with no_warnings:  # as of classes that these few images lack
            metric.update(torch.full((len(tried), num_classes), 1 / num_classes), tried)
            (_,) = torch.as_tensor(metric.compute()).reshape(-1)
        metric.reset()
    return {path.partition(":")[2]: metric}


class SmoothedLoss:
    """Exponential moving average of the loss of optimizer steps. Losses that are not finite do not count.

    Losses stay on their device until the average is asked for. Only `value` and `state_dict` wait for a GPU.
    """

    def __init__(self) -> None:
        self._sum = self._weight = 0.0  # of the losses, with falling weights
        self._step: Tensor | None = None  # loss of the step that is being computed
        self._steps: list[Tensor] = []  # losses that are not in the average yet

    def add(self, part: Tensor, is_whole: bool) -> None:
        """Add a part of the loss of a step: of a micro-batch, divided by their number. The last part makes it whole."""
        self._step = part.detach() if self._step is None else self._step + part.detach()
        if is_whole:
            self._steps.append(self._step)
            self._step = None

    @property
    def value(self) -> float:
        state = self.state_dict()
        return state["sum"] / state["weight"] if state["weight"] else math.nan

    def state_dict(self) -> dict[str, float]:
        steps, self._steps = self._steps, []
        for loss in filter(math.isfinite, torch.stack(steps).tolist() if steps else ()):
            self._sum = DECAY * self._sum + (1 - DECAY) * loss
            self._weight = DECAY * self._weight + (1 - DECAY)
        return {"sum": self._sum, "weight": self._weight}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._sum, self._weight = state["sum"], state["weight"]
