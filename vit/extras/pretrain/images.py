"""The images of a pretraining: to learn from, without labels; and a few with labels, which show the progress

They are those of folders of any depth, tables of paths and data sets, and more images beside these.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch.utils.data import DataLoader

from vit.data.checks.contents import Contents
from vit.data.core.batch import Batch
from vit.data.core.dataset_names import SPLIT_SYNONYMS, check_data, is_parquet, table_source
from vit.data.core.draws import hashed
from vit.data.core.image_files import describe_skipped, how_to_convert_skipped, image_files, is_image, subfolders
from vit.data.core.samples import Labels, Samples, Source
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.augment import Augment
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.csv_cells import ListedFiles, split_of
from vit.data.sources.image_csv import column_names, columns_of, given_columns, read_image_csv
from vit.errors import DataError, UsageError
from vit.training.planning.images import opened_data
from vit.training.recipes.pretrain_recipe import PretrainDataConfig

UNKNOWN = -1  # label of an image without one
MOST_BANK, MOST_QUERIES = 1_000, 1_000  # labeled images that show the progress, which takes time
LABELED, QUERIES = "labeled", "queries"  # splits beside "train"


def open_images(wanted: PretrainDataConfig) -> Source:
    """List the images of DATA: as `open_source`, or without class names as a split "train" with the labels -1.

    With the labels "none" all images count as training images without labels, whatever folders they lie in and whatever
    split a table names.

    Raises:
        UsageError: DATA is not a file, a folder or a known name.
        DataError: DATA has no images, or cannot be read.
    """
    data, labels, columns = wanted.source, wanted.labels, wanted.columns
    check_data(data)
    path = Path(data).expanduser()
    if path.is_dir() and not is_parquet(data):
        columns.refuse(data)
        if labels == "auto" and _has_classes(path):
            return opened_data(wanted)
        return _unlabeled_folder(path)
    if path.is_file() and path.suffix.lower() in (".csv", ".tsv"):
        given = given_columns(columns)
        known, has_others = columns_of(column_names(path, given), given)
        if labels == "none" or not (known & {"label", "labels"} or has_others):
            return _unlabeled_table(path, given, has_splits=labels == "auto")
    if labels == "none" and is_parquet(data):
        source = table_source(data).list_images(data, columns)
        every = reduce(Samples.followed_by, source.splits.values())
        unknown = replace(every, labels=np.full(len(every), UNKNOWN, dtype=np.int64))
        return replace(source, class_names=(), splits={"train": unknown})
    source = opened_data(wanted)
    if labels == "none":
        raise UsageError(f"--data.labels none is for folders and tables, and {data} is neither", "leave it out")
    return source


def with_more_images(source: Source, folder: str) -> Source:
    """The source whose training images are followed by those of a folder, at any depth and without labels.

    Images that are already in the source are left out, in whatever split they are. DataError where no others are left;
    UsageError where the images of the source are not files.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DataError(f"--data.unlabeled {folder}: there is no such folder", "give a folder of images")
    train = source.splits["train"]
    if train.root is None:
        problem = f"--data.unlabeled goes with images in files, and those of {source.name} are not files"
        raise UsageError(problem, "give a folder or a CSV as DATA")
    unlabeled = _unlabeled_folder(path).splits["train"]
    known = {os.path.realpath(images.file(row)) for images in source.splits.values() for row in range(len(images))}
    files = [str(unlabeled.file(index).absolute()) for index in range(len(unlabeled))]
    more = [file for file in files if os.path.realpath(file) not in known]
    if not more:
        raise DataError(f"--data.unlabeled {folder} has no images that DATA lacks", "give another folder")
    labels = np.full((len(more), *train.labels.shape[1:]), UNKNOWN, dtype=train.labels.dtype)
    groups = None if train.groups is None else tuple(more)  # each image stands alone
    both = train.followed_by(Samples(more, labels, groups=groups))  # an absolute path stays
    note = f"{len(more):,} images without labels from {folder}"
    if len(more) < len(files):
        note += f"; {len(files) - len(more):,} others in it are already in DATA"
    return replace(source, splits={**source.splits, "train": both}, notes=[*source.notes, note])


def _has_classes(folder: Path) -> bool:
    """Whether a folder has class folders or splits, and no images beside them. DataError for splits without classes."""
    names = subfolders(folder, Counter())
    inside = next((folder / name for name in names if name.casefold() in SPLIT_SYNONYMS["train"]), None)
    if inside is not None:
        if subfolders(inside, Counter()):
            return True
        raise DataError(f"{inside} has no class folders", f"give {inside} as DATA: its images need no labels")
    with os.scandir(folder) as entries:
        loose = [entry for entry in entries if os.path.isfile(entry.path) and is_image(entry)]
    return len(names) > 1 and not loose


