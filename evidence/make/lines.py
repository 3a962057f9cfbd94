"""Measures that are lines of numbers over repetitions, such as gradients by block: files, tables and words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from machine import processor
from scipy.special import stdtrit

from vit.atomic_files import write_json
from vit.study.findings import ALPHA, Interval
from vit.study.statistics.variance_components import Floats

MOST = 6  # rows of a table, about


@dataclass(frozen=True)
class Lines:
    """Lines of positive numbers, each measured several times.

    Attributes:
        x_label, y_label: words of the axes.
        x: places on the horizontal axis.
        values: {line: (k, len(x)) values, a row for each repetition}.
        repetitions: what a repetition is: "seeds" or "turns".
        is_share: whether values are shares between 0 and 1; others lie on a logarithmic axis.
        command: command that measured.
        machine: machine that measured.
    """

    x_label: str
    y_label: str
    x: tuple[float, ...]
    values: Mapping[str, Floats]
    repetitions: str
    is_share: bool
    command: str
    machine: str = ""

    @classmethod
    def read(cls, path: Path) -> "Lines":
        """The lines that `write` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        values = {name: np.array(rows, dtype=np.float64) for name, rows in content.pop("values").items()}
        return cls(**{**content, "x": tuple(content["x"]), "values": values})

    def write(self, path: Path) -> None:
        """Write the lines, with six digits of each number."""
        path.parent.mkdir(parents=True, exist_ok=True)
        values = {name: [[float(f"{one:.6g}") for one in row] for row in rows] for name, rows in self.values.items()}
        write_json(path, {**vars(self), "values": values, "machine": self.machine or processor()})

    def at(self, name: str, place: int) -> Interval:
        """The mean at one place, and its 95 % t interval; of the logarithms, unless the values are shares."""
        return mean_of(self.values[name][:, place], is_share=self.is_share)

    def table(self, names: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
        """Head and rows of the table: a row for some of the places, a column for each line."""
        yield (self.x_label, *(f"{names.get(name, name)}{' (%)' * self.is_share}" for name in self.values))
        yield ("---",) * (1 + len(self.values))
        step = max(1, len(self.x) // MOST)
        for place in sorted({*range(0, len(self.x), step), len(self.x) - 1}):
            x = self.x[place]
            yield (f"{x:,g}", *(self.words(self.at(name, place)) for name in self.values))

    def words(self, found: Interval) -> str:
        """A value with its interval; where every repetition has the same value, without."""
        factor, form = (100, ".1f") if self.is_share else (1, ".3g")
        if found.low is None or found.high is None or found.high - found.low < 1e-9 * abs(found.value):
            return f"{factor * found.value:{form}}"
        return f"{factor * found.value:{form}} ({factor * found.low:{form}} to {factor * found.high:{form}})"

    def change(self, name: str) -> Interval:
        """Last value minus first, of shares; otherwise first value over last. With a 95 % t interval."""
        rows = self.values[name]
        if self.is_share:
            return mean_of(rows[:, -1] - rows[:, 0], is_share=True)
        return mean_of(rows[:, 0] / rows[:, -1], is_share=False)

    def describe_change(self, name: str, names: Mapping[str, str]) -> str:
        """A sentence about both ends of a line, with plain words for its name."""
        change, shown = self.change(name), names.get(name, name)
        if not self.is_share:
            first, last = (f"{self.x_label} {self.x[place]:g}" for place in (0, -1))
            return f"**{shown}**: the value at {first} is {self.words(change)} times that at {last}."
        first, last = (f"{100 * self.at(name, place).value:.1f} %" for place in (0, -1))
        words = f"**{shown}**: {first} at {self.x[0]:,g} {self.x_label}, and {last} at {self.x[-1]:,g}"
        if change.low is None or change.high is None:
            return f"{words}."
        reach = f"{100 * change.low:+z.1f} to {100 * change.high:+z.1f}"
        return f"{words}: {100 * change.value:+z.1f} points ({reach})."

    def sentences(self, pairs: Sequence[tuple[str, str]], names: Mapping[str, str]) -> Iterator[str]:
        """The ends of each line; with pairs of lines the largest distance of each pair."""
        if not pairs:
            yield from (f"- {self.describe_change(name, names)}" for name in self.values)
        for one, other in pairs:
            gaps = 100 * (self.values[one].mean(axis=0) - self.values[other].mean(axis=0))
            place = int(np.abs(gaps).argmax())
            yield (
                f"- **{one}** minus **{other}**: {gaps.min():+z.1f} to {gaps.max():+z.1f} points, farthest at "
                f"{self.x_label} {self.x[place]:,g}."
            )


def mean_of(values: Floats, *, is_share: bool) -> Interval:
    """Mean and 95 % t interval over repetitions (k,); of the logarithms, and then back, unless values are shares."""
    values = values if is_share else np.log(values)
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean if is_share else float(np.exp(mean)), None, None)
    reach = float(stdtrit(len(values) - 1, 1 - ALPHA / 2)) * float(values.std(ddof=1)) / len(values) ** 0.5
    ends = (mean, mean - reach, mean + reach)
    return Interval(*ends) if is_share else Interval(*(float(np.exp(end)) for end in ends))
