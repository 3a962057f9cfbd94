"""Warnings of a study about its budget: unequal lengths, few passes, checkpoints chosen early"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vit.csv_files import records
from vit.study.findings import CellResult, Protocol
from vit.study.wording import LINEAR_PROBE, last_weights_warning

STILL_FALLING = 0.02  # of the validation loss, over the last fifth of the steps
LAST_WEIGHTS = "last weights"  # as `rule_words` says
POWER_TOLERANCE = 0.15  # of the logarithm of a number of steps
FEW_PASSES = 3.0  # over the images of the largest size


def more_steps(results: Sequence[CellResult]) -> str:
    """A warning for each series whose larger sizes also trained for longer, so that two causes are mixed.

    Steps that grow by one power of the images are a rule that the budget states, and not a second cause.
    """
    steps: dict[str, dict[int, list[int]]] = {}
    for one in results:
        steps.setdefault(one.series, {}).setdefault(one.num_images, []).append(one.steps)
    longer: dict[str, list[str]] = {}
    for name, by_size in steps.items():
        small, large = min(by_size), max(by_size)
        least, most = max(by_size[small]), min(by_size[large])
        if least < most and not _is_power(by_size):
            longer.setdefault(f"{least:,} at {small:,} images, {most:,} at {large:,} images", []).append(name)
    if not longer:
        return ""
    is_of_all = len(longer) == 1 and [*steps] in longer.values()
    words = next(iter(longer)) if is_of_all else "; ".join(f"{' and '.join(own)}: {at}" for at, own in longer.items())
    return f"Larger sizes also trained for more steps ({words}), so images alone do not explain their gain."


def _is_power(by_size: Mapping[int, Sequence[int]]) -> bool:
    """Whether steps grow by one power of the number of images, but for the rounding to equal rounds."""
    sizes = sorted(by_size)
    logs, steps = np.log(sizes), np.log([float(np.median(by_size[size])) for size in sizes])
    line = np.interp(logs, [logs[0], logs[-1]], [steps[0], steps[-1]])
    grows = len(sizes) > 2 and steps[-2] > steps[0]  # the longer of two lengths is flat first, and then grows
    return grows and bool(np.abs(steps - line).max() < POWER_TOLERANCE)


def few_passes(results: Sequence[CellResult]) -> str:
    """A warning where the budget is so short that most images were seen at most twice."""
    largest = max((one.num_images for one in results), default=0)
    passes = min((one.epochs for one in results if one.num_images == largest), default=FEW_PASSES)
    if round(passes, 1) >= FEW_PASSES:  # whole batches: three epochs can be 2.999
        return ""
    return (
        f"At {largest:,} images the budget was {passes:.2g} passes over them, too few to show the value of more "
        "images: a longer budget may change this answer."
    )


def last_weights(results: Sequence[CellResult]) -> str:
    """What `last_weights_warning` says, for the runs of a study."""
    count = sum(one.last_is_better for one in results)
    remedy = "was measured: --set optim.best_metric=last measures the last weights."
    return last_weights_warning(count, len(results), "runs", remedy)


def choosing_images(protocol: Protocol) -> str:
    """The end of an axis of training images: the validation images that choose the weights; empty: none do."""
    images, checkpoints = protocol.get("images"), str(protocol.get("checkpoints", LAST_WEIGHTS))
    if checkpoints == LAST_WEIGHTS or not isinstance(images, Mapping) or protocol.get("budget") == LINEAR_PROBE:
        return ""
    return f", and {images.get('validation', 0):,} validation images that choose the weights"


def late_gain(metrics: Path) -> float | None:
    """The fraction by which the validation loss of a run fell over the last fifth of the steps; None: not known."""
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
    if not gains:
        return ""
    falling = {name: float(np.mean(own)) for name, own in gains.items() if np.mean(own) > STILL_FALLING}
    if not falling:
        return f"At {largest:,} images the validation loss no longer fell in the last fifth of the steps."
    words = " and ".join(f"of {name} by {100 * gain:.0f} %" for name, gain in falling.items())
    return (
        f"At {largest:,} images the validation loss {words} still fell in the last fifth of the steps: "
        "a longer budget may change this answer."
    )
