"""Temperatures and thresholds, fitted on images that the network was not trained on

A temperature T divides the logits, so that probabilities match accuracies (Guo et al. 2017, "On Calibration of Modern
Neural Networks", section 4.2). Predicted labels stay the same. T > 1 lowers the confidence of a network. T < 1 raises
it, as after label smoothing. Of several labels, each is a classifier of its own and gets its own temperature: rare
labels and common ones are sure to different degrees.

The threshold of a label has the highest F1, or a precision that was asked for. 0.5 is rarely the best threshold of a
rare label, whose probabilities seldom reach it (Lipton et al. 2014, "Optimal Thresholding of Classifiers to Maximize F1
Measure": the best threshold is half the best F1, so at most 0.5, where probabilities are calibrated).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import chdtri, log_softmax

from vit.checkpoints.label_rules import NEVER, range_text
from vit.console import count_of
from vit.data.core.samples import Labels
from vit.errors import some_of
from vit.inference.scores.image_groups import design_effect
from vit.inference.scores.scored_images import Bools, Floats, PerLabel, ScoredImages, log_odds
from vit.tasks.label_text import NOT_KNOWN, PRESENT, LabelRows

PRIOR_STD = 0.5  # of log T; docs/measurements.md says why there is a prior
LOWEST, HIGHEST = 0.05, 20.0
MIN_GAIN = float(chdtri(1, 0.05)) / 2  # nats: a likelihood-ratio test at 5 %
FEWEST = 5  # known images with a label, and without it, for a temperature: fewer say too little
DEFAULT = 0.5  # threshold of a label that no image has
_STEP = 1e-3  # of log T: slopes are differences


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature."""

    fitted: float  # most probable temperature
    # nats by which the log-likelihood of all images at its best temperature exceeds the one at temperature 1; over the
    # design effect, where groups of images are alike
    gain: float
    num_images: int  # number of images in the fit
    split: str = "validation"  # split of these images

    @property
    def is_clear(self) -> bool:
        """Whether the images tell the temperature from 1. With few images a fit often makes probabilities worse."""
        return bool(self.gain > MIN_GAIN)

    @property
    def value(self) -> float:
        """The number that divides the logits: the fitted temperature if it is clear, else 1."""
        return self.fitted if self.is_clear else 1.0

    def describe(self) -> str:
        """The value and its origin, for people."""
        if self.is_clear:
            return f"{self.fitted:.3f}, fitted on {self.num_images:,} {self.split} images"
        images = count_of(self.num_images, f"{self.split} image")
        return f"stays 1: {images} cannot tell it from 1 (fitted: {self.fitted:.3f})"


def fit_temperature(scored: ScoredImages, split: str = "validation") -> Temperature:
    """The temperature that should divide the logits behind the probabilities of images, scored at temperature 1.

    It maximizes the posterior probability under a prior: log T is normal around 0 with a standard deviation of 0.5.
    Without a prior T would be 0 when every prediction is right, which is common with few images. A hundred images
    outweigh the prior. Groups of images count as many as tell as much.
    """
    assert scored.temperature == 1.0
    logits, rows = scored.log_probabilities, np.arange(len(scored.labels))

    def losses(log_temperature: float) -> PerLabel:
        return np.asarray(-log_softmax(logits / np.exp(log_temperature), axis=1)[rows, scored.labels])

    return _most_probable(losses, split, scored.groups)


def _most_probable(losses: Callable[[float], PerLabel], split: str, groups: Labels | None) -> Temperature:
    """The temperature with the highest posterior probability. `losses` are those of each image (n,) at a log T."""

    def minimum(effect: float, prior_std: float) -> tuple[float, float]:
        """(log T, loss) of the best temperature."""

        def loss(log_temperature: float) -> float:
            return float(losses(log_temperature).sum()) / effect + 0.5 * (log_temperature / prior_std) ** 2

        ends = np.log(LOWEST), np.log(HIGHEST)
        optimum = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-6})
        return float(optimum.x), float(optimum.fun)

    _, least_loss = minimum(1.0, np.inf)
    likely, _ = minimum(1.0, PRIOR_STD)  # without the prior, slopes vanish where every prediction is right
    slopes = (losses(likely + _STEP) - losses(likely - _STEP)) / (2 * _STEP)
    effect = design_effect(slopes, groups)
    best, _ = minimum(effect, PRIOR_STD)
    at_one = losses(0.0)
    return Temperature(float(np.exp(best)), (float(at_one.sum()) - least_loss) / effect, len(at_one), split)


