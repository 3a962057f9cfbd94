"""The images of a pretraining: those to learn from, numbered, and a few with labels, which show the progress"""

from dataclasses import replace

import numpy as np
from torch.utils.data import DataLoader

from vit.data.checks.contents import Contents
from vit.data.core.batch import Batch
from vit.data.core.draws import hashed
from vit.data.core.samples import Labels, Samples, Source
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.augment import Augment
from vit.data.pixels.preprocess import Preprocess
from vit.extras.pretrain.unlabeled import UNKNOWN

MOST_BANK, MOST_QUERIES = 1_000, 1_000  # labeled images that show the progress, which takes time
LABELED, QUERIES = "labeled", "queries"  # splits beside "train"


def numbered(source: Source) -> dict[str, Samples]:
    """The splits that a pretraining loads: "train", whose labels are numbers 0, 1, ... of the images, and some labels.

    "labeled" has training images with a class, and "queries" has validation images. Both are missing where an image has
    no class, or several labels. No other image is among them.
    """
    train = source.splits["train"]
    splits = {"train": replace(train, labels=np.arange(len(train)))}
    if has_progress(source):
        known = np.flatnonzero(train.labels != UNKNOWN)
        splits[LABELED] = spread(train.select(known), MOST_BANK)
        splits[QUERIES] = spread(source.splits["validation"], MOST_QUERIES)
    return splits


def has_progress(source: Source) -> bool:
    """Whether nearest neighbors can show the progress: images have one class each, some of them for validation."""
    train = source.splits["train"]
    return "validation" in source.splits and train.task.is_exclusive and bool((train.labels != UNKNOWN).any())


def spread(samples: Samples, most: int) -> Samples:
    """At most so many images from all parts of a list, the same on every machine."""
    if len(samples) <= most:
        return samples
    places: Labels = np.argsort(hashed(most, np.arange(len(samples))), kind="stable")[:most]
    return samples.select(np.sort(places))


class PretrainingData(ImageDataModule):
    """Loaders of a pretraining: the label of a training image is its number, on every process the same.

    Args:
        source: the images, with their classes where they have any.
        preprocess, augment, options, seed: as for `ImageDataModule`.
    """

    def __init__(
        self, source: Source, preprocess: Preprocess, augment: Augment, options: LoaderOptions, seed: int
    ) -> None:
        super().__init__(replace(source, splits=numbered(source)), preprocess, augment, options, seed)
        self.original = source

    def renewed(self, options: LoaderOptions) -> "PretrainingData":
        """Loaders of the same images from the first batch on, with the images that memory holds already."""
        assert self.augment is not None
        fresh = PretrainingData(self.original, self.preprocess, self.augment, options, self.seed)
        fresh._datasets = self._datasets
        return fresh

    def val_dataloader(self) -> list[DataLoader[Batch]]:  # type: ignore[override]
        """The labeled training images, then the validation images; none where there are no labels."""
        return [self.evaluation_loader(split) for split in (LABELED, QUERIES) if split in self.source.splits]


def only_used(source: Source) -> Source:
    """The source with the images to learn from and those that show the progress, and a note about all others."""
    kept = {"train", "validation"} if has_progress(source) else {"train"}
    unseen = [f"{len(samples):,} {split}" for split, samples in source.splits.items() if split != "train"]
    note = [f"never learned from: {' and '.join(unseen)} images"] if unseen else []
    splits = {split: samples for split, samples in source.splits.items() if split in kept}
    return replace(source, splits=splits, notes=[*source.notes, *note])


def copies_of_unseen(source: Source, contents: Contents) -> list[int]:
    """Rows of training images without a label whose bytes are those of an image of another split."""
    unseen = {found for split, hashes in contents.hashes.items() if split != "train" for found in hashes} - {""}
    train = source.splits["train"]
    unlabeled = (train.labels == UNKNOWN).reshape(len(train), -1).all(axis=1)
    return [row for row, found in enumerate(contents.hashes["train"]) if unlabeled[row] and found in unseen]


def without_rows(source: Source, contents: Contents | None, rows: set[int]) -> tuple[Source, Contents | None]:
    """`only_used` of a source without some of its training images, and the contents of what is left."""
    train = source.splits["train"]
    kept = [row for row in range(len(train)) if row not in rows]
    notes = [f"{len(rows):,} of them are copies of validation or test images and are left out"] if rows else []
    fewer = replace(source, splits={**source.splits, "train": train.select(kept)}, notes=[*source.notes, *notes])
    used = only_used(fewer)
    if contents is None:
        return used, None
    hashes = {split: contents.hashes[split] for split in used.splits}
    hashes["train"] = [hashes["train"][row] for row in kept]
    return used, replace(contents, hashes=hashes)
