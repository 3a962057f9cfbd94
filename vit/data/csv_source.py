"""A CSV that lists images -> a source."""

from collections.abc import Mapping
from pathlib import Path

from vit.data.csv_splits import split_of
from vit.data.dataset_names import TableColumns
from vit.data.image_csv import columns_of, given_columns, read_image_csv
from vit.data.listed_files import ListedFiles, ListedGroups, place_of
from vit.data.multilabel_csv import read_label_columns, read_label_lists
from vit.data.samples import Source, label_files
from vit.errors import DataError
from vit.tasks.label_text import SEPARATOR, clean_label


def read_csv_source(path: Path, wanted: TableColumns, to_measure: bool = False) -> Source:
    """List the images of a CSV. Its columns tell whether an image has one class or several labels.

    A column of labels that is given by name has one class for each image, unless it is called labels or alike.

    Args:
        path: the file.
        wanted: columns that are given by name.
        to_measure: as for `open_source`.

    Raises:
        UsageError: a given column does not exist.
        DataError: a row is wrong, a file is missing, or there are no training images.
    """
    given = given_columns(wanted)
    columns, has_others = columns_of(path, given)
    if "labels" in given or ("label" not in columns and "labels" in columns):
        return read_label_lists(path, given, to_measure)
    if "label" not in columns and "path" in columns and has_others:
        return read_label_columns(path, given, to_measure)
    return _read_classes(path, given, to_measure)


def _read_classes(path: Path, given: Mapping[str, str], to_measure: bool) -> Source:
    """List the images of a CSV with the columns path and label, and optionally split and group."""
    table = read_image_csv(path, ("path", "label"), ("split", "group"), given)
    rows: dict[str, list[tuple[str, str]]] = {"train": []}  # split -> path and class name of each file
    groups: dict[str, list[str]] = {}  # split -> group of each file
    files, listed_groups = ListedFiles(path), ListedGroups(table)
    num_empty = sum(not row["path"].strip() or not row["label"].strip() for _, row in table.rows)
    empty = f" ({num_empty:,} of {len(table.rows):,} lines have one)" if num_empty > 1 else ""
    for line, row in table.rows:
        file_name, label, where = row["path"], clean_label(row["label"]), f"{path}, line {line}"
        split = split_of(row, where)
        if not label.strip() or not file_name.strip():
            raise DataError(
                f"{where}: an empty {'path' if label.strip() else 'label'}{empty}", "fill it in, or leave the line out"
            )
        if label not in file_name and any("\udc80" <= letter <= "\udcff" for letter in label):
            raise DataError(f"{where}: label {label!r} is not UTF-8", "save the file as UTF-8 CSV")
        rows.setdefault(split, []).append((files.add(file_name, line), label))
        groups.setdefault(split, []).append(listed_groups.of(row, where))
    defining = rows.values() if to_measure else [rows["train"]]
    class_names = tuple(sorted({name for listed in defining for _, name in listed}))
    if not class_names:
        raise DataError(f"{path} has no training images", "leave split empty or write train")
    root, reader = place_of(path, [file_name for listed in rows.values() for file_name, _ in listed[:1]])
    splits = {
        split: label_files(
            root, listed, class_names, str(path), groups.get(split, []) if listed_groups else None, reader
        )
        for split, listed in rows.items()
    }
    notes = [table.note] * bool(table.note) + files.notes
    if any(SEPARATOR in name for name in class_names):
        name = next(name for name in class_names if SEPARATOR in name)
        notes.append(f"each cell of the column label is one class, also {name!r}; several labels need a column labels")
    return Source(path.stem, class_names, splits, notes)
