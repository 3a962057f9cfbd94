"""The table of `vit probe`: backbones by accuracy, with nearest neighbors, time and license; imports no torch"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from vit.atomic_files import atomic_write
from vit.console import percent
from vit.csv_files import new_table, records
from vit.errors import DataError, explained
from vit.study.answer.wording import complement, ends, percents
from vit.study.findings import ALPHA, Findings, Interval

TITLES = (
    "backbone", "linear probe (%)", "more errors than the first (points)", "nearest neighbors (%)", "ms an image",
    "parameters", "license",
)  # fmt: skip

_INTERVALS = ("accuracy", "behind")  # attributes with three columns of backbones.csv
CLEARLY_FASTER = 0.8  # of the time of the most accurate one; other work on the machine changes times by some percent


@dataclass(frozen=True)
class Backbone:
    """One backbone at the largest size that all backbones have finished: a row of backbones.csv."""

    name: str
    source: str  # weights, as for `init_from`
    num_images: int
    num_seeds: int
    equal_seeds: bool  # whether the seeds have the same training images, because the size is that of all images
    accuracy: Interval  # of the linear probes; covers other test images, and training images unless `equal_seeds`
    # error beyond that of the most accurate backbone, on the same seeds and images; None without a common seed
    behind: Interval | None
    p_adjusted: float  # p that `behind` is zero, corrected for all pairs of backbones; 1 without a test
    neighbors: float  # test accuracy of nearest neighbors in its features, mean over the seeds
    seconds_per_image: float  # time of reading an image and computing its features, on the threads of one cell
    parameters: int
    license: str

    @property
    def is_tested(self) -> bool:
        """Whether two seeds or more are shared with the most accurate backbone, and that is another one."""
        return self.behind is not None and self.behind.ends is not None

    def cells(self) -> tuple[str, ...]:
        """The row of a table with the columns `TITLES`."""
        gap = self.behind
        behind = f"{100 * gap.value:z.2f}" if gap and (gap.value or gap.ends) else ""
        if gap and gap.ends:
            behind += f" ({ends(gap, lambda end: f'{100 * end:z.2f}')})"
        return (
            self.name,
            _percent_cell(self.accuracy),
            behind,
            percent(self.neighbors, sign=""),
            f"{1000 * self.seconds_per_image:.1f}",
            f"{self.parameters / 1e6:.1f} M",
            self.license,
        )

    def row(self) -> dict[str, str | float | None]:
        """The row of backbones.csv: each interval has three columns."""
        plain: dict[str, str | float | None] = {}
        for name, value in vars(self).items():
            if name in _INTERVALS:
                ends = vars(value).values() if value else (None, None, None)
                plain |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
            else:
                plain[name] = int(value) if isinstance(value, bool) else value
        return plain

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> "Backbone":
        """The backbone of a row that `row` made. KeyError or ValueError where it is not one."""
        values: dict[str, Any] = {}
        for name, kind in get_type_hints(cls).items():
            if name in _INTERVALS:
                low, high = (float(end) if (end := row[f"{name}_{side}"]) else None for side in ("low", "high"))
                values[name] = Interval(float(row[name]), low, high) if row[name] else None
            else:
                values[name] = bool(int(row[name])) if kind is bool else kind(row[name])
        if values["accuracy"] is None:
            raise ValueError("a backbone has no accuracy")
        return cls(**values)


def verdict(found: Sequence[Backbone], missing: Sequence[str] = ()) -> str:
    """The answer in a few sentences; `missing` backbones have no finished probe at their size."""
    best, at = found[0], f"at {found[0].num_images:,} images"
    tested = [one for one in found[1:] if one.is_tested]
    untested = [one.name for one in found[1:] if not one.is_tested]
    if len(found) == 1:
        words = [f"{best.name} is the only {'finished ' * bool(missing)}backbone."]
    elif not tested:
        order = ", ".join([best.name, *untested])
        since = "from one seed" if all(one.num_seeds == 1 for one in found) else "with fewer than two common seeds"
        words = [f"In the order of accuracy {at}, {since} and without a test: {order}."]
    else:
        words = [_tested(best, tested)]
        words += [f"Not tested, with fewer than two common seeds: {', '.join(untested)}."] if untested else []
    if missing:
        words.append(f"Not compared, because no probe of theirs {at} is finished: {', '.join(missing)}.")
    return " ".join(words)


def _tested(best: Backbone, others: Sequence[Backbone]) -> str:
    """What the tests of the most accurate backbone against the others say, and which is the fastest of equals."""
    tied = [one for one in others if one.p_adjusted >= ALPHA]
    worse = len(others) - len(tied)
    if not tied:
        return f"Use {best.name}: at {best.num_images:,} images every other tested backbone makes more errors."
    fastest = min((best, *tied), key=lambda one: one.seconds_per_image)
    names = ", ".join(one.name for one in tied)
    words = f"{best.name} and {names} cannot be told apart at {best.num_images:,} images."
    words += f" {worse} of the {len(others) + 1} backbones make{'s' * (worse == 1)} more errors." if worse else ""
    if fastest.seconds_per_image > CLEARLY_FASTER * best.seconds_per_image:
        return f"{words} None of those that cannot be told apart is clearly faster than {best.name}."
    return f"{words} Of those that cannot be told apart, {fastest.name} is the fastest."


def accuracies(findings: Findings, sizes: Sequence[int], names: Sequence[str]) -> list[tuple[str, ...]]:
    """A row for each backbone: its name, and the test accuracy of its linear probes at every size, in %."""
    at = {series.name: series.at for series in findings.series}
    return [
        (name, *(_percent_cell(complement(at[name][size].mean)) if size in at[name] else "-" for size in sizes))
        for name in names
    ]


def conditions(found: Sequence[Backbone]) -> str:
    """What the numbers of the table mean: its size, its seeds, and what its intervals cover."""
    best = found[0]
    at = f"Linear probes at {best.num_images:,} training images"
    chosen = " They also chose the first backbone, which tends to look better than it is." * (len(found) > 2)
    if best.equal_seeds:
        return (
            f"{at}, which are all there are. Every seed therefore fits the same head, and the 95 % intervals cover "
            f"other test images, not other training images.{chosen}"
        )
    seeds = f"{best.num_seeds} seed{'s' * (best.num_seeds != 1)}"
    if best.accuracy.ends is None:
        return f"{at}, {seeds}: without intervals. Give --seeds 2 or more."
    return f"{at}, {seeds}. The 95 % intervals cover other training images and other test images.{chosen}"


def write_backbones(found: Sequence[Backbone], path: Path) -> None:
    """Write backbones.csv whole or not at all: a row for each backbone."""
    rows = [one.row() for one in found]
    with atomic_write(path) as partial, new_table(partial, list(rows[0]), digits=6) as table:
        for row in rows:
            table.row(row.values())


def read_backbones(path: Path) -> list[Backbone]:
    """The backbones that `write_backbones` wrote; none without a file. DataError where it is damaged."""
    if not path.is_file():
        return []
    with explained(DataError, f"{path} is damaged", "give its 'vit probe' command again", (KeyError, ValueError)):
        return [Backbone.of_row(row) for row in records(path)]


def _percent_cell(fraction: Interval) -> str:
    value, around = percents(fraction)
    return f"{value} ({around})" if around else value
