"""Fractions of counted cases: Wilson's interval and the sign test, without `scipy.stats`, which is slow to import"""

import math

from scipy.special import bdtr, ndtri

_Z = float(ndtri(0.975))


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a fraction, for a total above 0 (Wilson 1927)."""
    fraction, scale = count / total, 2 * (total + _Z**2)
    center = (2 * total * fraction + _Z**2) / scale
    half = _Z / scale * math.sqrt(4 * total * fraction * (1 - fraction) + _Z**2)
    low = 0.0 if count == 0 else center - half
    high = 1.0 if count == total else center + half
    return low, high


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p value that wins and losses are equally likely; 1 without any."""
    total = wins + losses
    return min(1.0, 2 * float(bdtr(min(wins, losses), total, 0.5))) if total else 1.0
