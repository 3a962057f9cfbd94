"""What a network gave its validation images: thresholds and prediction sets are fitted to these numbers

A checkpoint keeps them, so that `vit predict --target_accuracy` and `--coverage` need no other file.
"""

import base64
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.tasks.levels import levels_of

MOST_IMAGES = 20_000  # of which a checkpoint keeps numbers, 16 bytes each: more would hardly move a quantile
_FLOATS = ("own", "above", "highest")
_SPLITS = ("calibration", "validation")  # in the order in which they are preferred

Floats32 = npt.NDArray[np.float32]


def fitted_split(splits: Container[str]) -> str | None:
    """The split whose images temperature, thresholds and prediction sets are fitted to; None where there is none."""
    return next((split for split in _SPLITS if split in splits), None)


def fitted_text(split: str | None) -> str:
    """The images that something is fitted to, in words; "held-out images" where the split is not known."""
    return "held-out images" if split is None else f"{split} images"


@dataclass(frozen=True)
class ValidationScores:
    """Calibrated probabilities of n validation images, as far as thresholds and prediction sets depend on them."""

    labels: npt.NDArray[np.int32]  # (n,) true class numbers
    own: Floats32  # (n,) probabilities of the true classes
    above: Floats32  # (n,) sums of the probabilities that are larger than that of the true class
    highest: Floats32  # (n,) largest probabilities
    groups: npt.NDArray[np.int64] | None = None  # (n,) number of each image's group; None: images are independent
    split: str | None = None  # split of the images, "calibration" or "validation"; None: not known
    levels: "tuple[ValidationScores, ...]" = ()  # of the groups of classes at each level of `levels_of`

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def correct(self) -> npt.NDArray[np.bool_]:
        """(n,) whether the most probable class is the true one."""
        return np.asarray(self.own >= self.highest)

    @classmethod
    def of(
        cls,
        labels: npt.NDArray[np.int64],
        probabilities: Floats32,
        groups: npt.NDArray[np.int64] | None = None,
        split: str | None = None,
        class_names: Sequence[str] = (),
    ) -> "ValidationScores":
        """The scores of n images; of more than 20,000 a random choice is kept, the same every time.

        `labels` and `groups` are (n,), `probabilities` (n, C) calibrated. The names of the C classes may have levels.
        """
        if len(labels) > MOST_IMAGES:
            sample = np.sort(np.random.default_rng(0).choice(len(labels), MOST_IMAGES, replace=False))
            labels, probabilities = labels[sample], probabilities[sample]
            groups = None if groups is None else groups[sample]
        true, best = probabilities[np.arange(len(labels)), labels], probabilities.max(axis=1)
        own = np.where(probabilities.argmax(axis=1) == labels, true, np.minimum(true, np.nextafter(best, 0)))  # a tie
        above = np.where(probabilities > own[:, None], probabilities, 0).sum(axis=1, dtype="f4") - true * (own < true)
        levels = tuple(cls.of(one.group_of[labels], one.joined(probabilities)) for one in levels_of(class_names))
        return cls(labels.astype(np.int32), own, above, best, groups, split, levels)

    def to_plain(self) -> dict[str, Any]:
        """The arrays as text: little-endian bytes in base64. And the split, and the same of each level."""
        arrays = {"labels": self.labels.astype("<i4")} | {name: getattr(self, name).astype("<f4") for name in _FLOATS}
        if self.groups is not None:
            arrays["groups"] = self.groups.astype("<i4")
        plain = {name: base64.b64encode(array.tobytes()).decode("ascii") for name, array in arrays.items()}
        more = {"split": self.split, "levels": [one.to_plain() for one in self.levels]}
        return plain | {name: value for name, value in more.items() if value}

    @classmethod
    def from_plain(
        cls, plain: Mapping[str, Any], num_classes: int, class_names: Sequence[str] = ()
    ) -> "ValidationScores":
        """The scores that `to_plain` wrote, checked. KeyError, TypeError, ValueError: it is not such a mapping."""
        labels = _array(plain["labels"], "<i4").astype(np.int32)
        own, above, highest = (_array(plain[name], "<f4").astype(np.float32) for name in _FLOATS)
        groups = _array(plain["groups"], "<i4").astype(np.int64) if "groups" in plain else None
        columns = [labels, own, above, highest] + ([] if groups is None else [groups])
        if not 0 < len(labels) <= MOST_IMAGES or len({len(column) for column in columns}) > 1:
            raise ValueError("the validation scores are of different lengths")
        if labels.min() < 0 or labels.max() >= num_classes:
            raise ValueError("the validation scores have a class that is not there")
        if not all(((column >= 0) & (column <= 1.001)).all() for column in (own, above, highest)):
            raise ValueError("the validation scores are not probabilities")
        split = plain.get("split")
        if split not in (None, *_SPLITS):
            raise ValueError("the validation scores are of an unknown split")
        pairs = zip(levels_of(class_names), plain["levels"], strict=True) if "levels" in plain else ()
        levels = tuple(cls.from_plain(one, len(level.names)) for level, one in pairs)
        if any(len(one) != len(labels) for one in levels):
            raise ValueError("the validation scores are of different lengths")
        return cls(labels, own, above, highest, groups, split, levels)


def _array(text: str, kind: str) -> npt.NDArray[Any]:
    if len(text) > math.ceil(MOST_IMAGES * 4 / 3) * 4 + 4:
        raise ValueError("the validation scores are of too many images")
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)
