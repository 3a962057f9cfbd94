"""Levels of classes: a class name such as animals/bird/sparrow is a path, and each group above it is an answer, too"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit.errors import DataError

SEPARATOR = "/"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Level:
    """A partition of the classes into groups: those whose names have the same first words."""

    depth: int  # number of words of a class name that count, from 1
    names: tuple[str, ...]  # (G,) names of the groups; a class with as many words, or fewer, is a group of its own
    group_of: Numbers  # (C,) group of each class

    def sums(self, probabilities: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Probabilities of classes (n, C) -> of groups (n, G): that of a group is the sum of its classes."""
        order = np.argsort(self.group_of, kind="stable")
        starts = np.searchsorted(self.group_of[order], np.arange(len(self.names)))
        return np.add.reduceat(probabilities[:, order], starts, axis=1)

    def joined(self, probabilities: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The same with 0 for a group of one class: the class was not sure, so it is not an answer of this level."""
        return self.sums(probabilities) * (np.bincount(self.group_of) > 1)

    @property
    def example(self) -> str:
        """The group with most classes."""
        return self.names[int(np.bincount(self.group_of).argmax())]


def levels_of(class_names: Sequence[str]) -> tuple[Level, ...]:
    """The levels above the classes, the deepest first; () where no two classes have a group in common.

    A level counts where it joins some classes or groups of the level below it, and not all.
    """
    paths = list(map(_path, class_names))
    if any("" in path for path in paths) or _parent_and_child(class_names):
        return ()  # names such as /a/alley of Places365, or those of a file that was not trained here
    levels: list[Level] = []
    below = len(paths)
    for depth in range(max(map(len, paths), default=1) - 1, 0, -1):
        keys = [path[:depth] for path in paths]
        number = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        if 1 < len(number) < below:
            groups = np.array([number[key] for key in keys], dtype=np.int64)
            levels.append(Level(depth, tuple(map(SEPARATOR.join, number)), groups))
            below = len(number)
    return tuple(levels)


def check_levels(class_names: Sequence[str], data: str) -> None:
    """Raise DataError where a class is also the group of another class, so that an answer would have two meanings."""
    if pair := _parent_and_child(class_names):
        parent, child = pair
        raise DataError(
            f"{data}: the class {parent!r} is also the group of the class {child!r}",
            f"name the class {parent + SEPARATOR}other, or write another mark than {SEPARATOR!r} in {child!r}",
        )


def _path(name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in name.split(SEPARATOR))


def _parent_and_child(class_names: Sequence[str]) -> tuple[str, str] | None:
    classes = {_path(name): name for name in class_names}
    above = ((path[:depth], name) for path, name in classes.items() for depth in range(1, len(path)))
    return next(((classes[parent], name) for parent, name in above if parent in classes), None)
