"""Few test images: is a study better where each seed has a test fold of its own, and do its claims hold?

Two equal networks learn K parts of the images and are compared. Either all seeds share one test set, as in `vit study`,
or each seed tests its own fold, so that the same trainings test K times as many images. The variance of the folds is
estimated in three ways, and an interval of each is judged by how often it misses the true gap of zero.

    python benchmarks/study_folds.py --studies 4000

A second table is about one network: its error, and its gain from more images where there is none.

A seed moves the gap of its fold by a normal, heavy-tailed or collapsing effect. Networks of different folds share most
of their training images, so that a part of this effect is common to all folds.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from vit.study.statistics.paired import Pair, difference, gains
from vit.study.statistics.variance_components import Spread, mean_error

Floats = npt.NDArray[np.float64]
SEEDS_AND_IMAGES = (2, 40), (5, 40), (2, 80)
DISAGREE = 0.22  # of the images one network alone has right


@dataclass(frozen=True)
class World:
    """Two equal networks.

    Attributes:
        num_folds: number of seeds, and of folds.
        fold: number of test images of a seed.
        spread: standard deviation of a seed's effect on the gap.
        shared: part of the variance of this effect that all folds have in common.
        shape: "normal", "t4", or "collapse": one training in ten is worse by 15 points.
    """

    num_folds: int
    fold: int
    spread: float
    shared: float = 0.0
    shape: str = "normal"

    def effects(self, random: np.random.Generator) -> Floats:
        """(K,) effects of the seeds on the gap."""
        count = self.num_folds
        if self.shape == "t4":
            own = random.standard_t(4, count) / 2**0.5
        elif self.shape == "collapse":
            bad = (random.random((2, count)) < 0.1).astype(float)
            return 0.15 * (bad[0] - bad[1]) + self.spread * random.standard_normal(count)
        else:
            own = random.standard_normal(count)
        common = random.standard_normal()
        return self.spread * ((1 - self.shared) ** 0.5 * own + self.shared**0.5 * common)

    def folds(self, random: np.random.Generator) -> Floats:
        """(K, T) gaps of the images, other images for each seed."""
        return self._answers(random, self.effects(random), random.random((self.num_folds, self.fold)))

    def one_set(self, random: np.random.Generator) -> Floats:
        """(K, T) gaps of the same images for each seed: half of what decides an answer belongs to the image."""
        image = np.where(random.random(self.fold) < 0.5, random.random(self.fold), np.nan)
        drawn = np.where(np.isnan(image), random.random((self.num_folds, self.fold)), image)
        return self._answers(random, self.effects(random), drawn)

    def _answers(self, random: np.random.Generator, effects: Floats, drawn: Floats) -> Floats:
        first = (DISAGREE + effects[:, None]) / 2
        second = (DISAGREE - effects[:, None]) / 2
        return (drawn < first).astype(float) - (drawn > 1 - second)


def crossed(gaps: Floats) -> float:
    """Half the interval of `vit study`, where all seeds share their test images."""
    return Spread.of(gaps).at_least(1 / gaps.shape[1]).reach()


def nadeau_bengio(gaps: Floats) -> float:
    """Half the interval with the variance (1 / K + 1 / (K - 1)) S^2 of Nadeau and Bengio (2003)."""
    count = len(gaps)
    spread = gaps.mean(axis=1).var(ddof=1)
    return float(stdtrit(count - 1, 0.975) * (spread * (1 / count + 1 / (count - 1))) ** 0.5)


def of_folds(gaps: Floats) -> float:
    """Half the interval by the folds' means alone, which takes folds for independent."""
    return float(stdtrit(len(gaps) - 1, 0.975) * (gaps.mean(axis=1).var(ddof=1) / len(gaps)) ** 0.5)


