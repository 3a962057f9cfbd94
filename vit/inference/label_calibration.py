"""A temperature for each label: several sigmoids are rarely wrong in the same way

Each label is a classifier of its own, so each gets a temperature as a whole network does (`calibration.py`). Rare
labels and common ones are sure to different degrees, so that one number for all would be wrong for most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vit.data.samples import Labels
from vit.inference.calibration import Temperature, most_probable
from vit.inference.scored_images import Floats
from vit.inference.scored_labels import PerLabel, log_odds
from vit.tasks.label_text import NOT_KNOWN, PRESENT, LabelRows

FEWEST = 5  # known images with a label, and without it, for a temperature: fewer say too little


@dataclass(frozen=True)
class LabelTemperatures:
    """A fitted temperature for each label.

    Attributes:
        fitted: (K,) temperature of each label; None where too few images have it, or lack it.
    """

    fitted: tuple[Temperature | None, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """(K,) numbers that divide the logits: the fitted ones where they are clear, else 1."""
        return tuple(1.0 if one is None else one.value for one in self.fitted)

    def words(self, label_names: Sequence[str]) -> str:
        """The values and their origin, for people."""
        changed = [name for name, one in zip(label_names, self.fitted, strict=True) if one is not None and one.is_clear]
        if not changed:
            return f"of all {len(label_names):,} labels stay 1: the images do not tell them from 1"
        values = [value for name, value in zip(label_names, self.values, strict=True) if name in changed]
        between = f"{min(values):.3f} to {max(values):.3f}"
        words = f"of {len(changed):,} of {len(label_names):,} labels are fitted ({between})"
        return words if len(changed) == len(label_names) else f"{words}, the others stay 1"


def fit_label_temperatures(
    labels: LabelRows, probabilities: Floats, split: str = "validation", groups: Labels | None = None
) -> LabelTemperatures:
    """The temperatures that should divide the logits behind some probabilities.

    Args:
        labels: (n, K) 1 present, 0 absent, -1 unknown, of images that the network was not trained on.
        probabilities: (n, K) sigmoids at temperature 1.
        split: split of these images.
        groups: (n,) as of `image_groups.numbered`.
    """
    logits = log_odds(probabilities)
    return LabelTemperatures(tuple(_fit(labels[:, k], logits[:, k], split, groups) for k in range(labels.shape[1])))


def _fit(labels: LabelRows, logits: PerLabel, split: str, groups: Labels | None) -> Temperature | None:
    known = labels != NOT_KNOWN
    present = labels[known] == PRESENT
    if min(present.sum(), (~present).sum()) < FEWEST:
        return None
    signed = np.where(present, -logits[known], logits[known])  # the loss of a label is log(1 + exp(signed))

    def losses(log_temperature: float) -> PerLabel:
        return np.asarray(np.logaddexp(0.0, signed / np.exp(log_temperature)))

    return most_probable(losses, split, None if groups is None else groups[known])
