"""Sentences and numbers of the pages that `make results` writes: differences, intervals, p values, lines of tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kept import Answers, Kept

from vit.checkpoints.result import rule_text
from vit.console import p_value
from vit.inference.scores.image_groups import NORMAL_QUANTILE
from vit.inference.scores.intervals import wilson
from vit.study.findings import ALPHA, CellResult, Difference, Interval, Point
from vit.study.statistics.paired import Pair, difference, hochberg

OF_P = "A value p is corrected for all comparisons of its list, so a longer list has a larger p for the same pair."


@dataclass(frozen=True)
class Compared:
    """Two series under one condition.

    Attributes:
        condition: what was done to the test images, or empty.
        first, second: series.
        errors: errors of the two on their common seeds.
        found: their difference, first minus second.
        p: p value, corrected for all comparisons of the section.
        reach: half the 95 % interval of the difference by other test images alone, for these seeds.
    """

    condition: str
    first: str
    second: str
    errors: tuple[float, float]
    found: Difference
    p: float
    reach: float

    @property
    def is_apart(self) -> bool:
        """Whether the corrected test tells the two apart."""
        return self.found.is_tested and self.p < ALPHA

    @property
    def gap(self) -> Interval:
        """Error of the first minus error of the second."""
        return self.found.gap

    def cells(self) -> tuple[str, str]:
        """The difference of the errors in points with its interval, and p; bold where the test tells the two apart."""
        words = f"{100 * self.gap.value:+z.2f}"
        if not self.found.is_tested:
            sides = Interval(self.gap.value, self.gap.value - self.reach, self.gap.value + self.reach)
            return f"{words} ({ends(sides)})", "one seed"
        mark = "**" * self.is_apart
        return f"{mark}{words} ({ends(self.gap)}){mark}", p_text(self.p).removeprefix("= ")

    def sentence(self, names: Mapping[str, str]) -> str:
        """Which of the two makes more errors."""
        first, second = (f"**{names.get(name, name)}**" for name in (self.first, self.second))
        errors = [f"{100 * error:.2f} %" for error in self.errors]
        seeds = f"{len(self.found.seeds)} seeds"
        if not self.found.is_tested:
            sides = ends(Interval(self.gap.value, self.gap.value - self.reach, self.gap.value + self.reach))
            return (
                f"{first} and {second}: {errors[0]} and {errors[1]} errors, {100 * self.gap.value:+z.2f} points "
                f"({sides} by other test images alone), one seed."
            )
        if not self.is_apart:
            return (
                f"{first} and {second} cannot be told apart: {errors[0]} and {errors[1]} errors, "
                f"{100 * self.gap.value:+z.2f} points ({ends(self.gap)}), p {p_text(self.p)}, {seeds}."
            )
        word = "more" if self.gap.value > 0 else "fewer"
        return (
            f"With {first} there are {100 * abs(self.gap.value):.2f} points {word} errors than with {second} "
            f"({away_from_zero(self.gap)}): {errors[0]} against {errors[1]}, p {p_text(self.p)}, {seeds}."
        )


def compared(answers: Answers, pairs: Sequence[tuple[str, str]], condition: str = "") -> list[Compared]:
    """The pairs of series that are kept, with p corrected for all of them."""
    return _corrected(answers, [(condition, *names) for names in pairs])


def compared_by_condition(answers: Answers, pair: tuple[str, str]) -> list[Compared]:
    """Two series under every condition, with p corrected for all conditions."""
    return _corrected(answers, [(condition, *pair) for condition in answers.correct])


def _corrected(answers: Answers, wanted: Sequence[tuple[str, str, str]]) -> list[Compared]:
    known = [names for names in wanted if answers.has_pair(*names)]
    shared = [answers.pair(*names) for names in known]
    found = [difference(pair) for pair in shared]
    adjusted = hochberg([one.tested_p for one in found])
    return [
        Compared(*names, (float(pair.first.mean()), float(pair.second.mean())), one, p, reach_by_images(pair))
        for names, pair, one, p in zip(known, shared, found, adjusted, strict=True)
    ]


def reach_by_images(pair: Pair) -> float:
    """Half the 95 % interval of a difference by other test images alone; at least what one image changes."""
    by_image = pair.gaps().mean(axis=0)  # (T)
    error = max(float(by_image.std(ddof=1)) / len(by_image) ** 0.5, 1 / len(by_image))
    return NORMAL_QUANTILE * error


def comparison_table(answers: Answers, pairs: Sequence[tuple[str, str]], names: Mapping[str, str]) -> Iterator[str]:
    """A line for each pair of series: errors of both, their difference with its interval, and the corrected p."""
    yield table_line(("network", "errors (%)", "beside", "errors (%)", "difference (points)", "p"))
    yield table_line(["---"] * 6)
    for one in compared(answers, pairs):
        first, second = (names.get(name, name) for name in (one.first, one.second))
        errors = [f"{100 * error:.2f}" for error in one.errors]
        yield table_line((first, errors[0], second, errors[1], *one.cells()))


def differences(
    answers: Answers, pairs: Sequence[tuple[str, str]], names: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A sentence for each pair of series, as items of a list."""
    yield from (f"- {one.sentence(names or {})}" for one in compared(answers, pairs))


