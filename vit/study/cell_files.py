"""The weights and the teacher of each cell of a study: one for all, or one for each number of images and seed"""

from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path

from vit.errors import UsageError
from vit.training.recipes.recipe import DistillConfig, Recipe


def has_weights_pattern(recipe: Recipe) -> bool:
    """Whether the weights to start from depend on the cell."""
    return _is_pattern(recipe.model.init_from)


def without_cell_files(recipe: Recipe) -> Recipe:
    """The recipe without the weights and the teacher that depend on the cell, nor options that need such weights."""
    if has_weights_pattern(recipe):
        recipe = replace(recipe, model=replace(recipe.model, init_from=None, freeze="none", lora=None))
    return replace(recipe, distill=DistillConfig()) if _is_pattern(recipe.distill.teacher) else recipe


def with_cell_files(recipe: Recipe, num_images: int, seed: int) -> Recipe:
    """The recipe with the weights and the teacher of a cell.

    {images} and {seed} in their names stand for those of the cell, with a format as in Python: {images:07d}. A * stands
    for any text. So each seed can start from a pretraining of its own, and the cells of one network can teach another
    network on the same images.

    Raises:
        UsageError: a name is wrong, or does not stand for exactly one file or folder.
    """
    model, distill = recipe.model, recipe.distill
    if model.init_from is not None and has_weights_pattern(recipe):
        start = _of_cell("model.init_from", model.init_from, num_images, seed, "pretrain first")
        model = replace(model, init_from=start)
    if distill.teacher is not None and _is_pattern(distill.teacher):
        teacher = _of_cell("distill.teacher", distill.teacher, num_images, seed, "train the teachers first")
        distill = replace(distill, teacher=teacher)
    return replace(recipe, model=model, distill=distill)


def _is_pattern(name: str | None) -> bool:
    return name is not None and ("{" in name or has_magic(name)) and not Path(name).expanduser().exists()


def _of_cell(option: str, name: str, num_images: int, seed: int, fix: str) -> str:
    try:
        path = str(Path(name.format(images=num_images, seed=seed)).expanduser())
    except (ValueError, LookupError, AttributeError) as error:
        raise UsageError(f"{option} {name}: {error}", "only {images} and {seed} may stand in a name") from error
    found = sorted(glob(path)) if has_magic(path) else [path]
    if len(found) != 1:
        raise UsageError(
            f"{option} {path} stands for {len(found)} files or folders, not for one",
            f"{fix}, one for each number of images and seed",
        )
    return found[0]
