"""Warnings of a study about its answer: networks that guess, unequal starts, missing runs, unequal or short lengths"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vit.console import count_of, percent
from vit.csv_files import records
from vit.inference.scores.intervals import Metric
from vit.study.answer.wording import LINEAR_PROBE, percent_text, value_text
from vit.study.findings import CellResult, FailedCell, JsonValue, Point, Protocol, Series

if TYPE_CHECKING:
    from vit.models.spec import Cost

RANDOM_WEIGHTS = "random weights"  # in a protocol's `start`
COMMONEST = "share of the most common class"  # in a protocol, of the test images; or of the most common labels
PART = "part of the usual length"  # in a protocol, of every training
HALF = 0.5  # of the usual length: a time shortens trainings so far for a third seed at the largest size
UNEQUAL = 2.0  # times the parameters or FLOPs of another network
STILL_FALLING = 0.02  # of the validation loss, over the last fifth of the steps
LAST_WEIGHTS = "last weights"  # as `rule_text` says
FEW_PASSES = 3.0  # over the images of the largest size
FAR = 5.0  # standard errors of the test images, and twice the errors of most seeds, set a seed apart
_CLASSES_ALIKE = {"val/balanced_acc": "the balanced accuracy", "val/macro_f1": "the macro F1"}
_NUMBER = re.compile(r"(\S+)=(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?=[,;] |$)")  # "lr=0.001, depth=4"


def study_warnings(
    series: Sequence[Series], protocol: Protocol, failed: Sequence[FailedCell], target: float | None
) -> list[str]:
    """Reasons why the answer of a study may be wrong, or says little."""
    sentences = [
        *at_chance(series, protocol, target),
        unequal_start(protocol),
        short_trainings(protocol),
        *(f"{sentence}." for sentence in items(protocol.get("seen_before"))),
        missing_runs(series, protocol, failed),
    ]
    return [warning for warning in sentences if warning]


def study_notes(results: Sequence[CellResult], protocol: Protocol) -> list[str]:
    """What the budget, the checkpoints and the tuning may have changed; heads of linear probes have no length."""
    remedy = "was measured: --set optim.best_metric=last measures the last weights."
    num_early = sum(one.last_is_better for one in results)
    sentences = ["" if "right" in protocol else other_aim_warning(protocol), end_of_tuning_warning(protocol)]
    sentences.append(value_text(protocol.get("unreadable")))
    if protocol.get("budget") != LINEAR_PROBE:
        too_early = last_weights_warning(num_early, len(results), "runs", remedy)
        budget = value_text(protocol.get("budget"))
        longer = "" if "^" in budget or re.fullmatch(r"epochs:\d+", budget) else more_steps(results)
        sentences = [few_passes(results), longer, too_early, *sentences]
    return [note for note in sentences if note]


def chance_error(protocol: Protocol) -> float | None:
    """Error of always guessing the most common class, or the most common labels; None where that is not known."""
    most_common = protocol.get(COMMONEST)
    return 1 - most_common if isinstance(most_common, float) else None


def guesses(point: Point, protocol: Protocol) -> str:
    """Why an error is not shown to be below that of guessing; empty where it is, or where guessing has no error.

    One seed has the interval of its test images.
    """
    chance, error, images = chance_error(protocol), point.mean, protocol.get("images")
    if error.ends is None and isinstance(images, Mapping):
        num_tested = int(str(protocol.get("test_groups", images["test"])))
        error = Metric.fraction(round(error.value * num_tested), num_tested)
    if chance is None or max(error.ends or (error.value,)) < chance:
        return ""
    answer = "labels" if "right" in protocol else "class"
    guessed = f"that of always guessing the most common {answer} {100 * chance:.3g} %"
    return f"its error is {percent_text(error)}, and {guessed}"


def at_chance(series: Sequence[Series], protocol: Protocol, target: float | None) -> Iterator[str]:
    """A warning for each network that is not shown to be better than guessing at its largest size, and for a target."""
    for name, point in ((one.name, one.points[-1]) for one in series):
        if why := guesses(point, protocol):
            yield f"{name} is not shown to be better than guessing with {point.num_images:,} images: {why}."
    chance = chance_error(protocol)
    if target is not None and chance is not None and target <= 1 - chance:
        yield f"Guessing alone has an accuracy of {100 * (1 - chance):.3g} %, so {100 * target:g} % shows nothing."


def far_seeds(series: Sequence[Series], num_test_images: int) -> Iterator[str]:
    """A warning for each size at which a seed makes far more errors than most: then few seeds do not show all."""
    for name, point in ((one.name, point) for one in series for point in one.points):
        error, seed = max(zip(point.errors, point.seeds, strict=True))
        usual = float(np.quantile(point.errors, 0.5, method="lower"))
        chance = float(np.sqrt(max(usual * (1 - usual), 1 / num_test_images) / num_test_images))
        if error > max(2 * usual, usual + FAR * chance):
            yield (
                f"{name} with {point.num_images:,} images has {percent(error, 1)} errors with seed {seed}, and at most "
                f"{percent(usual, 1)} with half of them. If trainings fail, intervals of few seeds can be too narrow."
            )


def unequal_start(protocol: Protocol) -> str:
    """A warning where a network that starts from weights is compared with one that starts from random weights."""
    start = protocol.get("start")
    starts = start if isinstance(start, Mapping) else {}
    random = [name for name, weights in starts.items() if weights == RANDOM_WEIGHTS]
    trained = [name for name in starts if name not in random]
    if not random or not trained:
        return ""
    return (
        f"{' and '.join(trained)} began with pretrained weights and {' and '.join(random)} with random ones: "
        "the answer is about the weights, not about the networks."
    )


def unequal_networks(networks: "Mapping[str, Series] | Mapping[str, Cost]") -> str:
    """A sentence where networks differ by more than two times in parameters or FLOPs; else an empty text."""
    gaps: dict[tuple[str, str], list[str]] = {}
    for what in ("parameters", "FLOPs"):
        of = {name: max(getattr(one, what.lower()), 1) for name, one in networks.items()}
        small, large = min(of, key=lambda name: of[name]), max(of, key=lambda name: of[name])
        if of[large] > UNEQUAL * of[small]:
            gaps.setdefault((large, small), []).append(f"{of[large] / of[small]:.1f} times the {what}")
    words = " and ".join(f"{large} has {' and '.join(parts)} of {small}" for (large, small), parts in gaps.items())
    return f"{words}: the answer is about these networks, not about ViTs and CNNs" if gaps else ""


def short_trainings(protocol: Protocol) -> str:
    """A warning where a time has shortened the trainings by more than half; else an empty text."""
    if not (hours := usual_hours(protocol)):
        return ""
    length = f"{100 * float(str(protocol[PART])):.3g} % of the usual length"
    return f"The trainings have {length}, and longer ones can rank otherwise: give --time {hours}h, and another --name."


def usual_hours(protocol: Protocol) -> int:
    """Hours for trainings of the usual length, where a time has shortened them by more than half; else 0."""
    part, seconds = (float(str(protocol.get(name, 1))) for name in (PART, "seconds"))
    return math.ceil(seconds / part / 3600) if part < HALF else 0


def missing_runs(series: Sequence[Series], protocol: Protocol, failed: Sequence[FailedCell]) -> str:
    """A warning where planned runs are missing, with their number in each series; else an empty text."""
    cells = {one.name: {(point.num_images, seed) for point in one.points for seed in point.seeds} for one in series}
    names, sizes, seeds = (items(protocol.get(name)) for name in ("series", "sizes", "seeds"))
    planned = set.union(*cells.values()) | {(one.num_images, one.seed) for one in failed}
    planned |= {(int(size), int(seed)) for size in sizes for seed in seeds}
    lacks = {name: len(planned - done) for name, done in cells.items()}
    missing = [f"{name} lacks {count} of {len(planned):,} runs" for name, count in lacks.items() if count]
    others = dict.fromkeys([*names, *(one.series for one in failed)])
    missing += [f"{name}{', the reference,' * (name in names[:1])} has no run" for name in others if name not in cells]
    again = "" if failed else " The study's command tries them again."  # of failed ones, the next steps say so
    return f"Runs are missing: {', '.join(missing)}.{again}" if missing else ""


def items(value: JsonValue) -> list[str]:
    """The items of a list in a protocol; none without a list."""
    return [] if isinstance(value, str | Mapping) or not isinstance(value, Sequence) else [str(each) for each in value]


def more_steps(results: Sequence[CellResult]) -> str:
    """A warning for each series whose larger sizes also trained for longer, so that two causes are mixed.

    Steps that grow by one power of the images are a rule that the budget states (`study_notes`), and no second cause.
    """
    steps: dict[str, dict[int, list[int]]] = {}
    for one in results:
        steps.setdefault(one.series, {}).setdefault(one.num_images, []).append(one.steps)
    longer: dict[str, list[str]] = {}
    for name, by_size in steps.items():
        small, large = min(by_size), max(by_size)
        least, most = max(by_size[small]), min(by_size[large])
        if least < most:
            longer.setdefault(f"{least:,} at {small:,} images, {most:,} at {large:,} images", []).append(name)
    parts = [at if names == [*steps] else f"{' and '.join(names)}: {at}" for at, names in longer.items()]
    if not parts:
        return ""
    return f"Larger sizes also trained for more steps ({'; '.join(parts)}), so images alone do not explain their gain."


def few_passes(results: Sequence[CellResult]) -> str:
    """A warning where the budget is so short that most images were seen at most twice."""
    largest = max(one.num_images for one in results)
    passes = min(one.epochs for one in results if one.num_images == largest)
    if round(passes, 1) >= FEW_PASSES:  # whole batches: three epochs can be 2.999
        return ""
    few = f"{count_of(float(f'{passes:.2g}'), 'pass', 'passes')} over them, too few to show the value of more images"
    return f"At {largest:,} images the budget was {few}: a longer budget may change this answer."


def num_choosing(protocol: Protocol) -> int:
    """The number of validation images that choose the tested weights beside the training images."""
    images, checkpoints = protocol.get("images"), str(protocol.get("checkpoints", LAST_WEIGHTS))
    if checkpoints == LAST_WEIGHTS or not isinstance(images, Mapping) or protocol.get("budget") == LINEAR_PROBE:
        return 0
    return int(str(images.get("validation", 0)))


def late_gain(metrics: Path) -> float | None:
    """Fraction by which the validation loss of a run fell over the last fifth of the steps; None: not known."""
    try:
        losses = [float(row["val/loss"]) for row in records(metrics) if row["val/loss"]]
    except (OSError, ValueError, LookupError):
        return None
    before = losses[-1 - len(losses) // 5] if len(losses) >= 5 else 0.0
    return 1 - losses[-1] / before if before > 0 else None


def at_the_end(results: Sequence[CellResult]) -> str:
    """Whether the validation loss still fell when the trainings with most images ended; empty: not known."""
    largest = max((one.num_images for one in results), default=0)
    gains: dict[str, list[float]] = {}
    for one in results:
        if one.num_images == largest and one.late_gain is not None:
            gains.setdefault(one.series, []).append(one.late_gain)
    falling = {name: float(np.mean(values)) for name, values in gains.items() if np.mean(values) > STILL_FALLING}
    if not falling:
        ended = f"At {largest:,} images the validation loss no longer fell in the last fifth of the steps."
        return ended if gains else ""
    words = " and ".join(f"that of {name} by {percent(gain, 0)}" for name, gain in falling.items())
    still = f"At {largest:,} images the validation loss still fell in the last fifth of the steps, {words}"
    return f"{still}: a longer budget may change this answer."


def last_weights_warning(count: int, total: int, unit: str, remedy: str) -> str:
    """A warning where checkpoints were chosen too early; `remedy` names their use, and an option for the last ones."""
    what = "the last weights are clearly more accurate on the validation images than the checkpoint that"
    return f"In {count:,} of {total:,} {unit} {what} {remedy}" if count else ""


def other_aim_warning(protocol: Protocol) -> str:
    """A warning where checkpoints follow a metric that counts classes alike, as errors do not; else an empty text."""
    checkpoints = value_text(protocol.get("checkpoints"))
    aims = " and ".join(words for name, words in _CLASSES_ALIKE.items() if name in checkpoints)
    words = (
        f"Errors count all test images alike. The checkpoints follow {aims}, which this study does not compare: "
        "'vit report RUN' shows it for each run, with an interval."
    )
    return words if aims else ""


def end_of_tuning_warning(protocol: Protocol) -> str:
    """A warning where tuning chose the lowest or the highest of three or more numbers; else an empty text.

    With two numbers every choice is at an end.
    """
    choices, settings = protocol.get("chosen"), protocol.get("settings")
    if not isinstance(choices, Mapping) or not isinstance(settings, Mapping):
        return ""
    extremes: dict[str, list[str]] = {}
    for group, choice in choices.items():
        name, _, num_images = group.rpartition(", ")  # "CNN, 1,000 images"
        tried = _numbers(settings.get(name))
        for option, taken in _numbers(choice).items():
            values = sorted(tried.get(option, set()))
            if len(values) > 2 and taken in ({values[0]}, {values[-1]}):  # of all seeds
                end = "lowest" if taken == {values[0]} else "highest"
                extremes.setdefault(f"{name} took the {end} {option}", []).append(num_images)
    words = "; ".join(f"{took} ({', '.join(sizes)})" for took, sizes in extremes.items())
    outside = "The best value may lie outside those that were tried"
    return f"{outside}: {words}. Give --tune more values." if extremes else ""


def _numbers(settings: JsonValue) -> dict[str, set[float]]:
    """{option: its numbers} of one setting, or of a list of them."""
    numbers: dict[str, set[float]] = {}
    for option, value in _NUMBER.findall(value_text(settings)):
        numbers.setdefault(option, set()).add(float(value))
    return numbers
