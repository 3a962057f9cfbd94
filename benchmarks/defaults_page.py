"""The tables of docs/comparison.md about defaults, from the kept rows: `python benchmarks/defaults_page.py`."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

import numpy as np
from defaults import Row, read_rows
from defaults_sides import SIDES, Side
from scipy.stats import ttest_1samp
from table import ROOT, between

from vit.checkpoints.result import unpack
from vit.study.findings import Interval
from vit.study.statistics.paired import Pair, difference, hochberg, paired_gap

ROWS = ROOT / "evidence" / "peers" / "defaults.jsonl"
PAGE = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- defaults: python benchmarks/defaults_page.py -->", "<!-- end of defaults -->"
VIT = SIDES[0]
LONG = next(side for side in SIDES if (side.tool, side.length) == ("vit", "same seconds"))
PEERS = [side for side in SIDES if side.tool != "vit"]
NETWORK = "deit_tiny_patch16_224"


@dataclass(frozen=True)
class Compared:
    """A side beside `vit train`, on the seeds and sets that both have.

    Attributes:
        gaps: {set: accuracy of `vit train` minus that of the side, with its interval over test images and seeds}. A
            side of the same seconds is compared with a `vit train` of the same seconds.
        overall: mean of the sets' differences, with the interval of Student's t over the sets.
        p: two-sided p of the mean.
        seconds: CPU seconds of `vit train` and of the side: the fewest of the seeds, because a machine may be busy. The
            median over the sets.
        accuracy: mean accuracy of the side over the sets.
        num_trainings: trainings of the side.
    """

    side: Side
    gaps: dict[str, Interval]
    overall: Interval
    p: float | None
    seconds: tuple[float, float]
    accuracy: float
    num_trainings: int


def main() -> None:
    between(PAGE, BEGIN, END, list(page(read_rows(ROWS))))


def page(rows: Sequence[Row]) -> Iterator[str]:
    """The tables of each size of images."""
    for number, size in enumerate(sorted({int(row["image_size"]) for row in rows})):
        yield from ([""] * (number > 0) + [f"### {size} pixels", ""])
        yield from section([row for row in rows if row["image_size"] == size])


def section(rows: Sequence[Row]) -> Iterator[str]:
    """The tables of one size: all sets together, then each set."""
    compared = [one for side in PEERS if (one := compare(rows, side)) is not None]
    p_values = hochberg([one.p for one in compared])
    yield _line(("tool", "length", "sets", "trainings", "accuracy (%)",
                 "difference (points)", "corrected p", "CPU seconds", "`vit train`"))  # fmt: skip
    yield "|---" * 9 + "|"
    for one, p in zip(compared, p_values, strict=True):
        yield _line((one.side.tool, one.side.length, len(one.gaps), one.num_trainings,
                     f"{100 * one.accuracy:.1f}", points(one.overall), "" if one.p is None else f"{p:.3f}",
                     f"{one.seconds[1]:.0f}", f"{one.seconds[0]:.0f}"))  # fmt: skip
    sets = sorted({name for one in compared for name in one.gaps})
    yield ""
    ahead = [
        f"{one.side.tool} ({one.side.length}) on {name}"
        for one in compared
        for name, gap in one.gaps.items()
        if gap.high is not None and gap.high < 0
    ]
    tools = {one.side.tool for one in compared}
    missing = dict.fromkeys(side.tool for side in PEERS if side.tool not in tools)
    yield f"- Ahead of `vit train`, by the interval of a set: {', '.join(ahead) or 'no tool on any set'}."
    if missing:
        yield f"- Tools that lack a row: {', '.join(missing)}."
    for row in rows:
        if "failed" in row:
            yield f"- {row['tool']} on {row['data']}, seed {row['seed']}, failed: `{row['failed']}`"
    yield ""
    yield "Difference on each set, with its 95 % interval over test images (and seeds):"
    yield ""
    yield _line(("tool", "length", *sets))
    yield "|---" * (2 + len(sets)) + "|"
    for one in compared:
        if one.side.length != "first example":
            gaps = (points(one.gaps[name]) if name in one.gaps else "" for name in sets)
            yield _line((one.side.tool, one.side.length, *gaps))


def compare(rows: Sequence[Row], side: Side) -> Compared | None:
    """A side beside `vit train`; None without a set that both have."""
    own, other = (find(rows, one) for one in (LONG if side.length == "same seconds" else VIT, side))
    gaps, accuracies, seconds = {}, [], []
    for name in sorted(own.keys() & other.keys()):
        seeds = sorted(own[name].keys() & other[name].keys())
        if not seeds:
            continue
        pairs = [(own[name][seed], other[name][seed]) for seed in seeds]
        seconds.append([min(float(pair[index]["cpu"]) for pair in pairs) for index in (0, 1)])
        first, second = (np.stack([answers(pair[index]) for pair in pairs]) for index in (0, 1))
        accuracies.append(float(second.mean()))
        gaps[name] = (
            difference(Pair(0, seeds, ~second, ~first)).gap if len(seeds) > 1 else paired_gap(first[0], second[0])
        )
    if not gaps:
        return None
    overall, p = over_sets([gap.value for gap in gaps.values()])
    return Compared(
        side, gaps, overall, p, (median(pair[0] for pair in seconds), median(pair[1] for pair in seconds)),
        mean(accuracies), sum(len(own[name].keys() & other[name].keys()) for name in gaps),
    )  # fmt: skip


def find(rows: Sequence[Row], side: Side) -> dict[str, dict[int, Row]]:
    """{set: {seed: row}} of a side's trainings that ended."""
    found: dict[str, dict[int, Row]] = defaultdict(dict)
    wanted = (side.tool, side.length, " ".join(side.options), NETWORK)
    for row in rows:
        if (row["tool"], row["length"], row["options"], row["weights"]) == wanted and "correct" in row:
            found[str(row["data"])][int(row["seed"])] = row
    return found


def answers(row: Row) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """(T,) whether each test image is right."""
    return unpack(str(row["correct"]), int(row["tested"]))


def over_sets(gaps: Sequence[float]) -> tuple[Interval, float | None]:
    """Mean of the sets' differences with its 95 % interval, and its p: Student's t, sets are the units."""
    if len(gaps) < 2:
        return Interval(mean(gaps), None, None), None
    test = ttest_1samp(gaps, 0.0)
    low, high = test.confidence_interval(0.95)
    return Interval(mean(gaps), float(low), float(high)), float(test.pvalue)


def points(gap: Interval) -> str:
    ends = "" if gap.low is None or gap.high is None else f" ({100 * gap.low:+.1f}, {100 * gap.high:+.1f})"
    return f"{100 * gap.value:+.1f}{ends}"


def _line(cells: Sequence[object]) -> str:
    return f"|{'|'.join(map(str, cells))}|"


if __name__ == "__main__":
    main()
