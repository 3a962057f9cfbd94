"""What `vit study` says in worlds that its statistics do not expect; `study_claims.py` has those that they expect.

    python benchmarks/study_worlds.py [--studies 400] [--only false|forecasts|gains|errors]

Errors, of seeds that know their own scatter alone, and of seeds that share it. Gains from more images, where there are
some and where there are none. Forecasts of power laws, and of curves that begin to fall late, or stop. Equal networks,
of which every claim is false: seeds with heavy tails, seeds that collapse, bursts of nearly equal test images that were
not declared, tuning, and seeds that are added until two networks differ.
"""

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri
from study_claims import (
    COLLAPSE,
    COLLAPSING,
    Curve,
    Tally,
    World,
    claims,
    false_claims,
    power,
    print_row,
    studies,
)

from vit.study.findings import ALPHA
from vit.study.statistics.crossover import compare_with_first
from vit.study.statistics.forecast import MeasuredCurve
from vit.study.statistics.paired import gains
from vit.study.statistics.variance_components import Answers, Floats, mean_error, mean_errors


def late(images: float) -> float:
    """A curve that begins to fall late, and is not a power law."""
    return float(0.75 / (1 + (images / 1500) ** 0.55))


def stopping(end: float) -> Curve:
    """A power law until `end` images, and a floor of 5 % from there on."""
    return lambda images: 0.05 * max(1.0, end / images) ** 0.8


FOUR: tuple[int, ...] = (140, 302, 650, 1400)
SIX: tuple[int, ...] = (140, 222, 352, 558, 884, 1400)
CURVES: dict[str, Curve] = {
    "power law": power(1400, 0.1, -0.35),
    "with a floor": power(1400, 0.14, -0.5, 0.04),
    "steep": power(1400, 0.05, -0.8),
    "late": late,
    **{f"stops at {end:,}": stopping(end) for end in (500, 1000, 1400)},
}
QUARTER = power(1400, 0.1, -0.375)  # falls by a quarter between the two largest of four sizes
ODD = {
    "heavy-tailed seeds": World(seeds=3, test_images=400, scatter=0.1, tails="heavy", sizes=FOUR),
    "heavy-tailed seeds, two of them": World(seeds=2, test_images=2000, scatter=0.1, tails="heavy", sizes=FOUR),
    "one seed in ten collapses": World(seeds=5, test_images=400, scatter=0.1, tails="collapsing", sizes=FOUR),
    **{
        f"undeclared bursts of 10 test images, {share:.0%} of them found": World(
            seeds=5, test_images=400, burst=10, found_bursts=share
        )
        for share in (0.0, 0.5, 0.9, 1.0)
    },
}


def forecasts(world: World, curve: Curve, count: int) -> Tally:
    """How often forecasts at 1.5, 2 and 4 times the largest size hold the truth, and how wide those at twice are."""
    found, ahead = Tally(), np.array([1.5, 2.0, 4.0]) * world.sizes[-1]
    for answers in studies(world, [curve], count):
        for images, _, low, high in zip(ahead, *MeasuredCurve.of(answers["A"]).expected(ahead), strict=True):
            found.add(f"{images / world.sizes[-1]:g} times", low <= curve(images) <= high)
    return found


SCATTERS = {
    "power law": (World(scatter=0.1), CURVES["power law"]),
    "late": (World(scatter=0.1), late),
    "scatter three times as large at the end, three times for the second": (
        World(scatter=0.05, rise=3, unlike=3),
        CURVES["power law"],
    ),
    "heavy-tailed seeds": (World(scatter=0.1, tails="heavy"), CURVES["power law"]),
    "one seed in ten collapses": (World(scatter=0.1, tails="collapsing"), CURVES["power law"]),
}


def mean_of_seeds(world: World, error: float) -> float:
    """The mean error over all seeds of a network that has `error` where no seed collapses."""
    collapsed = float(ndtr(ndtri(error) + COLLAPSE / (1 + world.scatter**2) ** 0.5))
    return error + (COLLAPSING * (collapsed - error) if world.tails == "collapsing" else 0.0)


def errors(world: World, curve: Curve, num_series: int, count: int) -> tuple[Tally, Floats]:
    """How often intervals of errors hold the truth, and the median half width at the largest size: alone and shared."""
    found, reaches = Tally(), []
    for answers in studies(world, [curve] * num_series, count):
        alone = {
            name: {size: mean_error(np.stack(list(own.values()))) for size, own in of_size.items()}
            for name, of_size in answers.items()
        }
        for way, means in (("alone", alone), ("shared", mean_errors(answers))):
            for name, of_size in means.items():
                for size, one in of_size.items():
                    assert one.low is not None
                    assert one.high is not None
                    held = one.low <= mean_of_seeds(world, curve(size)) <= one.high
                    found.add(way, held)
                    if size == world.sizes[-1]:
                        found.add(f"{way}, {name}", held)
                        reaches.append((one.high - one.low) / 2)
    return found, np.median(np.reshape(reaches, (count, 2, num_series)), axis=0)


def stops(images: float) -> float:
    """A curve that falls no further behind 650 images."""
    return power(1400, 0.1, -0.375)(min(images, 650.0))


def gained(world: World, curve: Curve, count: int) -> tuple[Tally, float]:
    """How often a gain of the last step, and of any, is claimed; the median half width of the last step's interval."""
    found, reaches = Tally(), []
    for answers in studies(world, [curve, curve], count):
        *wider, step = gains(answers)["A"]
        assert step.points.low is not None
        found.add("last", step.p < ALPHA)
        found.add("any", min(one.p for one in (*wider, step)) < ALPHA)
        reaches.append(step.points.value - step.points.low)
    return found, float(np.median(reaches))


