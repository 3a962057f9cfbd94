"""Which images a recipe uses for training, validation and test"""

from dataclasses import replace

from vit.data.checks.bursts import with_bursts
from vit.data.core.groups import group_notes, leak_notes, with_groups
from vit.data.core.samples import Source, absent_notes
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits, with_fold
from vit.data.splits.subset import subset, subset_kind
from vit.errors import EmptyClassError, UsageError
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe


def subset_text(kind: str, source: Source) -> str:
    """How a subset of the training images is chosen."""
    if not source.class_names:
        return "at random"
    if not source.task.is_exclusive:
        return "with the label frequencies of all training images"
    return {"balanced": "class-balanced", "natural": "with the class shares of all training images"}[kind]


def check_shares(found: Source, data: DataConfig) -> None:
    """Raise UsageError if the fractions of validation, test and calibration images leave too few images, or none."""
    if "validation" not in found.splits and data.validation == 0:
        raise UsageError(
            "data.validation is 0, and the data have no validation images of their own",
            "give a fraction above 0: these images choose the best checkpoint",
        )
    fractions = {"validation": data.validation, "test": data.test, "calibration": data.calibration}
    cut = {name: fraction for name, fraction in fractions.items() if name not in found.splits and fraction > 0}
    if sum(cut.values()) >= 1:
        given = " and ".join(f"data.{name} {fraction:g}" for name, fraction in cut.items())
        raise UsageError(
            f"{given} leave no training images",
            "give fractions whose sum is below 1",
        )


def subset_seed(recipe: Recipe) -> int:
    """The seed that decides which training images are used."""
    return recipe.seed if recipe.data.subset_seed is None else recipe.data.subset_seed


def opened_data(data: DataConfig) -> Source:
    """The images that a recipe names, as DATA has them.

    Raises:
        VitError: as for `open_source`.
    """
    try:
        return open_source(data.source, data.root, data.download, data.allow_empty, data.columns)
    except EmptyClassError as error:
        raise error.with_option() from None


def at_revision(recipe: Recipe, found: Source) -> Recipe:
    """The recipe with DATA at the revision that was read, so that later cells of a study read the same images."""
    return recipe if found.origin is None else replace(recipe, data=replace(recipe.data, source=found.origin))


def kept_together(found: Source, data: DataConfig) -> Source:
    """The images with the groups that no split divides: of the user, and of near-duplicates.

    Raises:
        UsageError: the pattern of the groups is wrong.
        DataError: an image has no group.
    """
    found = with_groups(found, data.groups)
    found = replace(found, notes=[*found.notes, *group_notes(found)])
    return with_bursts(found) if data.bursts == "together" else found


def divided(found: Source, data: DataConfig) -> Source:
    """The images with their groups and with all splits: those of DATA, of a fold, and those cut from the training part.

    Raises:
        UsageError: the pattern of the groups, the fold or a fraction is wrong.
        DataError: there are too few images or groups for a split, or an image has no group.
    """
    found = kept_together(found, data)
    given = () if data.fold is not None else tuple(found.splits)
    if data.fold is not None:
        found.check_one_class("data.fold")
        found = with_fold(found, data.fold, data.split_seed)
    else:
        found = replace(found, notes=[*found.notes, *leak_notes(found)])
    check_shares(found, data)
    cut = with_all_splits(found, data.validation, data.test, data.split_seed, data.calibration)
    new = [split for split in cut.splits if split not in given and split != "train"]
    return replace(cut, notes=[*cut.notes, *absent_notes(cut, new)])


def with_subset(source: Source, recipe: Recipe) -> Recipe:
    """The recipe, with "auto" replaced by the kind of subset for these training images."""
    kind = subset_kind(source.splits["train"].labels, recipe.data.subset)
    return replace(recipe, data=replace(recipe.data, subset=kind))


def chosen_part(source: Source, recipe: Recipe) -> Source:
    """The source, with only those training images that the recipe uses."""
    wanted, train = recipe.data.train_images, source.splits["train"]
    if wanted is None:
        return source
    kind, seed = subset_kind(train.labels, recipe.data.subset), subset_seed(recipe)
    note = f"{wanted:,} of {len(train):,} training images ({subset_text(kind, source)}, seed {seed})"
    chosen = replace(source, splits={**source.splits, "train": subset(train, wanted, seed, kind)})
    return replace(chosen, notes=[*source.notes, *absent_notes(chosen, ("train",)), note])
