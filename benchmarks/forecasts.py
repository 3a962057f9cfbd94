"""Do the forecasts of `vit study` hold? Curves that were measured further tell.

    python benchmarks/forecasts.py [--aside]

For each beginning of a curve with two sizes or more, the forecast is compared with what was measured up to 4 times
further. Curves: the kept studies, and those of `evidence/curves/`. `--aside` takes the curves that were set aside, at
which we do not look while the method is chosen. Kept studies are judged with the lengths of their trainings, as `vit
study` judges them, and without ("kept studies, any length").
"""

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vit.study.answer.summary import steps_of
from vit.study.findings import Backtest
from vit.study.folder import collect
from vit.study.statistics.forecast import FARTHEST, MeasuredCurve, last_regime
from vit.study.statistics.variance_components import Floats

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"
STUDIES = ("cifar10_sizes", "fashion_mnist_sizes", "digits", "clothing", "digits_pretrained")
ASIDE = {"medical": ("TMED-2", "OASIS-3"), "simple": ("MNIST", "CIFAR-10", "clothing"), "upstream": ("",)}  # "": all
Errors = Mapping[int, Sequence[float]]  # {size: error of each seed}
Method = Callable[[MeasuredCurve, Floats], tuple[Floats, Floats, Floats]]


@dataclass(frozen=True)
class Curve:
    """A measured curve: its errors, and the optimizer steps at each size where they count."""

    source: str
    name: str
    errors: Errors
    steps: Mapping[int, int]


def curves(aside: bool) -> Iterator[Curve]:
    """All curves of the part that is wanted."""
    for name in () if aside else STUDIES:
        cells, _, _ = collect(EVIDENCE / name)
        for series in dict.fromkeys(cell.series for cell in cells):
            own = [cell for cell in cells if cell.series == series]
            errors: dict[int, list[float]] = {}
            for cell in own:
                errors.setdefault(cell.num_images, []).append(1 - cell.accuracy)
            yield Curve("kept studies", f"{name}, {series}", errors, steps_of(own))
            yield Curve("kept studies, any length", f"{name}, {series}", errors, {})
    for path in sorted((EVIDENCE / "curves").glob("*.csv")):
        found: dict[str, dict[int, list[float]]] = {}
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                found.setdefault(row["curve"], {}).setdefault(int(row["images"]), []).append(float(row["error"]))
        for name, errors in found.items():
            if name.startswith(ASIDE[path.stem]) == aside:
                yield Curve(path.stem, name, errors, {})


def measured(errors: Errors) -> MeasuredCurve:
    """The curve without the scatter of other test images, which these forecasts share with what was measured."""
    sizes = sorted(errors)
    means = np.array([float(np.mean(errors[size])) for size in sizes])
    squares = sum(
        float(np.sum((np.array(errors[size]) / mean - 1) ** 2)) for size, mean in zip(sizes, means, strict=True)
    )
    seeds = np.array([len(errors[size]) for size in sizes], dtype=np.float64)
    return MeasuredCurve(np.array(sizes, dtype=np.float64), means, seeds, squares, np.zeros((len(sizes), len(sizes))))


def backtests(curve: Curve, method: Method) -> Iterator[Backtest]:
    """The forecasts of all beginnings of a curve, as far as the lengths of its trainings allow."""
    sizes = sorted(curve.errors)
    for count in range(2, len(sizes)):
        used = last_regime(sizes[:count], curve.steps)
        later = [size for size in sizes[count:] if size <= FARTHEST * used[-1]]
        later = [size for size in later if last_regime([*used, size], curve.steps) == [*used, size]]
        if len(used) == 2 < count or not later:
            continue
        ends = method(measured({size: curve.errors[size] for size in used}), np.array(later, dtype=np.float64))
        for size, error, low, high in zip(later, *ends, strict=True):
            truth = float(np.mean(curve.errors[size]))
            if truth > 0:
                yield Backtest(curve.name, size, float(error), float(low), float(high), used[-1], truth)


def power_law(curve: MeasuredCurve, wanted: Floats) -> tuple[Floats, Floats, Floats]:
    """b n^c through the last three sizes, with the interval of a straight line without any model error."""
    logs, errors = np.log(curve.sizes[-3:]), np.log(curve.errors[-3:])
    design = np.stack([np.ones_like(logs), logs], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    at = np.stack([np.ones_like(wanted), np.log(wanted)], axis=1)
    center = at @ inverse @ design.T @ errors
    per_seed = curve.squares / max((curve.seeds - 1).sum(), 1)
    reach = 1.96 * np.sqrt(per_seed / curve.seeds[-1] * np.einsum("na,ab,nb->n", at, inverse, at))
    return np.exp(center), np.exp(center - reach), np.exp(center + reach)


METHODS: Mapping[str, Method] = {"drifting slope": MeasuredCurve.expected, "b n^c, last 3 sizes": power_law}


def main() -> None:
    """Print the table of docs/measurements.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--aside", action="store_true")
    given = parser.parse_args()
    found = list(curves(given.aside))
    heads = (
        "source", "form", "curves", "forecasts", "held, mean over curves", "held, of all", "median log error", "bias",
        "median width", "wrong 'not within 4 times'",
    )  # fmt: skip
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for source in dict.fromkeys(curve.source for curve in found):
        for form, method in METHODS.items():
            rows = {curve.name: list(backtests(curve, method)) for curve in found if curve.source == source}
            print(f"| {source} | {form} | {' | '.join(_scores({name: own for name, own in rows.items() if own}))} |")


def _scores(rows: Mapping[str, Sequence[Backtest]]) -> Iterator[str]:
    """Coverage, error and width of the forecasts of each curve."""
    every = [row for own in rows.values() for row in own]
    away = np.array([np.log(row.error / row.measured) for row in every])
    held = {name: [row.low <= row.measured <= row.high for row in own] for name, own in rows.items()}
    yield f"{len(rows)}"
    yield f"{len(every)}"
    yield f"{100 * np.mean([np.mean(own) for own in held.values()]):.0f} %"
    yield f"{100 * np.mean([one for own in held.values() for one in own]):.0f} %"
    yield f"{np.median(abs(away)):.3f}"
    yield f"{away.mean():+.3f}"
    yield f"{np.median([row.high / row.low for row in every]):.2f}"
    yield f"{sum(row.low > row.measured for row in every)} of {len(every)}"  # a target that was measured, "not reached"


if __name__ == "__main__":
    main()
