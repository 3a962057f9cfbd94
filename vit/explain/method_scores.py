"""Faithfulness of each explanation method over several images, with intervals"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from vit.explain.faithfulness import Faithfulness


@dataclass(frozen=True)
class MethodScore:
    """Faithfulness of a method over some images: means, and gains over random orders with 95 % t intervals.

    A gain above 0 means that the map is better than chance.

    Attributes:
        num_images: number of images.
        deletion: mean area under the deletion curve.
        insertion: mean area under the insertion curve.
        random: mean area for random orders.
        deletion_gain: random minus deletion.
        deletion_half: half the width of the gain's interval, or NaN with one image.
        deletion_better: number of images with a gain.
        insertion_gain: insertion minus random.
        insertion_half: half the width of the gain's interval, or NaN with one image.
        insertion_better: number of images with a gain.
    """

    method: str
    num_images: int
    deletion: float
    insertion: float
    random: float
    deletion_gain: float
    deletion_half: float
    deletion_better: int
    insertion_gain: float
    insertion_half: float
    insertion_better: int


def score_method(method: str, found: Sequence[Faithfulness]) -> MethodScore:
    """The score of a method over one image or more."""
    falls = [one.random - one.deletion for one in found]
    rises = [one.insertion - one.random for one in found]
    return MethodScore(
        method,
        len(found),
        statistics.fmean(one.deletion for one in found),
        statistics.fmean(one.insertion for one in found),
        statistics.fmean(one.random for one in found),
        statistics.fmean(falls),
        _half(falls),
        sum(gain > 0 for gain in falls),
        statistics.fmean(rises),
        _half(rises),
        sum(gain > 0 for gain in rises),
    )


def _half(gains: Sequence[float]) -> float:
    """Half the width of the mean's 95 % t interval."""
    if len(gains) < 2:
        return math.nan
    return float(stdtrit(len(gains) - 1, 0.975)) * statistics.stdev(gains) / math.sqrt(len(gains))
