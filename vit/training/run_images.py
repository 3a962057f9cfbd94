"""The images of a run: whether they can be measured, where they are now, and which of them a data set holds again.

`splits.csv` of a run folder lists every image with its split and a hash of its content, so that nothing is concluded
from a folder that has changed since.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vit.checkpoints.run import RunDirectory
from vit.data.contents import Contents
from vit.data.samples import Labels, Samples, Source
from vit.data.split import SPLITS, SplitRow, read_splits, split_rows
from vit.errors import DataError
from vit.training.images import source_of
from vit.training.recipe import Recipe

MEASURED = ("validation", "test")  # splits whose images nothing can stand in for
_SHOWN = 5


def check_readable(source: Source, contents: Contents) -> None:
    """Raise DataError if validation or test files are not images: this must show before the first step."""
    bad = [
        f"{source.splits[split].file(place)}: {reason}"
        for split in MEASURED
        for place, reason in contents.unreadable.get(split, {}).items()
    ]
    if bad:
        some = "; ".join(bad[:_SHOWN]) + "; ..." * (len(bad) > _SHOWN)
        others = len(contents.unreadable.get("train", {}))
        besides = f" (and {others:,} training files)" if others else ""
        raise DataError(
            f"{len(bad):,} validation and test files{besides} cannot be read: {some}",
            "fix or remove them ('vit data check' lists all)",
        )


def images_of_run(run: RunDirectory, recipe: Recipe, root: str | None = None) -> Source:
    """The images of a run, split as they were when it was trained, whatever lies beside them now.

    Args:
        root: where they are now, if they are torchvision's and have moved.

    Raises:
        DataError: they are not there, or a data set that is known by its name has changed.
    """
    listed = read_splits(run.splits_path)
    if any(Path(row.path).is_absolute() for rows in listed.values() for row in rows[:1]):
        return _files(run, Path(recipe.data.source).expanduser(), listed)
    found = source_of(recipe, root)
    names = {split: [row[:2] for row in rows] for split, rows in listed.items()}
    if {split: [row[:2] for row in rows] for split, rows in split_rows(found).items()} != names:
        raise DataError(f"the images of {found.name} are not those of the run any more", "give DATA")
    return found


def _files(run: RunDirectory, data: Path, listed: Mapping[str, Sequence[SplitRow]]) -> Source:
    if not data.exists():
        raise DataError(f"there is no {data}, where the images of the run were", "put them back, or give DATA")
    base = data.resolve() if data.is_dir() else data.parent.resolve()
    try:
        class_names = tuple(map(str, json.loads(run.class_names_path.read_text(encoding="utf-8"))["classes"]))
        numbers = {name: number for number, name in enumerate(class_names)}
        splits = {
            split: Samples(
                [row.path.removeprefix(f"{base}{os.sep}") for row in rows],
                np.array([numbers[row.label] for row in rows], dtype=np.int64),
                base,
            )
            for split, rows in listed.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{run.class_names_path} is damaged: {error!r}", "restore it, or train again") from error
    return Source(base.name if data.is_dir() else data.stem, class_names, splits)


def check_contents(run: RunDirectory, source: Source, split: str, contents: Contents) -> None:
    """Raise DataError if images of a split hold something else than when the run began, or are gone.

    Those that the run itself could not read, and left out, may be gone.
    """
    left_out = _left_out(run).get(split, {})
    before = [row.content_hash for row in read_splits(run.splits_path)[split]]
    samples = source.splits[split]
    pairs = zip(samples.paths, before, contents.hashes[split], strict=True)
    changed = [path for path, known, now in pairs if known not in ("", now) and path not in left_out]
    if changed:
        some = ", ".join(changed[:_SHOWN]) + ", ..." * (len(changed) > _SHOWN)
        raise DataError(
            f"{len(changed):,} {split} images of {source.name} have changed since the run or are gone: {some}",
            "put them back, or give DATA to measure on the images as they are now",
        )


def seen_in_training(run: RunDirectory, source: Source, split: str, contents: Contents) -> dict[str, Labels]:
    """Which images of a split the run has trained or validated on: {"train" or "validation": their places}.

    They are recognized by content, whatever their names; in a run from before contents were kept, by path.
    """
    listed = read_splits(run.splits_path)
    by_content = any(row.content_hash for rows in listed.values() for row in rows)
    only = replace(source, splits={split: source.splits[split]})
    rows = split_rows(only, contents.hashes if by_content else None)[split]
    used: dict[str, str] = {}
    for name in reversed(SPLITS):  # train last: what was trained on as well was trained on
        used |= {(row.content_hash if by_content else row.path): name for row in listed.get(name, ())}
    used.pop("", None)
    found = [used.get(row.content_hash if by_content else row.path, "") for row in rows]
    return {name: np.flatnonzero([one == name for one in found]) for name in ("train", "validation")}


def measured_part(samples: Samples, left_out: Mapping[str, str]) -> Samples:
    """The images that were measured."""
    return samples.select([place for place, path in enumerate(samples.paths) if path not in left_out])


def count_left_out(run: RunDirectory) -> int:
    """How many validation and test images a finished run could not read."""
    return sum(map(len, _left_out(run).values()))


def _left_out(run: RunDirectory) -> dict[str, dict[str, str]]:
    """Images that the run could not read and did not measure, by split; none while the run is not finished."""
    return run.read_result().left_out if run.result_path.is_file() else {}
