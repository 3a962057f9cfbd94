"""Studies drawn from known power laws: how often what is said of them is true.

Each error is the curve's value times a lognormal factor. Half of the factor's variance comes from the subset, which the
two networks of a seed share; with test noise, the wrong images are drawn from a binomial besides. Five seeds, seven sizes
from 100 to 10,000 images. Every share below is of `STUDIES` studies, so it has a standard deviation of about 1.1 points.
"""

import numpy as np
import pytest

from vit.study.crossover import compare
from vit.study.findings import Point, Series
from vit.study.learning_curve import fit_curve
from vit.study.paired import mean_interval

STUDIES = 400
SEEDS = 5
T = 10_000
SIZES = np.geomspace(100, 10_000, 7).round()


def _along_sizes(generator, shape, nested):
    """Standard normal deviates; of one seed at neighbouring sizes with the correlation `nested`."""
    deviates = generator.standard_normal(shape)
    for place in range(1, len(deviates)):
        deviates[place] = nested * deviates[place - 1] + np.sqrt(1 - nested**2) * deviates[place]
    return deviates


def draw(generator, curves, noise, binomial=False, nested=0.0, sizes=SIZES):
    """Points of each curve of one study."""
    shape = (len(sizes), SEEDS)
    subset = _along_sizes(generator, shape, nested)
    for curve in curves:
        factor = np.exp(noise * (subset + _along_sizes(generator, shape, nested)) / np.sqrt(2))
        errors = np.minimum(curve(sizes)[:, None] * factor, 1.0)
        if binomial:
            errors = generator.binomial(T, errors) / T
        yield [
            Point(int(size), list(range(SEEDS)), row.tolist(), mean_interval(row), 1.0, 1.0)
            for size, row in zip(sizes, errors, strict=True)
        ]


def studies(curves, noise, binomial=False, nested=0.0, count=STUDIES):
    """Comparisons of the two curves, one a study."""
    generator = np.random.default_rng([round(1000 * noise), binomial, round(10 * nested)])
    for _ in range(count):
        pair = draw(generator, curves, noise, binomial, nested)
        yield compare(*(Series(name, name, 1, 1, points, None) for name, points in zip("AB", pair, strict=True)), T)


def power(at, error, exponent, floor=0.0):
    """A curve that has `error` with `at` images."""
    return lambda images: floor + (error - floor) * (images / at) ** exponent
