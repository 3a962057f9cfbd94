"""Images to learn from without labels: folders of any depth, tables of paths, and more images beside a data set"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from vit.data.core.dataset_names import SPLIT_SYNONYMS, TableColumns, check_data, is_parquet, table_source
from vit.data.core.image_files import describe_skipped, how_to_convert_skipped, image_files, is_image, subfolders
from vit.data.core.samples import Samples, Source
from vit.data.sources.csv_cells import ListedFiles, split_of
from vit.data.sources.image_csv import columns_of, given_columns, read_image_csv
from vit.data.sources.sources import open_source
from vit.errors import DataError, UsageError

UNKNOWN = -1  # label of an image without one


def open_images(
    data: str,
    root: str | None = None,
    download: bool = False,
    allow_empty: bool = False,
    labels: str = "auto",
    columns: TableColumns | None = None,
) -> Source:
    """List the images of DATA, with their labels and splits where it has any.

    Args:
        data, root, download, allow_empty, columns: as for `open_source`.
        labels: "auto", or "none": all images count as training images without labels, whatever folders they lie in and
            whatever split a table names.

    Returns:
        A source as `open_source` gives it; or one without class names, whose split "train" has the label -1.

    Raises:
        UsageError: DATA is not a file, a folder or a known name.
        DataError: DATA has no images, or cannot be read.
    """
    check_data(data)
    path, columns = Path(data).expanduser(), columns or TableColumns()
    if path.is_dir() and not is_parquet(data):
        columns.refuse(data)
        if labels == "auto" and _has_classes(path):
            return open_source(data, root, download, allow_empty, columns)
        return _unlabeled_folder(path)
    given, is_csv = given_columns(columns), path.is_file() and path.suffix.lower() in (".csv", ".tsv")
    if is_csv and (labels == "none" or not _has_labels(path, given)):
        return _unlabeled_table(path, given, has_splits=labels == "auto")
    if labels == "none" and is_parquet(data):
        return _without_labels(table_source(data).list_images(data, columns))
    source = open_source(data, root, download, allow_empty, columns)
    if labels == "none":
        raise UsageError(f"--data.labels none is for folders and tables, and {data} is neither", "leave it out")
    return source


def with_more_images(source: Source, folder: str) -> Source:
    """The source whose training images are followed by those of a folder, at any depth and without labels.

    Images that are already in the source are left out, in whatever split they are.

    Raises:
        DataError: the folder does not exist, or has no other images.
        UsageError: the images of the source are not files.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DataError(f"--data.unlabeled {folder}: there is no such folder", "give a folder of images")
    train = source.splits["train"]
    if train.root is None:
        raise UsageError(
            f"--data.unlabeled goes with images in files, and those of {source.name} are not files",
            "give a folder or a CSV as DATA",
        )
    found = _unlabeled_folder(path).splits["train"]
    known = {
        os.path.realpath(samples.file(index)) for samples in source.splits.values() for index in range(len(samples))
    }
    files = [str(found.file(index).absolute()) for index in range(len(found))]
    more = [file for file in files if os.path.realpath(file) not in known]
    if not more:
        raise DataError(f"--data.unlabeled {folder} has no images that DATA lacks", "give another folder")
    labels = np.full((len(more), *train.labels.shape[1:]), UNKNOWN, dtype=train.labels.dtype)
    groups = None if train.groups is None else (*train.groups, *more)  # each image stands alone
    paths = [*train.paths, *more]  # an absolute path stays
    both = Samples(paths, np.concatenate([train.labels, labels]), train.root, groups=groups)
    note = f"{len(more):,} images without labels from {folder}"
    if len(more) < len(files):
        note += f"; {len(files) - len(more):,} others in it are already in DATA"
    return replace(source, splits={**source.splits, "train": both}, notes=[*source.notes, note])


def _has_classes(folder: Path) -> bool:
    """Whether a folder has class folders, or folders of splits, and no images beside them.

    Raises:
        DataError: it has folders of splits without class folders.
    """
    names = subfolders(folder, Counter())
    training = [name for name in names if name.casefold() in SPLIT_SYNONYMS["train"]]
    if training:
        if subfolders(folder / training[0], Counter()):
            return True
        inside = folder / training[0]
        raise DataError(f"{inside} has no class folders", f"give {inside} as DATA: its images need no labels")
    with os.scandir(folder) as entries:
        loose = [entry for entry in entries if os.path.isfile(entry.path) and is_image(entry)]
    return len(names) > 1 and not loose


def _has_labels(path: Path, given: Mapping[str, str]) -> bool:
    columns, has_others = columns_of(path, given)
    return bool(columns & {"label", "labels"}) or has_others


def _without_labels(source: Source) -> Source:
    """All images of a source as training images without labels."""
    first, *others = source.splits.values()
    for samples in others:
        first = first.followed_by(samples)
    unknown = replace(first, labels=np.full(len(first), UNKNOWN, dtype=np.int64))
    return replace(source, class_names=(), splits={"train": unknown})


def _unlabeled_folder(folder: Path) -> Source:
    skipped: Counter[str] = Counter()
    paths = sorted(image_files(folder, skipped, without_outputs=True))
    if not paths:
        instead = f" ({describe_skipped(skipped)})" if skipped else ""
        fix = how_to_convert_skipped(skipped, folder) or "give a folder that holds images, at any depth"
        raise DataError(f"{folder} has no images{instead}", fix)
    notes = [f"skipped: {describe_skipped(skipped)}"] if skipped else []
    return _unlabeled(folder.resolve().name, paths, folder, notes)


def _unlabeled_table(path: Path, given: Mapping[str, str], has_splits: bool) -> Source:
    """The images of a table of paths; of one whose splits count, the training images."""
    table = read_image_csv(path, ("path",), ("split",) if has_splits else (), given)
    files, paths = ListedFiles(path), []
    splits = table.columns.get("split", [""] * len(table.lines))
    for line, cell, split in zip(table.lines, table.columns["path"], splits, strict=True):
        name = files.add(cell, line)
        if split_of(split, f"{path}, line {line}") == "train":
            paths.append(name)
    if not paths and has_splits:
        raise DataError(f"{path} has no training images", "leave split empty or write train")
    if not paths:
        raise DataError(f"{path} has no images", "give a table with a row for each image")
    return _unlabeled(path.stem, paths, path.parent, table.notes + files.notes)


def _unlabeled(name: str, paths: list[str], root: Path, notes: list[str]) -> Source:
    labels = np.full(len(paths), UNKNOWN, dtype=np.int64)
    return Source(name, (), {"train": Samples(paths, labels, root)}, notes)
