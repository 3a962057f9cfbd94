"""DATA on the command line -> `Source`, without opening an image.

DATA                            data set
digits                          scikit-learn's 1,797 real 8x8 scans, which come with the installation
mnist, cifar10, ...             a torchvision data set, read from --data.root
FOLDER/train|val|test/CLASS/*   class folders for each split
FOLDER/CLASS/*                  class folders without splits; folders that vit wrote beside them are skipped
FILE.csv                        a table with the columns path,label[,split]; paths are relative to the file
                                for several labels of an image: path,labels[,split], or one column of 0 and 1 per label
FOLDER/index.parquet            shards of `vit data pack`, or others with an index of `vit data index`; or their FOLDER
FILE.parquet                    a table with a column of images and one of labels; or a FOLDER of train-*.parquet, ...
https://, s3:// or gs://        shards on other machines: their index.parquet, or its folder
hf:NAME[/CONFIG][@REVISION]     a data set of the Hugging Face hub, from its parquet files
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from vit.csv_files import describe_escapes
from vit.data.core.dataset_names import DIGITS, KNOWN, LAYOUT, TableColumns, check_data, is_parquet, table_source
from vit.data.core.groups import ALIKE, original_of, similar_names
from vit.data.core.image_files import is_output
from vit.data.core.samples import Samples, Source, absent_notes
from vit.data.sources.csv_source import read_csv_source
from vit.data.sources.folder_source import read_folder_source, table_in
from vit.data.sources.image_csv import column_names
from vit.errors import DataError
from vit.tasks.label_text import MISSING
from vit.tasks.levels import check_levels, levels_of

_UNLABELED = frozenset(("unlabeled", "unlabelled", "unsorted", "no_label", "nolabel"))
_MEASURED = re.compile(r"[+-]?[0-9]*\.[0-9]*[1-9][0-9]*")  # a number that is not whole
_MOST_MEASURED = 10  # grades such as 2.5 are classes
ARCHIVES = frozenset((".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"))


def open_source(
    data: str,
    root: str | None = None,
    download: bool = False,
    allow_empty: bool = False,
    columns: TableColumns = TableColumns(),
    to_measure: bool = False,
) -> Source:
    """List the images of DATA; see the table of this module.

    A folder with the name of a data set has precedence, unless it holds outputs of this program alone: `--out .` makes
    such folders. UsageError where DATA is not a file, a folder or a known name, or lacks a column; DataError where it
    cannot be used to train, or to measure, a classifier; ResourceError where the hub does not give it.

    Args:
        root, download: folder of torchvision's data sets, and whether missing files are downloaded to it.
        allow_empty: accept class folders without images.
        to_measure: the images only measure a model that is trained: they may lack training images, and have one class,
            or labels that all images have or none. Splits without images are left out.
    """
    check_data(data)
    path, is_table = Path(data).expanduser(), is_parquet(data)
    if not (is_table or path.is_file()):
        columns.refuse(data)
    if is_table:
        source = table_source(data).open_source(data, columns, needs_train=not to_measure)
    elif path.is_dir() and not (data in KNOWN and is_output(path)):
        source = read_folder_source(path, allow_empty, to_measure)
    elif path.is_file() and path.suffix.lower() in ARCHIVES:
        or_index = f", or run 'vit data index {path.parent}' if it is a shard of WebDataset" * (path.suffix == ".tar")
        raise DataError(f"{data} is an archive", f"unpack it, and give the folder{or_index}")
    elif path.is_file():
        source = read_csv_source(path, columns, to_measure)
    elif data == DIGITS:
        source = _digits()
    else:
        from vit.data.sources.torchvision_source import read_torchvision_source  # imports torch

        source = read_torchvision_source(data, root, download)
    if to_measure:
        source = replace(source, splits={split: one for split, one in source.splits.items() if len(one)})
        if not source.splits:
            raise DataError(f"{data} has no images", LAYOUT)
    else:
        _check(source, data)
    _add_notes(source)
    if (root is not None or download) and (data == DIGITS or data not in KNOWN):
        source.notes.append("root and download change nothing, because they are for data sets of torchvision")
    return source


def columns_for(data: str, given: TableColumns, of_run: TableColumns) -> TableColumns:
    """The columns to read DATA with, beside the data of a run: those that are given, or else those of the run.

    Data of another kind have no columns. A CSV may lack those of the run, and has columns of its own.
    """
    path, names = Path(data).expanduser(), of_run.by_option
    if not names:
        return given
    if not is_parquet(data):
        known = column_names(path, {}) if path.is_file() and path.suffix.lower() not in ARCHIVES else []
        names = {option: name for option, name in names.items() if name in known}
    elif not table_source(data).has_columns(data):
        names = {}
    return TableColumns(given.image or names.get("image_column"), given.label or names.get("label_column"))


def _check(source: Source, data: str) -> None:
    """Raise DataError if no classifier can be trained."""
    train = source.splits["train"]
    if len(train) == 0:
        raise DataError(f"{data} has no training images", LAYOUT)
    counts = train.class_counts(len(source.class_names))
    names = [name for name, n in zip(source.class_names, counts, strict=True) if n or not source.task.is_exclusive]
    if len(names) < 2:
        images = " with training images" * (len(source.class_names) > 1)
        fix, below = table_in(Path(data)) or "a classifier needs two or more classes", Path(data) / names[0]
        if any(below.glob("*/")):
            fix = f"give {below} as DATA, if it holds the classes"
        raise DataError(f"{data} has one class{images}, {names[0]!r}", fix)
    measured = [name for name in source.class_names if _MEASURED.fullmatch(name)]
    if len(measured) > _MOST_MEASURED:
        raise DataError(
            f"{data} has {len(measured):,} different values such as {measured[0]} as {source.task.kinds}",
            "vit predicts no measured values: write a class for each range of values, such as low and high",
        )
    if source.task.is_exclusive:
        check_levels(source.class_names, data)


def _add_notes(source: Source) -> None:
    """Note suspicious class names and missing classes."""
    one_kind, kind, names = source.task.kind, source.task.kinds, source.class_names
    totals = np.sum([samples.class_counts(len(names)) for samples in source.splits.values()], axis=0).tolist()
    counted = {name: f"{name!r} ({n:,} image{'s' * (n != 1)})" for name, n in zip(names, totals, strict=True)}
    notes = [f"{kind} {counted[one]} and {counted[twin]} {ALIKE}" for one, twin in similar_names(names)]
    unnamed = "is a usual word for a missing label; leave these images out, or with several labels the cell empty"
    notes += [f"{one_kind} {counted[name]} {unnamed}" for name in names if name.casefold() in MISSING | _UNLABELED]
    notes += [
        f"{one_kind} {counted[name]} is called as masks or changed copies of {counted[original]} would be"
        for name in names
        if (original := original_of(name)) in counted
    ]
    notes += filter(None, [describe_escapes(names)])
    levels = levels_of(names)  # where two classes have a group in common
    if levels and not source.task.is_exclusive:
        notes.append('labels with "/" are names without levels: an image may have several')
    elif levels:
        groups = "".join(f" in {len(one.names):,} groups such as {one.example!r}" for one in levels)
        notes.append(f'class names with "/" are levels: {len(names):,} classes{groups}')
    source.notes.extend([*notes, *absent_notes(source, source.splits)])


def _digits() -> Source:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)  # the scans have 17 levels of gray
    samples = Samples([f"digits/{i:04d}" for i in range(len(images))], bunch.target.astype(np.int64), arrays=images)
    return Source("digits", tuple(str(digit) for digit in range(10)), {"train": samples})
