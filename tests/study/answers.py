"""Which test images the networks of a made study have wrong."""

import numpy as np

T = 10_000


def answers(errors, sizes, images=T, order=None, seed=0):
    """{size: {seed: (images,) wrong}} with exactly the errors given, a row for each size.

    The wrong images of a seed are drawn again for each size: nothing but its number of errors makes a seed or an image
    differ from another.
    """
    generator = np.random.default_rng([seed, images])
    found = {}
    for size, row in zip(sizes, errors, strict=True):
        tables = {}
        for number, error in enumerate(row):
            wrong = np.zeros(images, dtype=bool)
            wrong[generator.permutation(images)[: round(error * images)]] = True
            tables[number] = wrong
        found[size] = {number: tables[number] for number in (order or tables)}
    return found
