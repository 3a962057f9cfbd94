"""Warnings of a study about its answer: networks that guess, unequal starts, missing runs"""

from collections.abc import Mapping, Sequence

from vit.study.findings import FailedCell, JsonValue, Point, Protocol, Series
from vit.study.wording import percent_words

RANDOM_WEIGHTS = "random weights"  # in a protocol's `start`


def chance_error(protocol: Protocol) -> float | None:
    """Error of guessing one of the classes; None where images have several labels, or classes are not counted."""
    classes = protocol.get("classes")
    return None if "right" in protocol or not isinstance(classes, int) or classes < 2 else 1 - 1 / classes


def guesses(point: Point, chance: float) -> bool:
    """Whether the interval of an error reaches that of guessing."""
    return (point.mean.value if point.mean.high is None else point.mean.high) >= chance


def at_chance(series: Sequence[Series], protocol: Protocol) -> list[str]:
    """A warning for each network that is no better than guessing at its largest size."""
    chance = chance_error(protocol)
    return [
        f"{one.name} is no better than guessing with {one.points[-1].num_images:,} images: its error is "
        f"{percent_words(one.points[-1].mean)}, and that of guessing {100 * chance:.0f} %. It has not learned."
        for one in series
        if chance is not None and guesses(one.points[-1], chance)
    ]


def unequal_start(protocol: Protocol) -> str:
    """A warning where a network that starts from weights is compared with one that starts from random weights."""
    start = protocol.get("start")
    if not isinstance(start, Mapping):
        return ""
    random = [name for name, words in start.items() if words == RANDOM_WEIGHTS]
    trained = [name for name in start if name not in random]
    if not random or not trained:
        return ""
    return (
        f"{' and '.join(trained)} began with pretrained weights and {' and '.join(random)} with random ones: "
        "the answer is about the weights, not about the networks."
    )


def missing_runs(series: Sequence[Series], protocol: Protocol, failed: Sequence[FailedCell]) -> str:
    """A warning where planned runs are missing; else an empty text."""
    missing = _missing(series, protocol, failed)
    return f"Runs are missing: {', '.join(missing)}." if missing else ""


def _missing(series: Sequence[Series], protocol: Protocol, failed: Sequence[FailedCell]) -> list[str]:
    """For each series how many planned runs it lacks. A protocol of before the plan was kept tells only what exists."""
    cells = {one.name: {(point.num_images, seed) for point in one.points for seed in point.seeds} for one in series}
    names, sizes, seeds = (items(protocol.get(name)) for name in ("series", "sizes", "seeds"))
    planned = set.union(*cells.values()) | {(one.num_images, one.seed) for one in failed}
    planned |= {(int(size), int(seed)) for size in sizes for seed in seeds}
    found = [
        f"{name} lacks {len(planned - own)} of {len(planned)} runs" for name, own in cells.items() if planned - own
    ]
    others = dict.fromkeys([*names, *(one.series for one in failed)])
    reference = names[0] if names else ""
    return found + [
        f"{name}{', the reference,' if name == reference else ''} has no run" for name in others if name not in cells
    ]


def items(value: JsonValue) -> list[str]:
    """The items of a list in a protocol; none without a list."""
    return [] if isinstance(value, str | Mapping) or not isinstance(value, Sequence) else [str(each) for each in value]
