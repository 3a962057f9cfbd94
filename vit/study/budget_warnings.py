"""Warnings of a study about its budget: lengths that grow with the images, few passes, checkpoints chosen early"""

from collections.abc import Sequence

from vit.study.findings import CellResult
from vit.study.wording import last_weights_warning

FEW_PASSES = 3.0  # over the images of the largest size


def more_steps(results: Sequence[CellResult]) -> str:
    """A warning for each series whose larger sizes also trained for longer, so that two causes are mixed."""
    steps: dict[str, dict[int, list[int]]] = {}
    for one in results:
        steps.setdefault(one.series, {}).setdefault(one.num_images, []).append(one.steps)
    longer: dict[str, list[str]] = {}
    for name, by_size in steps.items():
        small, large = min(by_size), max(by_size)
        least, most = max(by_size[small]), min(by_size[large])
        if least < most:
            longer.setdefault(f"{least:,} at {small:,} images, {most:,} at {large:,} images", []).append(name)
    if not longer:
        return ""
    is_of_all = len(longer) == 1 and [*steps] in longer.values()
    words = next(iter(longer)) if is_of_all else "; ".join(f"{' and '.join(own)}: {at}" for at, own in longer.items())
    return f"Larger sizes also trained for more steps ({words}), so images alone do not explain their gain."


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
