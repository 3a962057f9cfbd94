"""LabelRules: the temperature and the threshold of each label, for a model that gives an image several labels"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.tasks.task import Task

Floats = npt.NDArray[np.float64]

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-3, 1e3  # beyond, probabilities are NaN or all equal
NEVER = 2.0  # a threshold that no probability reaches, not even one that is rounded to 1


def threshold_text(threshold: float) -> str:
    """A threshold for people."""
    return "never" if threshold == NEVER else f"{threshold:.3f}"


def range_text(thresholds: Iterable[float]) -> str:
    """The lowest and the highest of some thresholds for people, without labels that no image gets."""
    reached = [value for value in thresholds if value != NEVER]
    return f"{min(reached):.3f} to {max(reached):.3f}" if reached else "none, for no image gets a label"


def unfitted_rules(task: Task, num_labels: int) -> "LabelRules | None":
    """The rules of a model before they are fitted; None where an image has one class."""
    return None if task.is_exclusive else LabelRules.unfitted(num_labels)


@dataclass(frozen=True, eq=False)
class LabelRules:
    """The rule of each of K labels. An image has label k where sigmoid(logit k / temperatures[k]) >= thresholds[k]."""

    temperatures: Floats  # (K,) positive divisors of the logits
    thresholds: Floats  # (K,) probabilities from 0 to 1, after the temperature; `NEVER` for a label that no image gets

    def __len__(self) -> int:
        return len(self.thresholds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelRules) and self.to_plain() == other.to_plain()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def unfitted(cls, num_labels: int) -> "LabelRules":
        """The rules during a training: temperature 1 and threshold 0.5."""
        return cls(np.ones(num_labels), np.full(num_labels, 0.5))

    def to_plain(self) -> dict[str, list[float]]:
        return {"temperatures": self.temperatures.tolist(), "thresholds": self.thresholds.tolist()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], num_labels: int) -> "LabelRules":
        """The rules that `to_plain` wrote, checked. KeyError, TypeError, ValueError: it is not such a mapping."""
        temperatures, thresholds = ([float(value) for value in plain[name]] for name in ("temperatures", "thresholds"))
        if not len(temperatures) == len(thresholds) == num_labels:
            raise ValueError(
                f"{len(temperatures):,} temperatures and {len(thresholds):,} thresholds of {num_labels:,} labels"
            )
        if not all(MIN_TEMPERATURE <= value <= MAX_TEMPERATURE for value in temperatures):
            raise ValueError(f"a label's temperature is not between {MIN_TEMPERATURE:g} and {MAX_TEMPERATURE:g}")
        if not all(0 <= value <= 1 or value == NEVER for value in thresholds):
            raise ValueError("a label's threshold is not a probability")
        return cls(np.array(temperatures), np.array(thresholds))
