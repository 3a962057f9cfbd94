"""The images of a run: checks before training, their current files, and overlap with other data sets

`splits.csv` of a run folder lists every image with its split and a hash of its content. So every command notices when
a folder has changed.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Self

import numpy as np

from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import Contents
from vit.data.core.samples import Labels, Samples, Source, label_names
from vit.data.splits.split import SplitRow, listed_task, read_splits
from vit.errors import DataError
from vit.plain_files import read_json
from vit.training.planning.images import opened_data
from vit.training.recipes.recipe import Recipe

SEEN = ("train", "validation", "calibration")  # splits that a run learns or fits from, in the order of importance
MEASURED = ("validation", "test")  # splits in which no other image can take the place of an unreadable one
_SHOWN = 5


@dataclass(frozen=True)
class SeenImages:
    """Images of a run among the images of an evaluation."""

    # number of images that are not scored because the run has seen them, by the split of the run
    left_out: Mapping[str, int] = field(default_factory=dict)
    # number of images that are scored although the run has seen them, by the split of the run
    scored: Mapping[str, int] = field(default_factory=dict)
    warning: str = ""  # why metrics are too good for new images, without a full stop; "" where they are not

    @property
    def are_scored(self) -> bool:
        """Whether any image is scored although the run has seen it."""
        return any(self.scored.values())


def check_readable(source: Source, contents: Contents) -> None:
    """Raise DataError before the first step if validation or test files are not images."""
    bad = [
        f"{source.splits[split].name(place)}: {reason}"
        for split in MEASURED
        for place, reason in contents.unreadable.get(split, {}).items()
    ]
    if bad:
        some = "; ".join(bad[:_SHOWN]) + "; ..." * (len(bad) > _SHOWN)
        others = len(contents.unreadable.get("train", {}))
        besides = f" (and {others:,} training files)" if others else ""
        raise DataError(
            f"{len(bad):,} validation and test files{besides} cannot be read: {some}",
            "fix them, or move them elsewhere ('vit data check' lists all)",
        )


def splits_of_run(run: RunDirectory) -> dict[str, list[SplitRow]]:
    """The rows of a run's `splits.csv`, by split.

    Raises:
        DataError: the file is missing or damaged, or a finished run was about another number of images.
    """
    listed = read_splits(run.splits_path)
    try:
        result = run.read_result()
    except DataError:  # who needs the result tells that it is damaged
        return listed
    if result is None:
        return listed
    for split, measured in result.num_images.items():
        rows, count = len(listed.get(split, ())), measured + len(result.left_out.get(split, {}))
        if rows != count:
            raise DataError(
                f"{run.splits_path} lists {rows:,} {split} images, and the run had {count:,}",
                "restore the file, or train again",
            )
    return listed


def images_of_run(run: RunDirectory, recipe: Recipe, root: str | None = None) -> Source:
    """The images of a run with the splits of its training. New files in the same folder do not count.

    Args:
        root: current folder of torchvision's data sets, if it has moved.

    Raises:
        DataError: the images do not exist, or a data set with a name has changed.
    """
    listed = splits_of_run(run)
    if any(Path(row.path).is_absolute() for rows in listed.values() for row in rows[:1]):
        return _files(run, Path(recipe.data.source).expanduser(), listed)
    found = opened_data(replace(recipe.data, root=root or recipe.data.root, download=False))
    try:
        return replace(found, splits={split: _listed(found, rows) for split, rows in listed.items()})
    except LookupError as error:
        raise DataError(f"the images of {found.name} have changed since the run", "give DATA") from error


def _listed(found: Source, rows: Sequence[SplitRow]) -> Samples:
    """The images of a data set that `splits.csv` lists in one split; the cut may have been made by other rules.

    Raises:
        LookupError: one is not there, or has another label.
    """
    names = [row.path for row in rows]
    parts = [one for one in found.splits.values() if not set(names).isdisjoint(one.paths)]
    whole = reduce(Samples.followed_by, parts or found.splits.values())
    places = {path: place for place, path in enumerate(whole.paths)}
    samples = whole.select([places[name] for name in names])
    if label_names(samples, found.class_names) != [row.label for row in rows]:
        raise LookupError("another label")
    return replace(samples, groups=tuple(row.group for row in rows) if any(row.group for row in rows) else None)


def _files(run: RunDirectory, data: Path, listed: Mapping[str, Sequence[SplitRow]]) -> Source:
    if not data.exists():
        raise DataError(f"{data}, which held the images of the run, does not exist", "restore it, or give DATA")
    base = data.resolve() if data.is_dir() else data.parent.resolve()
    try:
        class_names = tuple(map(str, read_json(run.class_names_path)["classes"]))
        task = listed_task(run.splits_path)
        splits = {
            split: Samples(
                [row.path.removeprefix(f"{base}{os.sep}") for row in rows],
                task.array([row.label for row in rows], class_names),
                base,
                groups=tuple(row.group for row in rows) if any(row.group for row in rows) else None,
            )
            for split, rows in listed.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{run.class_names_path} is damaged: {error!r}", "restore it, or train again") from error
    return Source(base.name if data.is_dir() else data.stem, class_names, splits)


def check_contents(run: RunDirectory, source: Source, split: str, contents: Contents) -> None:
    """Raise DataError if images of a split have changed since the run began, or are missing.

    Images that the run itself could not read, and left out, may be missing.
    """
    left_out = _left_out(run).get(split, {})
    before = [row.content_hash for row in splits_of_run(run)[split]]
    samples = source.splits[split]
    pairs = zip(samples.paths, before, contents.hashes[split], strict=True)
    changed = [path for path, known, now in pairs if known not in ("", now) and path not in left_out]
    if changed:
        some = ", ".join(changed[:_SHOWN]) + ", ..." * (len(changed) > _SHOWN)
        raise DataError(
            f"{len(changed):,} {split} images of {source.name} have changed since the run or are missing: {some}",
            "restore them, or give DATA to measure the images as they are now",
        )


@dataclass(frozen=True)
class SeenRows:
    """The images that a run was trained, validated or calibrated on.

    Images are recognized by content, with any name. Without content hashes they are recognized by path.
    """

    used: Mapping[str, str]  # {content hash or path: the first of the splits `SEEN` that has the image}
    by_content: bool  # whether `used` has content hashes

    @classmethod
    def of(cls, run: RunDirectory) -> Self:
        """The images of a run. DataError as in `splits_of_run`."""
        listed = splits_of_run(run)
        by_content = any(row.content_hash for rows in listed.values() for row in rows)
        used: dict[str, str] = {}
        for name in reversed(SEEN):
            used |= {(row.content_hash if by_content else row.path): name for row in listed.get(name, ())}
        used.pop("", None)
        return cls(used, by_content)

    def among(self, rows: Sequence[SplitRow]) -> dict[str, Labels]:
        """Indices of the rows whose images the run has seen, by the splits of `SEEN`."""
        found = [self.used.get(row.content_hash if self.by_content else row.path, "") for row in rows]
        return {name: np.flatnonzero([one == name for one in found]) for name in SEEN}


def groups_in_training(run: RunDirectory, samples: Samples) -> list[str]:
    """Sorted names of the groups of some images that training images of a run have, too."""
    if samples.groups is None:
        return []
    rows = splits_of_run(run)["train"]
    return sorted({row.group for row in rows if row.group} & set(samples.groups))


def count_left_out(run: RunDirectory) -> int:
    """Number of validation and test images that a finished run could not read."""
    return sum(map(len, _left_out(run).values()))


def _left_out(run: RunDirectory) -> dict[str, dict[str, str]]:
    """{split: {path: reason}} of images that a run could not measure. Empty before the run is finished."""
    result = run.read_result()
    return {} if result is None else result.left_out