def p_text(p: float) -> str:
    """A p value with two digits, never as zero, and as 0.05 or more only where it is."""
    if p < ALPHA <= float(f"{p:.2g}"):
        return f"= {p_value(p)}"
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def ends(interval: Interval) -> str:
    """Both ends of an interval in points, with signs."""
    assert interval.low is not None
    assert interval.high is not None
    return f"{100 * interval.low:+z.2f} to {100 * interval.high:+z.2f}"


def away_from_zero(interval: Interval) -> str:
    """Both ends of the interval of a difference whose sign is in words; the end near or beyond zero comes first."""
    assert interval.low is not None
    assert interval.high is not None
    sides = (interval.low, interval.high) if interval.value > 0 else (-interval.high, -interval.low)
    return " to ".join(f"{100 * side:.2f}" for side in sides)


def accuracy_text(error: Interval) -> str:
    """The accuracy that belongs to an error, with its interval."""
    words = f"{100 - 100 * error.value:.2f} %"
    if error.low is None or error.high is None:
        return words
    return f"{words} ({100 - 100 * error.high:.2f} to {100 - 100 * error.low:.2f})"


def error_of(kept: Kept, point: Point) -> Interval:
    """The mean error as the study's own report says it; of one seed, with the interval over test images alone."""
    mean = point.mean
    return mean if mean.low is not None else over_images(mean.value, kept.findings.num_test_images)


def over_images(error: float, num_images: int) -> Interval:
    """An error with its interval over test images."""
    return wilson(error, num_images, NORMAL_QUANTILE)


def each_seed(answers: Answers, condition: str, series: str) -> str:
    """The accuracy of each seed."""
    return ", ".join(f"{100 - 100 * wrong.mean():.2f}" for wrong in answers.wrong(condition, series))


def seeds_text(kept: Kept, found: int) -> str:
    """The number of seeds of a network, and of how many where runs are missing."""
    seeds = kept.protocol["seeds"]
    assert isinstance(seeds, list)
    return f"{found}" if found == len(seeds) else f"{found} of {len(seeds)}"


def minutes_text(seconds: float) -> str:
    """A time in minutes."""
    return "< 0.1" if seconds < 6 else f"{seconds / 60:.1f}"


def minutes_a_run(kept: Kept, cells: Sequence[CellResult]) -> str:
    """The mean time of runs: one for each machine, which it then names."""
    times = {name: [cell.seconds for cell in cells if cell.run in runs] for name, runs in kept.machines.items()}
    means = {name: minutes_text(sum(found) / len(found)) for name, found in times.items() if found}
    return "; ".join(f"{words} ({name})" if len(means) > 1 else words for name, words in means.items())


def progress(kept: Kept, machines: str = "") -> str:
    """How many runs of a row are finished, and the sum of their times, on machines that a table beside may name."""
    failed = f", and {len(kept.failed):,} failed" if kept.failed else ""
    words = f"{kept.num_done:,} of {kept.num_listed:,} runs are finished{failed}"
    rule = str(kept.protocol["checkpoints"])
    checkpoints = "" if rule == rule_text("loss") else f" Checkpoints: {rule}."
    return f"{words}, in {kept.seconds / 3600:.2f} hours{machines and f' on {machines}'}.{checkpoints}"


def hardware(kept: Kept, cells: Iterable[CellResult] | None = None) -> str:
    """Machines that trained cells of a row (None: all of its runs), and what of each a run used."""
    runs = kept.devices.keys() if cells is None else {cell.run for cell in cells}
    words = []
    for name, trained in kept.machines.items():
        used = dict.fromkeys(kept.devices[run] for run in trained if run in runs)
        words += [name if list(used) == [name] else f"{name} (each run: {' or '.join(used)})"] if used else []
    return "; ".join(words)


def conditions(kept: Kept) -> str:
    """The data of a row, its seeds, and the length of its trainings."""
    seeds = len({cell.seed for cell in kept.cells})
    images = kept.protocol["images"]
    assert isinstance(images, dict)
    used, budget = {cell.num_images for cell in kept.cells}, str(kept.protocol.get("budget_words"))
    budget = budget.partition(" at every size")[0] if len(used) == 1 else budget
    sizes = " to ".join(f"{size:,}" for size in sorted({min(used), max(used)}))
    whole = "" if used == {images["train"]} else f" of {images['train']:,}"
    return (
        f"Data: {kept.row.data}, {sizes}{whole} training and {images['test']:,} test images, "
        f"{seeds} seed{'s' * (seeds > 1)}. Length: {budget}. `make results ROW={kept.row.name}`"
    )


def table_line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"|{'|'.join(cells)}|"
