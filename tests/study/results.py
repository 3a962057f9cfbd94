"""Results of runs that were never trained: right and wrong answers around known curves."""

import numpy as np

from vit.study.findings import CellResult

T = 10_000
SIZES = (100, 300, 1000, 3000, 10_000)
PROTOCOL = {"budget": "2,000 optimizer steps at every size"}


def run(series, images, seed, wrong, **changes):
    correct = np.ones(T, dtype=bool)
    correct[: round(wrong)] = False
    values = {
        "series": series, "network": series, "num_images": images, "seed": seed, "accuracy": correct.mean().item(),
        "validation_loss": 0.1 + 0.2, "steps": 2000, "batch_size": 100, "epochs": 2000 / 3, "best_round": 3,
        "parameters": 1234, "flops": 5678, "seconds": 10.0 + seed, "last_is_better": False, "images_per_second": 100.0,
        "run": f"runs/{series}/{images}/{seed}", "correct": correct,
    }  # fmt: skip
    return CellResult(**{**values, **changes})


def study(curves, sizes=SIZES, seeds=5, noise=0.02):
    """Runs of {name: errors at each size}."""
    generator = np.random.default_rng(3)
    return [
        run(name, images, seed, T * error * np.exp(noise * generator.normal()))
        for seed in range(seeds)
        for name, errors in curves.items()
        for images, error in zip(sizes, errors, strict=True)
    ]


def law(scale, exponent, floor=0.02):
    return [floor + scale * images**exponent for images in SIZES]