def moderated(gaps: Floats) -> float:
    """Half the interval of `vit study` with folds: the images' own scatter is a prior for the folds' means."""
    pair = Pair(1, list(range(len(gaps))), gaps > 0, gaps < 0, None, has_folds=True)
    margin = difference(pair).margin_of_error
    assert margin is not None
    return margin.now


WORLDS = {
    "no effect of seeds": World(5, 40, 0.0),
    "2 points": World(5, 40, 0.02),
    "2 points, a third shared": World(5, 40, 0.02, 1 / 3),
    "4 points": World(5, 40, 0.04),
    "4 points, a third shared": World(5, 40, 0.04, 1 / 3),
    "4 points, t4": World(5, 40, 0.04, 0.0, "t4"),
    "one in ten collapses": World(5, 40, 0.02, 0.0, "collapse"),
    "2 seeds of 5 folds, 2 points": World(2, 40, 0.02),
    "3 seeds of 5 folds, 4 points": World(3, 40, 0.04),
    "3 folds of 67, 2 points": World(3, 67, 0.02),
    "10 folds of 20, 2 points": World(10, 20, 0.02),
    "5 folds of 100, 2 points": World(5, 100, 0.02),
}


def rows(studies: int) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """(world, (false verdicts, mean half width) of each way), the study as it is first."""
    ways = (crossed, of_folds, nadeau_bengio, moderated)
    for name, world in WORLDS.items():
        random = np.random.default_rng(0)
        found = np.zeros((len(ways), 2))
        for _ in range(studies):
            one_set, folds = world.one_set(random), world.folds(random)
            for index, way in enumerate(ways):
                gaps = one_set if way is crossed else folds
                reach = way(gaps)
                found[index] += (abs(gaps.mean()) > reach, reach)
        yield name, [(wrong / studies, width / studies) for wrong, width in found]


def rows_of_errors(studies: int) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """(world, (how often an interval misses the truth, mean half width)) of the error and of the gain, by two models.

    Half of the images are as hard for the training on more images as for the other one.
    """
    for (seeds, images), error, scatter in itertools.product(SEEDS_AND_IMAGES, (0.1, 0.3), (0.0, 0.04)):
        random, found = np.random.default_rng(0), np.zeros((4, 2))
        for _ in range(studies):
            drawn = random.random((seeds, images))
            again = np.where(random.random(drawn.shape) < 0.5, drawn, random.random(drawn.shape))
            small, large = (
                values < np.clip(error + scatter * random.standard_normal((seeds, 1)), 0, 1)
                for values in (drawn, again)
            )
            for place, has_folds in enumerate((False, True)):
                step = gains({"": {1: dict(enumerate(small)), 2: dict(enumerate(large))}}, None, has_folds)[""][-1]
                for index, interval, truth in (
                    (place, mean_error(small, None, has_folds), error),
                    (place + 2, step.points, 0.0),
                ):
                    assert interval.low is not None
                    assert interval.high is not None
                    misses = not interval.low <= truth <= interval.high
                    found[index] += misses, (interval.high - interval.low) / 2
        yield (
            f"{seeds} seeds, {images} images, error {error:.0%}, ±{scatter:.0%}",
            [(wrong / studies, width / studies) for wrong, width in found],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=4000)
    studies = parser.parse_args().studies
    print("| effect of a seed | one test set | folds | folds, Nadeau and Bengio | folds, moderated |")
    print("|---|---|---|---|---|")
    for name, found in rows(studies):
        cells = [f"{100 * wrong:.1f} %, ±{100 * width:.1f}" for wrong, width in found]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| one network | error, one test set | error, folds | gain, one test set | gain, folds |")
    print("|---|---|---|---|---|")
    for name, found in rows_of_errors(studies):
        cells = [f"{100 * wrong:.1f} %, ±{100 * width:.1f}" for wrong, width in found]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"\nFalse verdicts (± {100 * (0.05 * 0.95 / studies) ** 0.5:.1f}) and the mean half width in points.")


if __name__ == "__main__":
    main()
