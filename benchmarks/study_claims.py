"""How often are the claims of `vit study` true? Its statistics judge studies that are drawn from a known world.

    python benchmarks/study_claims.py [--studies 2000] [--only PART]

The world has the structure of real studies. Every study has one test set, which all seeds and networks share. A test
image has a difficulty that is common to all networks, and one for each network and size. The subsets of a seed lie
inside each other, and the networks of a seed share them. A network misclassifies an image where

    common difficulty + network's difficulty + chance (network, seed, size, image)  >  threshold + seed's effect

with normal terms of total variance 1 on the left (a crossed probit model).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr
from scipy.stats import binomtest

from vit.inference.scores.image_groups import gathered
from vit.study.findings import Comparison, Interval
from vit.study.statistics.crossover import compare_with_first
from vit.study.statistics.variance_components import Answers, Spread, mean_error

Curve = Callable[[float], float]  # training images -> error in the population of seeds and images
Floats = npt.NDArray[np.float32]
COLLAPSING, COLLAPSE = 0.1, 1.5  # share of collapsing seeds, and how far their threshold is moved


@dataclass(frozen=True)
class World:
    """What studies are drawn from.

    Attributes:
        agreement: correlation of two seeds of a network, before the threshold.
        common: share of the agreement that all networks have in common.
        scatter: standard deviation of a seed's threshold; half of its variance is that of the subset.
        nested: correlation of what is drawn for a seed, or for a network's difficulties, at neighboring sizes.
        tails: "normal" seeds, "heavy" ones (Student's t with 4 degrees of freedom), or "collapsing" ones, of which one
            in ten misclassifies far more images.
        burst: number of nearly equal test images that follow each other and were not declared.
        rise: the scatter at the largest size over that at the smallest.
        unlike: the scatter of all networks but the first over that of the first.
        found_bursts: share of the bursts that are found, so that each is one group. `vit` does this before its cut.
    """

    seeds: int = 5
    test_images: int = 1000
    sizes: tuple[int, ...] = (1000,)
    agreement: float = 0.7
    common: float = 0.6
    scatter: float = 0.05
    nested: float = 0.6
    tails: Literal["normal", "heavy", "collapsing"] = "normal"
    burst: int = 1
    rise: float = 1.0
    unlike: float = 1.0
    found_bursts: float = 0.0


@dataclass
class Tally:
    """Counts of studies."""

    counts: dict[str, list[int]] = field(default_factory=dict)

    def add(self, name: str, true: bool) -> None:
        """One more case, in which `name` holds or does not."""
        kept = self.counts.setdefault(name, [0, 0])
        kept[0] += bool(true)
        kept[1] += 1

    def share(self, name: str) -> float:
        """Of the cases in which `name` held."""
        hits, cases = self.counts.get(name, [0, 0])
        return hits / cases if cases else float("nan")

    def words(self, name: str) -> str:
        """'4.2 % (3.4 to 5.2)', with Wilson's interval."""
        hits, cases = self.counts.get(name, [0, 0])
        if not cases:
            return "none"
        around = binomtest(hits, cases).proportion_ci(method="wilson")
        return f"{100 * hits / cases:.1f} % ({100 * around.low:.1f} to {100 * around.high:.1f})"


def draw(generator: np.random.Generator, world: World, curves: Sequence[Curve]) -> dict[str, Answers]:
    """One study: {series: which test images are wrong}."""
    k, images, places = world.seeds, world.test_images // world.burst, len(world.sizes)
    own, rest = world.agreement * (1 - world.common), 1 - world.agreement
    common = (world.agreement * world.common) ** 0.5 * generator.standard_normal(images, dtype=np.float32)
    subset = _chain(generator, (places, k), world.nested)
    groups = np.arange(images * world.burst)
    groups[: round(world.found_bursts * images) * world.burst] //= world.burst
    found: dict[str, Answers] = {}
    for number, curve in enumerate(curves):
        hard = common + own**0.5 * _chain(generator, (places, images), world.nested)
        scatter = world.scatter * world.rise ** np.linspace(0, 1, places) * (world.unlike if number else 1.0)
        effect = scatter[:, None] * 0.5**0.5 * (subset + _chain(generator, (places, k), world.nested))
        if world.tails == "heavy":
            effect *= (2 / generator.chisquare(4, (places, k))) ** 0.5  # of the same variance
        if world.tails == "collapsing":
            effect -= COLLAPSE * (generator.random(k) < COLLAPSING)
        chance = rest**0.5 * _chain(generator, (places, k, images), world.nested)
        errors = np.array([curve(size) for size in world.sizes])
        threshold = -ndtri(errors) * (1 + scatter**2) ** 0.5  # so that the mean over the seeds is `errors`
        wrong = np.repeat(hard[:, None] + chance > (threshold[:, None] + effect)[..., None], world.burst, axis=2)
        found["ABCDEFGHIJKLMNOP"[number]] = {
            size: {seed: gathered(one, groups) if world.found_bursts else one for seed, one in enumerate(wrong[place])}
            for place, size in enumerate(world.sizes)
        }
    return found


def _chain(generator: np.random.Generator, shape: tuple[int, ...], nested: float) -> Floats:
    """Standard normal deviates; those of neighboring first indices have the correlation `nested`."""
    drawn = generator.standard_normal(shape, dtype=np.float32)
    for place in range(1, len(drawn)):
        drawn[place] = nested * drawn[place - 1] + (1 - nested**2) ** 0.5 * drawn[place]
    return drawn


def studies(world: World, curves: Sequence[Curve], count: int, seed: int = 0) -> Iterator[dict[str, Answers]]:
    """`count` studies of one world."""
    generator = np.random.default_rng([seed, world.seeds, world.test_images, len(curves), len(world.sizes)])
    for _ in range(count):
        yield draw(generator, world, curves)


def power(at: float, error: float, exponent: float, floor: float = 0.0) -> Curve:
    """A curve that has `error` with `at` images."""
    return lambda images: floor + (error - floor) * (images / at) ** exponent


def false_claims(world: World, num_series: int, count: int, error: float = 0.1) -> Tally:
    """Of studies of equal networks: how many claim any difference; and what a test over the seeds alone would claim."""
    curve = power(world.sizes[-1], error, -0.3)
    found = Tally()
    for answers in studies(world, [curve] * num_series, count):
        comparisons = compare_with_first(answers)
        found.add("claims", any(claims(comparisons)))
        found.add("over the seeds alone", any(_over_seeds_alone(answers)))
    return found


def claims(comparisons: Sequence[Comparison]) -> Iterator[bool]:
    """Whether each test of a study claims something."""
    for comparison in comparisons:
        yield from (one.p_adjusted < 0.05 for one in comparison.differences)
        yield comparison.slope_p < 0.05
        yield comparison.verdict != "not resolved"


def _over_seeds_alone(answers: dict[str, Answers]) -> Iterator[bool]:
    """Whether the paired t test over the seeds, Holm's correction over the sizes, claims something of each pair.

    That was the test of `vit study` before it allowed for the test images.
    """
    first, *others = answers.values()
    for other in others:
        smallest = 1.0
        for size in first:
            gaps = np.array([first[size][seed].mean() - other[size][seed].mean() for seed in first[size]])
            error = max(gaps.std(ddof=1) / len(gaps) ** 0.5, 1 / len(first[size][0]))
            smallest = min(smallest, 2 * float(stdtr(len(gaps) - 1, -abs(gaps.mean()) / error)))
        yield len(first) * smallest < 0.05


def coverage(world: World, curves: tuple[Curve, Curve], count: int) -> Tally:
    """How often intervals of errors, gaps and ratios hold the truth, and how often the gap is found."""
    found = Tally()
    for answers in studies(world, curves, count):
        (comparison,) = compare_with_first(answers)
        for one in comparison.differences:
            ours, theirs = (curve(one.num_images) for curve in curves)
            found.add("gap", _holds(one.gap, ours - theirs))
            found.add("ratio", _holds(one.ratio, ours / theirs))
            found.add("found", one.p_adjusted < 0.05)
            first = np.stack(list(answers["A"][one.num_images].values()))
            found.add("error", _holds(mean_error(first), ours))
    return found


def crossings(world: World, curves: tuple[Curve, Curve], truth: float, count: int) -> Tally:
    """How often a crossing is found, and its interval holds the true one."""
    found = Tally()
    for answers in studies(world, curves, count):
        (comparison,) = compare_with_first(answers)
        found.add("found", comparison.crossing is not None)
        if comparison.crossing is not None:
            found.add("crossing", _holds(comparison.crossing, truth))
    return found


def gap_found(world: World, count: int, error: float = 0.1) -> float:
    """The gap in error that is found in 80 % of studies of two networks, by bisection over its size."""
    low, high = 0.0, 0.9 * error
    for _ in range(7):
        middle = (low + high) / 2
        curves = (power(world.sizes[0], error, 0.0), power(world.sizes[0], error - middle, 0.0))
        found = coverage(world, curves, count).share("found")
        low, high = (middle, high) if found < 0.8 else (low, middle)
    return high


def correlation_of_errors(world: World, error: float = 0.1) -> float:
    """Of two seeds' errors over the test images, in a world of this agreement."""
    (answers,) = studies(World(10, 10_000, (1000,), world.agreement, world.common, world.scatter), [lambda _: error], 1)
    return Spread.of(np.stack(list(answers["A"][1000].values())).astype(np.float64)).correlation


def _holds(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= truth <= interval.high


SEVEN = (100, 215, 464, 1000, 2154, 4642, 10_000)
NULL = [
    *(
        (World(seeds=k, test_images=t, agreement=a), 2)
        for t in (300, 10_000)
        for k in (3, 5, 10)
        for a in (0.35, 0.7, 0.92)
    ),
    *(
        (World(seeds=2, test_images=t, agreement=a), series)
        for series in (2, 6, 11)
        for t, a in ((300, 0.3), (1000, 0.7))
    ),
    (World(seeds=3, test_images=300, scatter=0.2), 2),
    (World(seeds=5, test_images=1000, sizes=(1000, 10_000)), 6),
    (World(seeds=5, test_images=1000, sizes=SEVEN[::2]), 11),
    (World(seeds=3, test_images=300, sizes=SEVEN[::2]), 11),
    (World(seeds=3, test_images=1000, sizes=SEVEN), 2),
    (World(seeds=5, test_images=10_000, sizes=SEVEN), 2),
    (World(seeds=10, test_images=300, sizes=SEVEN), 2),
]
STEEP = (power(1000, 0.15, -0.5), power(1000, 0.15, -0.2))


def main() -> None:
    """Print the tables of docs/measurements.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--only", choices=("claims", "coverage", "crossings", "power"))
    given = parser.parse_args()

    def wanted(part: str) -> bool:
        return given.only in (None, part)

    if wanted("claims"):
        print_row("series", "sizes", "seeds", "test images", "correlation", "claims", "over the seeds alone")
        for world, num_series in NULL:
            found = false_claims(world, num_series, given.studies)
            both = (found.words("claims"), found.words("over the seeds alone"))
            correlation = f"{correlation_of_errors(world):.2f}"
            print_row(num_series, len(world.sizes), world.seeds, world.test_images, correlation, *both)
    if wanted("coverage"):
        print_row("error", "seeds", "test images", "scatter", "gap", "ratio", "error")
        for error in (0.02, 0.1, 0.3):
            for k, t, scatter in ((3, 300, 0.05), (5, 300, 0.2), (5, 1000, 0.05), (10, 1000, 0.05), (3, 10_000, 0.05)):
                pair = (power(1000, error, 0.0), power(1000, 0.8 * error, 0.0))
                found = coverage(World(seeds=k, test_images=t, scatter=scatter), pair, given.studies)
                print_row(error, k, t, scatter, found.words("gap"), found.words("ratio"), found.words("error"))
    if wanted("crossings"):
        print_row("crossing at", "seeds", "test images", "found", "interval holds it")
        for k, t in ((3, 1000), (5, 1000), (10, 1000), (3, 10_000), (5, 10_000)):
            found = crossings(World(seeds=k, test_images=t, sizes=SEVEN), STEEP, 1000, given.studies)
            print_row(1000, k, t, found.words("found"), found.words("crossing"))
    if wanted("power"):
        print_row("seeds", "test images", "scatter", "gap found in 80 % of studies, in points, at 10 % error")
        for scatter in (0.02, 0.1):
            for k in (3, 5, 10):
                for t in (300, 1000, 10_000):
                    gap = gap_found(World(seeds=k, test_images=t, scatter=scatter), max(100, given.studies // 5))
                    print_row(k, t, scatter, f"{100 * gap:.1f}")


def print_row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