@dataclass(frozen=True)
class LabelTemperatures:
    """A fitted temperature for each label."""

    # (K,) temperature of each label; None where too few images have it, or lack it
    fitted: tuple[Temperature | None, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """(K,) numbers that divide the logits: the fitted ones where they are clear, else 1."""
        return tuple(1.0 if one is None else one.value for one in self.fitted)

    def describe(self) -> str:
        """The values and their origin, for people."""
        count, values = len(self.fitted), [one.fitted for one in self.fitted if one is not None and one.is_clear]
        if not values:
            return f"of all {count:,} labels stay 1: the images do not tell them from 1"
        text = f"of {len(values):,} of {count:,} labels are fitted ({min(values):.3f} to {max(values):.3f})"
        return text if len(values) == count else f"{text}, the others stay 1"


def fit_label_temperatures(
    labels: LabelRows, probabilities: Floats, split: str = "validation", groups: Labels | None = None
) -> LabelTemperatures:
    """The temperatures that should divide the logits behind probabilities (n, K), sigmoids at temperature 1."""
    logits = log_odds(probabilities)
    return LabelTemperatures(tuple(_fit(labels[:, k], logits[:, k], split, groups) for k in range(labels.shape[1])))


def _fit(labels: LabelRows, logits: PerLabel, split: str, groups: Labels | None) -> Temperature | None:
    known = labels != NOT_KNOWN
    present = labels[known] == PRESENT
    if min(present.sum(), (~present).sum()) < FEWEST:
        return None
    signed = np.where(present, -logits[known], logits[known])  # the loss of a label is log(1 + exp(signed))

    def losses(log_temperature: float) -> PerLabel:
        return np.asarray(np.logaddexp(0.0, signed / np.exp(log_temperature)))

    return _most_probable(losses, split, None if groups is None else groups[known])


@dataclass(frozen=True)
class LabelThresholds:
    """A threshold for each label. An image gets a label from this probability on."""

    values: tuple[float, ...]  # (K,) thresholds; `NEVER` for a label that does not reach the precision at any
    without_positives: tuple[int, ...]  # numbers of the labels that no image has: their thresholds stay 0.5
    min_precision: float | None  # lowest precision that was asked for; None: the thresholds have the highest F1
    num_images: int  # number of images in the fit

    def describe(self, label_names: Sequence[str]) -> list[str]:
        """What was chosen, and what could not be, in one sentence each."""
        few = some_of((label_names[number] for number in self.without_positives), 10)
        never = some_of((name for name, value in zip(label_names, self.values, strict=True) if value == NEVER), 10)
        rule = "with the highest F1" if self.min_precision is None else f"of precision {100 * self.min_precision:g} %"
        lines = [f"thresholds {rule}: {range_text(self.values)}, chosen on {self.num_images:,} images"]
        if few:
            lines.append(f"WARNING: none of these images has {few}: the threshold stays {DEFAULT}")
        if never:
            lines.append(f"WARNING: no threshold reaches this precision, so no image gets {never}")
        return lines


def fit_label_thresholds(
    labels: LabelRows, probabilities: Floats, min_precision: float | None = None
) -> LabelThresholds:
    """The thresholds for new images like these, with probabilities (n, K) at the labels' temperatures.

    They have a lowest precision, reached with as many images of a label as possible, or else the highest F1.
    """
    values, without = list[float](), list[int]()
    for number in range(labels.shape[1]):
        known = labels[:, number] != NOT_KNOWN
        present = labels[known, number] == PRESENT
        if present.any():
            values.append(_threshold(present, probabilities[known, number], min_precision))
        else:
            values.append(DEFAULT)
            without.append(number)
    return LabelThresholds(tuple(values), tuple(without), min_precision, len(labels))


def _threshold(present: Bools, probabilities: Floats, min_precision: float | None) -> float:
    """The threshold of one label, halfway between two probabilities: engines differ in the last digits."""
    from sklearn.metrics import precision_recall_curve  # 0.3 seconds, where nothing is fitted

    precision, recall, thresholds = precision_recall_curve(present, probabilities)
    precision, recall = precision[:-1], recall[:-1]  # the last point has no threshold
    if min_precision is None:
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        best = int(f1.argmax())
    else:
        enough = np.flatnonzero((precision >= min_precision) & (recall > 0))
        if not len(enough):
            return NEVER
        best = int(enough[0])  # thresholds rise, so that this one has the highest recall
    below = float(thresholds[best - 1]) if best else 0.0
    return (float(thresholds[best]) + below) / 2
