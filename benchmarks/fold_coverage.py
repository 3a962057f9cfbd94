"""How often does the interval of `vit crossval` contain the true accuracy? Simulated worlds, without any network.

    python benchmarks/fold_coverage.py [--repeats 500]

A world has two classes of normal vectors, and a linear learner: the nearest centroid, or least squares with a ridge.
Each repetition draws n images and cross-validates. The truth is the expected accuracy of a training on n (K - 1) / K
images, over training sets, which is known from 400 trainings and the normal distribution. Four intervals are compared:

    naive     Wilson's, which takes all images for independent
    t         Student's t on the K accuracies, which takes the folds for independent
    NB        Nadeau and Bengio 2003: the same with the variance (1 / K + 1 / (K - 1)) S^2
    program   NB, never narrower than the naive one, as `fold_accuracy` computes it
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

from vit.study.crossval import fold_accuracy

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]


@dataclass(frozen=True)
class World:
    """Two classes of normal vectors, and how they are learned.

    Attributes:
        distance: half the distance of the class means, in standard deviations.
        ridge: penalty of least squares; None: nearest centroid.
    """

    num_images: int
    dimensions: int
    distance: float
    ridge: float | None
    folds: int

    @property
    def mean(self) -> Floats:
        """(d,) mean of class 1; class 0 has its negative. Five dimensions tell the classes apart."""
        return np.where(np.arange(self.dimensions) < 5, self.distance / 5**0.5, 0.0)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
        """(images (n, d), labels (n,)), as many of each class."""
        labels = generator.permutation(np.arange(count) % 2)
        return generator.standard_normal((count, self.dimensions)) + np.outer(2 * labels - 1, self.mean), labels

    def learn(self, images: Floats, labels: npt.NDArray[np.int64]) -> Floats:
        """(d + 1,) weights and bias."""
        if self.ridge is None:
            centers = np.stack([images[labels == one].mean(axis=0) for one in (0, 1)])
            weights = centers[1] - centers[0]
            return np.append(weights, -centers.mean(axis=0) @ weights)
        inputs = np.column_stack([images, np.ones(len(images))])
        penalty = self.ridge * np.eye(inputs.shape[1])
        return np.asarray(np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ (2 * labels - 1)))

    def accuracy(self, learned: Floats) -> float:
        """The accuracy on all images of the world."""
        length, signal = np.linalg.norm(learned[:-1]), learned[:-1] @ self.mean
        return float(ndtr((signal + learned[-1]) / length) + ndtr((signal - learned[-1]) / length)) / 2


def intervals(correct: npt.NDArray[np.bool_], folds: npt.NDArray[np.int64]) -> dict[str, Ends]:
    """The ends of each interval."""
    count, found = int(folds.max()) + 1, fold_accuracy(correct, folds)
    of_fold = np.bincount(folds, correct) / np.bincount(folds)
    reach = float(stdtrit(count - 1, 0.975)) * float(of_fold.std(ddof=1))
    t, corrected = reach * (1 / count) ** 0.5, reach * (1 / count + 1 / (count - 1)) ** 0.5
    center = float(correct.mean())
    return {
        "naive": (float(found.naive.low or 0), float(found.naive.high or 1)),
        "t": (center - t, center + t),
        "NB": (center - corrected, center + corrected),
        "program": (float(found.accuracy.low or 0), float(found.accuracy.high or 1)),
    }


def measure(world: World, repeats: int, seed: int = 1) -> tuple[float, dict[str, float], dict[str, float]]:
    """(true accuracy, {interval: percentage of intervals that contain it}, {interval: mean width})."""
    generator = np.random.default_rng(seed)
    training = world.num_images - world.num_images // world.folds
    truth = float(np.mean([world.accuracy(world.learn(*world.draw(training, generator))) for _ in range(400)]))
    inside: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for _ in range(repeats):
        images, labels = world.draw(world.num_images, generator)
        folds = np.empty(len(labels), dtype=np.int64)
        folds[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % world.folds
        correct = np.empty(len(labels), dtype=np.bool_)
        for fold in range(world.folds):
            test = folds == fold
            learned = world.learn(images[~test], labels[~test])
            correct[test] = (images[test] @ learned[:-1] + learned[-1] > 0) == (labels[test] == 1)
        for name, (low, high) in intervals(correct, folds).items():
            inside.setdefault(name, []).append(low <= truth <= high)
            widths.setdefault(name, []).append(high - low)
    return (
        truth,
        {name: 100 * float(np.mean(values)) for name, values in inside.items()},
        {name: 100 * float(np.mean(values)) for name, values in widths.items()},
    )


def main(words: Sequence[str] | None = None) -> None:
    """Print a row of docs/measurements.md for each world."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    options = parser.parse_args(words)
    shapes: tuple[tuple[int, int, float, float | None], ...] = (
        (100, 20, 0.8, 1.0), (100, 200, 0.8, None), (300, 50, 0.6, 1.0), (300, 400, 1.0, None), (1000, 100, 1.5, 1.0),
        (1000, 20, 0.4, 1.0),
    )  # fmt: skip
    for folds in (5, 10):
        for shape in shapes:
            world = World(*shape, folds)
            truth, inside, widths = measure(world, options.repeats)
            cells = " | ".join(f"{inside[name]:.1f} ({widths[name]:.1f})" for name in inside)
            learner = "centroid" if world.ridge is None else "ridge"
            start = f"| {folds} | {world.num_images:,} | {world.dimensions} | {learner} | {100 * truth:.1f} %"
            print(f"{start} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