def tuned(world: World, validation: int, count: int, one_for_all: bool = False) -> Tally:
    """Of studies of two equal networks, each with three settings of 10, 11 and 13 % error: how many claim a difference.

    Args:
        validation: number of validation images, by which a setting is chosen.
        one_for_all: whether the choice of the first seed holds for all. `vit study --tune` let it, before.
    """
    found, generator = Tally(), np.random.default_rng(world.test_images)
    settings = [power(1000, error, 0.0) for error in (0.10, 0.11, 0.13)]
    for answers in studies(world, [*settings, *settings], count):
        tables = list(answers.values())
        networks: dict[str, Answers] = {}
        for name, own in (("A", tables[:3]), ("B", tables[3:])):
            by_seed: dict[int, Floats] = {}
            for seed in range(world.seeds):
                if seed == 0 or not one_for_all:
                    wrong = [generator.binomial(validation, float(one[1000][seed].mean())) for one in own]
                    choice = int(np.argmin(wrong))
                by_seed[seed] = own[choice][1000][seed].astype(np.float64)
            networks[name] = {1000: by_seed}
        found.add("claims", any(claims(compare_with_first(networks))))
    return found


def added_seeds(world: World, stages: Sequence[int], count: int) -> Tally:
    """Of studies of equal networks to which seeds are added until they differ: how many claim a difference at last."""
    found = Tally()
    for answers in studies(world, [power(world.sizes[-1], 0.1, -0.3)] * 2, count):
        told = {"once": False, "each look at 5 %": False, "spent": False}
        for look, seeds in enumerate(stages, 1):
            parts: dict[str, Answers] = {
                name: {
                    size: {seed: one.astype(np.float64) for seed, one in own.items() if seed < seeds}
                    for size, own in sizes.items()
                }
                for name, sizes in answers.items()
            }
            plain = any(claims(compare_with_first(parts)))
            told["once"] |= plain and look == 1
            told["each look at 5 %"] |= plain
            told["spent"] |= any(claims(compare_with_first(parts, looks=look)))
        for name, claimed in told.items():
            found.add(name, claimed)
    return found


def main() -> None:
    """Print the table of docs/measurements.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--only", choices=("false", "forecasts", "gains", "errors"))
    given = parser.parse_args()
    if given.only in (None, "errors"):
        print_row("world", "networks", "sizes", "seeds", "test images", "alone", "shared", "least at the end", "points")
        for (name, (world, curve)), k, (t, n, sizes) in itertools.product(
            SCATTERS.items(), (2, 3), ((400, 2, FOUR), (2000, 2, FOUR), (2000, 1, FOUR))
        ):
            own = replace(world, seeds=k, test_images=t, sizes=sizes)
            found, reaches = errors(own, curve, n, given.studies)
            least = min((f"shared, {one}" for one in "AB"[:n]), key=found.share)
            before, after = 100 * reaches.mean(axis=1)
            held = (found.words(way) for way in ("alone", "shared", least))
            print_row(name, n, len(sizes), k, t, *held, f"±{before:.1f} -> ±{after:.1f}")
    if given.only in (None, "gains"):
        print_row("seeds", "test images", "scatter", "equal", "stops", "falls by a quarter", "any", "points")
        for k, t, scatter in ((2, 400, 0.1), (2, 400, 0.03), (2, 2000, 0.1), (3, 400, 0.1), (3, 2000, 0.1)):
            world = World(seeds=k, test_images=t, scatter=scatter, sizes=FOUR)
            flat, stop = (gained(world, curve, given.studies)[0] for curve in (power(1400, 0.1, 0.0), stops))
            found, reach = gained(world, QUARTER, given.studies)
            shares = (flat.words("any"), stop.words("last"), found.words("last"), found.words("any"))
            print_row(k, t, scatter, *shares, f"±{100 * reach:.1f}")
    if given.only in (None, "forecasts"):
        print_row("curve", "sizes", "seeds", "test images", "1.5 times", "2 times", "4 times")
        for name, curve in CURVES.items():
            for sizes, k, t in ((FOUR, 3, 400), (SIX, 3, 400), (FOUR, 5, 2000)):
                found = forecasts(World(seeds=k, test_images=t, sizes=sizes), curve, given.studies)
                held = (found.words(f"{times} times") for times in ("1.5", "2", "4"))
                print_row(name, len(sizes), k, t, *held)
    if given.only in ("forecasts", "gains", "errors"):
        return
    print_row("equal networks", "sizes", "seeds", "test images", "studies", "claims a difference")
    for words, world in ODD.items():
        found = false_claims(world, 2, given.studies)
        print_row(words, len(world.sizes), world.seeds, world.test_images, given.studies, found.words("claims"))
    for k, t, validation in ((3, 400, 60), (5, 2000, 300)):
        for one_for_all in (True, False):
            found = tuned(World(seeds=k, test_images=t), validation, given.studies, one_for_all)
            words = f"tuned on {validation} images, by {'the first seed' if one_for_all else 'each seed'}"
            print_row(words, 1, k, t, given.studies, found.words("claims"))
    for stages, t, scatter in (((3, 5, 8, 12, 20), 400, 0.1), ((2, 4, 8), 1000, 0.2)):
        found = added_seeds(World(seeds=stages[-1], test_images=t, scatter=scatter), stages, given.studies)
        for name in found.counts:
            print_row(f"looks at {stages} seeds, {name}", 1, stages[-1], t, given.studies, found.words(name))


if __name__ == "__main__":
    main()
