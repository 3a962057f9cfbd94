"""Numbers with their 95 % intervals"""

from dataclasses import dataclass

from scipy.stats import binomtest


@dataclass(frozen=True)
class Metric:
    """A metric with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def fraction(cls, count: int, total: int) -> "Metric":
        """`count` of `total` images, with Wilson's interval."""
        within = binomtest(count, total).proportion_ci(0.95, "wilson")
        return cls(count / total, float(within.low), float(within.high))
