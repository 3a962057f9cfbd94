"""Power laws with a floor, fitted by weighted least squares to many resamples at once

e(n) = a + b n^c with a >= 0, b > 0 and -2 <= c < 0 (Hestness et al. 2017, "Deep Learning Scaling is Predictable,
Empirically"; Hoiem et al. 2021, "Learning Curves for Analysis of Deep Networks"). For a given c the curve is linear in
(a, b), so the search covers c alone, on a grid (variable projection).
"""

from dataclasses import dataclass

import numpy as np

from vit.study.variance_components import Floats

_EXPONENTS = np.linspace(-2.0, -0.01, 100)


@dataclass(frozen=True)
class PowerLaws:
    """R curves floor + scale * (n / center)^exponent. Each parameter is (R,)."""

    floor: Floats
    scale: Floats
    exponent: Floats
    center: float

    def error_at(self, num_images: float) -> Floats:
        """(R,) errors at a number of images."""
        return np.asarray(self.floor + self.scale * (num_images / self.center) ** self.exponent)

    def factor(self) -> Floats:
        """(R,) b of a + b n^c."""
        return np.asarray(self.scale * self.center**-self.exponent)

    def log_images_for(self, error: float) -> Floats:
        """(R,) log of the number of images at which the error is `error`, or inf for a curve that stays above."""
        reached = (self.floor < error) & (self.scale > 0)
        above = np.where(reached, error - self.floor, 1.0) / np.where(reached, self.scale, 1.0)
        return np.where(reached, np.log(self.center) + np.log(above) / self.exponent, np.inf)


def least_squares(sizes: Floats, means: Floats, errors: Floats, floorless: bool = False) -> PowerLaws:
    """The best curve for each row of `means` (R, m) at `sizes` (m,), given the standard errors (m,) of the means."""
    center = float(np.exp(np.log(sizes).mean()))  # keeps n^c near 1, and the sums below well conditioned
    step = float(_EXPONENTS[1] - _EXPONENTS[0])
    floor, scale, exponent = _best(_EXPONENTS, sizes / center, means, errors, floorless)
    for _ in range(5):
        near = np.clip(exponent[:, None] + step * np.linspace(-1.0, 1.0, 11), _EXPONENTS[0], _EXPONENTS[-1])
        floor, scale, exponent = _best(near, sizes / center, means, errors, floorless)
        step /= 5
    return PowerLaws(floor, scale, exponent, center)


def _best(
    exponents: Floats, sizes: Floats, means: Floats, errors: Floats, floorless: bool
) -> tuple[Floats, Floats, Floats]:
    """Floor, scale and exponent (R,) of the least weighted squares among the exponents (G,) or (R, G)."""
    weights = errors**-2
    powers = sizes ** exponents[..., None]
    s_1, s_y = weights.sum(), (means @ weights)[:, None]
    s_x, s_xx = powers @ weights, powers**2 @ weights
    s_xy = (powers @ (means * weights)[..., None])[..., 0]
    floor = (s_xx * s_y - s_x * s_xy) / (s_1 * s_xx - s_x**2)
    scale = (s_1 * s_xy - s_x * s_y) / (s_1 * s_xx - s_x**2)
    below = (floor < 0) | floorless
    floor, scale = np.where(below, 0.0, floor), np.where(below, s_xy / s_xx, scale)
    floor, scale = np.where(scale < 0, s_y / s_1, floor), np.where(scale < 0, 0.0, scale)
    lost = floor**2 * s_1 + scale**2 * s_xx + 2 * (floor * scale * s_x - floor * s_y - scale * s_xy)
    rows, best = np.arange(len(means)), lost.argmin(axis=1)
    return floor[rows, best], scale[rows, best], np.broadcast_to(exponents, lost.shape)[rows, best]
