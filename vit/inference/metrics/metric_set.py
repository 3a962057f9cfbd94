"""What the metrics of both tasks share: values with intervals, calibration errors, and how people read them"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from vit.console import interval, percent
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import Floats

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error (ECE), without an interval.

    With few images the value is too large (Kumar et al. 2019, arXiv 1909.10155), and in a bootstrap even larger.
    """

    value: float  # mean gap between confidence and accuracy over 15 bins, weighted by the images of a bin
    chance: float  # expected value for a perfectly calibrated network with as many images of the same confidences


@dataclass(frozen=True)
class Calibration:
    """The metrics that depend on the temperature."""

    nll: Metric
    ece: CalibrationError

    def to_dict(self) -> dict[str, dict[str, float]]:
        """{name: {value, low, high}}, and for ece {value, chance}."""
        return asdict(self)

    def describe(self) -> str:
        """Both values for people."""
        return f"calibration error {percent(self.ece.value)}, log-loss {self.nll.value:.4f}"


class MetricSet:
    """Metrics over all images; subclasses are dataclasses of metrics."""

    TITLES: ClassVar[Mapping[str, str]]  # {name: name for people}, in the order of tables
    nll: Metric
    ece: CalibrationError

    def to_dict(self) -> dict[str, dict[str, float]]:
        """{name: {value, low, high}}, and for ece {value, chance}, as in result.json."""
        plain: dict[str, dict[str, float] | None] = asdict(self)  # type: ignore[call-overload]
        return {name: metric for name, metric in plain.items() if metric is not None}

    def facts(self) -> list[tuple[str, str]]:
        """Every metric with its interval, for people."""
        ece, nll = self.ece, self.nll
        texts = {name: interval(**metric) for name, metric in self.to_dict().items() if name not in ("ece", "nll")}
        texts["ece"] = f"{percent(ece.value)} ({percent(ece.chance)} by chance, were it calibrated)"
        texts["nll"] = f"{nll.value:.4f} ({nll.low:.4f} to {nll.high:.4f})"
        return [(title, texts[name]) for name, title in self.TITLES.items() if name in texts]


@dataclass(frozen=True)
class MeasuredTable:
    """The classes or labels of a measurement for people."""

    title: str  # which of them the table has, and in which order
    columns: tuple[str, ...]
    rows: list[tuple[str | int, ...]]
    note: str  # how many have no images; "" where all have some


def calibration_error(correct: npt.NDArray[np.bool_], confidences: Floats) -> CalibrationError:
    """The calibration error, and its expected value for a calibrated network.

    The number of right images in a bin of confidences c is then nearly normal, with variance sum(c (1 - c)).
    """
    sure = confidences.astype(np.float64)
    bins = np.minimum((confidences * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, correct - sure, CALIBRATION_BINS)
    variances = np.bincount(bins, np.maximum(sure * (1.0 - sure), 0.0), CALIBRATION_BINS)
    return CalibrationError(
        value=float(np.abs(gaps).sum() / len(sure)),
        chance=float(np.sqrt(2 / np.pi * variances).sum() / len(sure)),
    )


def decimals(*values: float | None) -> list[str]:
    """Numbers with three decimals; "" for None."""
    return ["" if value is None else f"{value:.3f}" for value in values]
