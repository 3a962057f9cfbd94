"""The teacher of each cell of a study: one for all, or one for each number of images and seed"""

from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path

from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe


def has_pattern(recipe: Recipe) -> bool:
    """Whether the teacher depends on the cell."""
    name = recipe.distill.teacher
    return name is not None and ("{" in name or has_magic(name))


def with_cell_teacher(recipe: Recipe, num_images: int, seed: int) -> Recipe:
    """The recipe with the teacher of a cell.

    {images} and {seed} in the name of a teacher stand for those of the cell, with a format as in Python: {images:07d}.
    A * stands for any text. So the cells of one network can teach another network on the same images.

    Raises:
        UsageError: the name is wrong, or does not stand for exactly one file or folder.
    """
    name = recipe.distill.teacher
    if name is None or not has_pattern(recipe):
        return recipe
    try:
        path = str(Path(name.format(images=num_images, seed=seed)).expanduser())
    except (ValueError, LookupError, AttributeError) as error:
        raise UsageError(f"distill.teacher {name}: {error}", "only {images} and {seed} may stand in a name") from error
    found = sorted(glob(path)) if has_magic(path) else [path]
    if len(found) != 1:
        raise UsageError(
            f"distill.teacher {path} stands for {len(found)} files or folders, not for one",
            "train the teachers first, one for each number of images and seed",
        )
    return replace(recipe, distill=replace(recipe.distill, teacher=found[0]))
