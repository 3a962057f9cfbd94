"""The two training losses that a run shows: the mean of an epoch, and the average of the last steps"""

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from vit.errors import UsageError
from vit.own_code import load

DECAY = 0.95  # of the smoothed loss at every step: its memory is about 20 steps


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


class OwnLoss(Protocol):
    """A training loss of the user's: `optim.loss` names it by its import path."""

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of logits (B, C) float32 and labels: (B,) class numbers, or (B, C) shares of classes."""


def own_loss(path: str | None) -> OwnLoss | None:
    """The loss at an import path: a function, or a class that is made without arguments."""
    if path is None:
        return None
    loss: Any = load(path, "--optim.loss")
    made: OwnLoss = loss() if isinstance(loss, type) else loss
    return made


class OwnMetric(Protocol):
    """A validation metric of the user's or of a library: `optim.metric` names it by its import path."""

    def __call__(self, num_classes: int) -> Metric:
        """A metric of probabilities (B, C) and labels, class numbers (B,) or (B, C) 1, 0 and -1, with one number."""


def own_metric(path: str | None, num_classes: int) -> dict[str, Metric]:
    """{name of the metric in metrics.csv, without val/: the metric at an import path}; {} without a path."""
    if path is None:
        return {}
    make: OwnMetric = load(path, "--optim.metric")
    try:
        metric = make(num_classes)
    except Exception as error:  # whatever the user's code raises
        problem = f"--optim.metric {path} fails for {num_classes} classes: {type(error).__name__}: {error}"
        raise UsageError(problem, "give a function of the number of classes") from error
    if not isinstance(metric, Metric):
        raise UsageError(f"--optim.metric {path} makes {type(metric).__name__}", "return a torchmetrics.Metric")
    return {metric_name(path): metric}


def metric_name(path: str) -> str:
    """The name of a metric by its import path."""
    return path.partition(":")[2]


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
