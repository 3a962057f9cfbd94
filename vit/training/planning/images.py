"""Which images a recipe uses for training, validation and test, and the network for their size, if it names none"""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from vit.data.checks.bursts import with_bursts
from vit.data.core.groups import group_notes, leak_note, leaks, with_groups
from vit.data.core.image_bytes import ImageError
from vit.data.core.image_files import is_tiff
from vit.data.core.image_header import header_size, no_warnings
from vit.data.core.samples import Samples, Source, absent_notes
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits, with_fold
from vit.data.splits.subset import subset, subset_kind
from vit.errors import UsageError
from vit.registry import has_extra
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe

FOR_PHOTOGRAPHS = "vit_tiny_patch16_224"
CNN_BESIDE = {  # of 0.6 to 1.3 times the parameters with `SMALLER`, and a third to the same number of FLOPs
    "vit_nano_patch2_8": "resnet10_small",
    "vit_mini_patch4_28": "resnet10_small",
    FOR_PHOTOGRAPHS: "tf_efficientnet_lite0",
}
SMALLER = {"vit_nano_patch2_8": " --model.network.widths=[12,24,48,96]"}  # of the CNN: 0.18 instead of 1.24 million
_LARGEST_OF_NANO, _LARGEST_OF_MINI = 16, 64  # pixels
_LOOKED_AT = 20  # images


def subset_text(kind: str, source: Source) -> str:
    """How a subset of the training images is chosen."""
    if not source.class_names:
        return "at random"
    if not source.task.is_exclusive:
        return "with the label frequencies of all training images"
    return {"balanced": "class-balanced", "natural": "with the class shares of all training images"}[kind]


def subset_seed(data: DataConfig, seed: int) -> int:
    """The seed that decides which training images are used."""
    return seed if data.subset_seed is None else data.subset_seed


def opened_data(data: DataConfig) -> Source:
    """The images that a recipe names, as DATA has them. Errors are those of `open_source`."""
    return open_source(data.source, data.root, data.download, data.allow_empty, data.columns)


def at_revision(recipe: Recipe, found: Source) -> Recipe:
    """The recipe with DATA at the revision that was read, so that later cells of a study read the same images."""
    return recipe if found.origin is None else replace(recipe, data=replace(recipe.data, source=found.origin))


def kept_together(found: Source, data: DataConfig) -> Source:
    """The images with the groups that no split divides: of the user, and of near-duplicates. Errors as in `divided`."""
    found = with_groups(found, data.groups)
    of_splits = absent_notes(found, found.splits) if data.fold and len(found.splits) > 1 else []  # folds pool them
    found = replace(found, notes=[*(note for note in found.notes if note not in of_splits), *group_notes(found)])
    return with_bursts(found) if data.bursts == "together" else found


def divided(found: Source, data: DataConfig) -> Source:
    """The images with their groups and with all splits: those of DATA, of a fold, and those cut from the training part.

    UsageError: the pattern of the groups, the fold or a fraction is wrong.
    DataError: there are too few images or groups for a split, or an image has no group.
    """
    found = kept_together(found, data)
    of_data = () if data.fold is not None else tuple(found.splits)
    if data.fold is not None:
        found.check_one_class("data.fold")
        found = with_fold(found, data.fold, data.split_seed)
    else:
        found = replace(found, notes=[*found.notes, *(leak_note(*leak) for leak in leaks(found))])
    if "validation" not in found.splits and data.validation == 0:
        problem = "data.validation is 0, and the data have no validation images of their own"
        raise UsageError(problem, "give a fraction above 0: these images choose the best checkpoint")
    fractions = {"validation": data.validation, "test": data.test, "calibration": data.calibration}
    fractions = {name: fraction for name, fraction in fractions.items() if name not in found.splits and fraction > 0}
    if sum(fractions.values()) >= 1:
        shown = " and ".join(f"data.{name} {fraction:g}" for name, fraction in fractions.items())
        raise UsageError(f"{shown} leave no training images", "give fractions whose sum is below 1")
    cut = with_all_splits(found, data.validation, data.test, data.split_seed, data.calibration)
    new = [split for split in cut.splits if split not in of_data and split != "train"]
    return replace(cut, notes=[*cut.notes, *absent_notes(cut, new)])


def with_subset(data: DataConfig, train: Samples) -> DataConfig:
    """The data of a recipe, with "auto" replaced by the kind of subset for these training images."""
    return replace(data, subset=subset_kind(train.labels, data.subset))


def chosen_part(source: Source, data: DataConfig, seed: int) -> Source:
    """The source, with only those training images that a training with this seed uses."""
    wanted, train = data.train_images, source.splits["train"]
    if wanted is None:
        return source
    kind, seed = subset_kind(train.labels, data.subset), subset_seed(data, seed)
    note = f"{wanted:,} of {len(train):,} training images ({subset_text(kind, source)}, seed {seed})"
    part = replace(source, splits={**source.splits, "train": subset(train, wanted, seed, kind)})
    return replace(part, notes=[*source.notes, *absent_notes(part, ("train",)), note])


def automatic_network(train: Samples) -> tuple[str, int | None]:
    """The name of a ViT for the typical size of training images, and the image size if it is not the network's own.

    It is found without torch, but for TIFF files that Pillow does not read.
    """
    side = _typical_side(train)
    if side <= _LARGEST_OF_NANO:
        return "vit_nano_patch2_8", max(8, side - side % 2)
    if side <= _LARGEST_OF_MINI:
        return "vit_mini_patch4_28", side - side % 4
    return FOR_PHOTOGRAPHS, None


def _typical_side(train: Samples) -> int:
    rows = list(map(int, np.linspace(0, len(train) - 1, min(_LOOKED_AT, len(train)))))
    if train.arrays is not None:
        return int(np.median([min(train.arrays[row].shape[:2]) for row in rows]))
    sides = []
    train.prepare(rows)
    for row in rows:
        with suppress(ImageError), no_warnings:  # a broken image is dealt with when it is read for training
            data, name = train.encoded(row), train.name(row)
            try:
                sides.append(min(header_size(data, name)))
            except ImageError:
                if is_tiff(data) and has_extra("TIFF"):  # that Pillow does not read
                    from vit.data.pixels.planes import format_reader

                    sides.append(min(format_reader("TIFF").header_size(data, name)))
    return int(np.median(sides)) if sides else 224