def _unlabeled_folder(folder: Path) -> Source:
    skipped: Counter[str] = Counter()
    paths = sorted(image_files(folder, skipped))
    if not paths:
        instead = f" ({describe_skipped(skipped)})" if skipped else ""
        fix = how_to_convert_skipped(skipped, folder) or "give a folder that holds images, at any depth"
        raise DataError(f"{folder} has no images{instead}", fix)
    notes = [f"skipped: {describe_skipped(skipped)}"] if skipped else []
    return _unlabeled(folder.resolve().name, paths, folder, notes)


def _unlabeled_table(path: Path, given: Mapping[str, str], has_splits: bool) -> Source:
    """The images of a table of paths; of one whose splits count, the training images."""
    table = read_image_csv(path, ("path",), given, ("split",) if has_splits else ())
    files, paths = ListedFiles(path), []
    splits = table.columns.get("split", [""] * len(table.lines))
    for line, cell, split in zip(table.lines, table.columns["path"], splits, strict=True):
        name = files.add(cell, line)
        if split_of(split, f"{path}, line {line}") == "train":
            paths.append(name)
    if not paths:
        if has_splits:
            raise DataError(f"{path} has no training images", "leave split empty or write train")
        raise DataError(f"{path} has no images", "give a table with a row for each image")
    return _unlabeled(path.stem, paths, path.parent, table.notes + files.notes)


def _unlabeled(name: str, paths: list[str], root: Path, notes: list[str]) -> Source:
    labels = np.full(len(paths), UNKNOWN, dtype=np.int64)
    return Source(name, (), {"train": Samples(paths, labels, root)}, notes)


def numbered(source: Source) -> dict[str, Samples]:
    """The splits that a pretraining loads: "train", whose labels are numbers 0, 1, ... of the images, and some labels.

    "labeled" has training images with a class, and "queries" has validation images. Both are missing where an image has
    no class, or several labels.
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
    """Loaders of a pretraining: the label of a training image is its number, on every process the same."""

    def __init__(
        self, source: Source, preprocess: Preprocess, augment: Augment, options: LoaderOptions, seed: int
    ) -> None:
        super().__init__(replace(source, splits=numbered(source)), preprocess, augment, options, seed)

    def val_dataloader(self) -> list[DataLoader[Batch]]:  # type: ignore[override]
        """The labeled training images, then the validation images; none where there are no labels."""
        return [self.evaluation_loader(split) for split in (LABELED, QUERIES) if split in self.source.splits]


def is_labeled(train: Samples) -> npt.NDArray[np.bool_]:
    """(n,) whether an image has a label."""
    known: npt.NDArray[np.bool_] = (train.labels != UNKNOWN).reshape(len(train), -1).any(axis=1)
    return known


def only_used(source: Source) -> Source:
    """The source with the images to learn from and those that show the progress, and a note about all others."""
    used = {"train", "validation"} if has_progress(source) else {"train"}
    unseen = [f"{len(samples):,} {split}" for split, samples in source.splits.items() if split != "train"]
    note = [f"never learned from: {' and '.join(unseen)} images"] if unseen else []
    splits = {split: samples for split, samples in source.splits.items() if split in used}
    return replace(source, splits=splits, notes=[*source.notes, *note])


def copies_of_unseen(source: Source, contents: Contents) -> list[int]:
    """Rows of training images without a label whose bytes are those of an image of another split."""
    unseen = {content for split, hashes in contents.hashes.items() if split != "train" for content in hashes} - {""}
    has_label = is_labeled(source.splits["train"])
    return [row for row, content in enumerate(contents.hashes["train"]) if content in unseen and not has_label[row]]


def without_rows(source: Source, contents: Contents | None, rows: set[int]) -> tuple[Source, Contents | None]:
    """`only_used` of a source without some of its training images, and the contents of what is left."""
    train = source.splits["train"]
    left = [row for row in range(len(train)) if row not in rows]
    notes = [f"{len(rows):,} of them are copies of validation or test images and are left out"] if rows else []
    fewer = replace(source, splits={**source.splits, "train": train.select(left)}, notes=[*source.notes, *notes])
    used = only_used(fewer)
    if contents is None:
        return used, None
    hashes = {split: contents.hashes[split] for split in used.splits}
    hashes["train"] = [hashes["train"][row] for row in left]
    return used, replace(contents, hashes=hashes)
