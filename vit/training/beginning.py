"""The files of a run folder before its first step, and the check of its images when it resumes"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vit.atomic_files import write_json, write_text
from vit.checkpoints.run import RunDirectory
from vit.data.samples import Source
from vit.data.split import SplitRow, read_splits, split_rows, write_splits
from vit.errors import DataError
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import dump

if TYPE_CHECKING:
    from vit.data.contents import Contents


def write_beginning(run: RunDirectory, recipe: Recipe, source: Source, contents: "Contents") -> None:
    """Write the options, the class names, and the split and content hash of every image."""
    write_text(run.config_path, dump(recipe))
    write_json(run.class_names_path, {"classes": list(source.class_names)})
    write_splits(source, run.splits_path, contents.hashes)


def check_unchanged(run: RunDirectory, source: Source, contents: "Contents", may_have_moved: bool = False) -> None:
    """Raise DataError if the images of a run have changed, because the order of images would change too.

    Args:
        may_have_moved: whether equal contents in the same order are enough, wherever the files lie.
    """
    before, now = read_splits(run.splits_path), split_rows(source, contents.hashes)
    if before.keys() == now.keys() and all(_same(before[split], now[split], may_have_moved) for split in now):
        return
    images = [[(split, row) for split, rows in found.items() for row in rows] for found in (before, now)]
    known, here = ({tuple(row[:3]) for _, row in rows} for rows in images)
    if known == here:  # else other splits and groups follow from the other images
        known, here = ({(split, *map(str, row)) for split, row in rows} for rows in images)
    gone, new = len(known - here), len(here - known)
    raise DataError(
        f"the images of {source.name} are not those that {run.splits_path} lists: {gone:,} are missing, changed, "
        f"or in another class or split; {new:,} are new",
        "restore them, or start a new run",
    )


def _same(before: Sequence[SplitRow], now: Sequence[SplitRow], may_have_moved: bool) -> bool:
    """Whether two lists hold the same images. Images without a content hash count as the same."""
    return len(before) == len(now) and all(
        (old.path == new.path or (may_have_moved and old.content_hash != ""))
        and old.label == new.label
        and old.content_hash in ("", new.content_hash)
        for old, new in zip(before, now, strict=True)
    )
