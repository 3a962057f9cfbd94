"""A CSV that lists images -> a source

path,label[,split]            one class for each image
path,labels[,split]           labels of an image between bars: `cat|indoors`; `?name` is unknown, an empty cell is none
path,NAME,NAME,...[,split]    one column of 0 and 1 for each label; an empty cell is unknown

In a table of columns that has -1 and 1, and neither 0 nor empty cells, -1 means absent, as in CelebA. Beside 0 or empty
cells -1 may mean unknown, as in CheXpert, and is refused. A single 1 in each row is one class for each image.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vit.data.core.dataset_names import TableColumns
from vit.data.core.samples import Samples, Source
from vit.data.sources.image_csv import CsvTable, columns_of, given_columns, read_image_csv
from vit.data.sources.listed_files import ListedRow, place_of, rows_by_split, source_of_classes
from vit.errors import DataError, some_of
from vit.tasks.label_text import (
    ABSENT,
    LIST,
    NOT_KNOWN,
    PRESENT,
    SEPARATOR,
    LabelRows,
    check_label_name,
    clean_label,
    parse_labels,
)

_CELLS = {"0": ABSENT, "0.0": ABSENT, "false": ABSENT, "1": PRESENT, "1.0": PRESENT, "true": PRESENT, "": NOT_KNOWN}
_MINUS = {"-1", "-1.0"}  # absent or unknown, as the whole table decides
_OTHER_MARKS = ",;/"  # that people put between labels
_SHOWN = 5  # labels in an error

_RowsOfLabels = dict[str, list[ListedRow[dict[str, int]]]]  # split -> images with several labels each


def read_csv_source(path: Path, wanted: TableColumns, to_measure: bool = False) -> Source:
    """List the images of a CSV. Its columns tell whether an image has one class or several labels.

    A column of labels that is given by name has one class for each image, unless it is called labels or alike.

    Args:
        wanted: columns that are given by name.
        to_measure: as for `open_source`.

    Raises:
        UsageError: a given column does not exist.
        DataError: a row is wrong, a file is missing, a label cannot be learned, or there are no training images.
    """
    given = given_columns(wanted)
    columns, has_others = columns_of(path, given)
    if "labels" in given or ("label" not in columns and "labels" in columns):
        return _read_label_lists(path, given, to_measure)
    if "label" not in columns and "path" in columns and has_others:
        return _read_label_columns(path, given, to_measure)
    return _read_classes(path, given, to_measure)


def _read_classes(path: Path, given: Mapping[str, str], to_measure: bool) -> Source:
    """List the images of a CSV with the columns path and label, and optionally split and group."""
    table = read_image_csv(path, ("path", "label"), ("split", "group"), given)
    labels = [clean_label(row["label"]) for _, row in table.rows]
    empty = [
        number for number, (_, row) in enumerate(table.rows) if not row["path"].strip() or not labels[number].strip()
    ]
    if empty:
        line, row = table.rows[empty[0]]
        count = f" ({len(empty):,} of {len(labels):,} lines have one)" if len(empty) > 1 else ""
        kind = "path" if row["label"].strip() else "label"
        raise DataError(f"{path}, line {line}: an empty {kind}{count}", "fill it in, or leave the line out")
    for (line, row), label in zip(table.rows, labels, strict=True):
        if label not in row["path"] and _is_not_utf8(label):
            raise DataError(f"{path}, line {line}: label {label!r} is not UTF-8", "save the file as UTF-8 CSV")
    _refuse_lists(path, table, "label")
    notes = [table.note] * bool(table.note) + _joined_spellings(path, table, labels)
    rows = rows_by_split(path, table, labels, to_measure, notes)
    source = source_of_classes(path, rows, None, notes, to_measure)
    with_bar = next((name for name in source.class_names if SEPARATOR in name), None)
    if with_bar is not None:
        notes.append(
            f"each cell of the column label is one class, also {with_bar!r}; several labels need a column labels"
        )
    return source


def _refuse_lists(path: Path, table: CsvTable, column: str) -> None:
    """Raise DataError where a cell is a list as Python writes it, which may be one class or several labels."""
    for line, row in table.rows:
        if LIST.fullmatch(row[column]):
            raise DataError(
                f"{path}, line {line}: {row[column][:40]!r} in the column {column} is a list",
                "write several labels as cat|indoors, in a column labels; name one class without brackets",
            )


def _joined_spellings(path: Path, table: CsvTable, labels: Sequence[str]) -> list[str]:
    """A note on each of the first classes that the table spells in several ways."""
    spellings: dict[str, set[str]] = {}
    for (_, row), label in zip(table.rows, labels, strict=True):
        spellings.setdefault(label, set()).add(row["label"])
    several = [sorted(found)[:2] for found in spellings.values() if len(found) > 1]
    why = "are one class: they differ only in spaces around the name or in Unicode form"
    return [f"{path.name}: {one!r} and {other!r} {why}" for one, other in several[:_SHOWN]]


def _read_label_lists(path: Path, given: Mapping[str, str], to_measure: bool) -> Source:
    """List the images of a CSV with the columns path and labels, and optionally split. A label not named is absent."""
    table = read_image_csv(path, ("path", "labels"), ("split", "group"), given)
    texts = [row["labels"] for _, row in table.rows]
    _refuse_lists(path, table, "labels")
    apart = next(
        (mark for mark in _OTHER_MARKS if not any("|" in text for text in texts) and mark in "".join(texts)), ""
    )
    if apart:
        line = next(line for line, row in table.rows if apart in row["labels"])
        raise DataError(
            f"{path}, line {line}: the column labels has {apart!r} and no '|' between labels",
            "write labels as cat|indoors; name the column label if each image has one class",
        )
    distinct, tags = {text.strip() for text in texts} - {""}, {tag for text in texts for tag in text.split()}
    if len(tags) < len(distinct) and not any("|" in text for text in texts):  # names with spaces have more words
        line = next(line for line, row in table.rows if len(row["labels"].split()) > 1)
        raise DataError(
            f"{path}, line {line}: the column labels has spaces and no '|' between labels, and the words repeat",
            "write labels as cat|indoors; name the column label if each image has one class",
        )
    parsed: list[dict[str, int]] = []
    for (line, _), text in zip(table.rows, texts, strict=True):
        try:
            parsed.append(parse_labels(text))
        except ValueError as error:
            raise DataError(
                f"{path}, line {line}: {error}", "write labels as cat|indoors, unknown ones as ?cat"
            ) from error
        if _is_not_utf8(text):
            raise DataError(f"{path}, line {line}: labels {text!r} are not UTF-8", "save the file as UTF-8 CSV")
    notes = [table.note] if table.note else []
    rows = rows_by_split(path, table, parsed, to_measure, notes)
    if to_measure:
        names = tuple(sorted({name for labels in parsed for name in labels}))
        return _source_of_labels(path, names, rows, ABSENT, notes, to_measure)
    names = tuple(sorted({name for row in rows["train"] for name, value in row.labels.items() if value == PRESENT}))
    for row in (row for split_rows in rows.values() for row in split_rows):
        for name in row.labels.keys() - set(names):
            raise DataError(
                f"{path}, line {row.line}: no training image has the label {name!r} "
                f"(known: {some_of(map(repr, names))})",
                "correct the name, remove the label, or add training images with it",
            )
    return _source_of_labels(path, names, rows, ABSENT, notes, to_measure)


def _read_label_columns(path: Path, given: Mapping[str, str], to_measure: bool) -> Source:
    """List the images of a CSV with the column path and one column of 0 and 1 for each label, and optionally split."""
    table = read_image_csv(path, ("path",), ("split", "group"), given, others=True)
    names = [clean_label(name) for name in table.others]
    for name in names:
        try:
            check_label_name(name)
        except ValueError as error:
            raise DataError(f"{path}: {error}", "rename the column") from error
        if names.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice", "keep one of the two")
    cells = [[cell.strip().casefold() for cell in row] for row in table.other_cells]
    _check_cells(path, table, names, cells)
    used = {cell for row in cells for cell in row}
    values, notes = dict(_CELLS), [table.note] if table.note else []
    if used & _MINUS:
        zero_or_empty = sorted(cell for cell in used - _MINUS if _CELLS[cell] != PRESENT)
        if zero_or_empty:
            line, name = _place(table, names, cells, _MINUS)
            raise DataError(
                f"{path}, line {line}: column {name!r} has -1, and other cells are {zero_or_empty[0] or 'empty'}",
                "write 0 for absent, and leave unknown cells empty",
            )
        values |= dict.fromkeys(_MINUS, ABSENT)
        notes.append(f"{path.name}: the labels are -1 and 1; -1 is read as absent")
    parsed = [{name: values[cell] for name, cell in zip(names, row, strict=True)} for row in cells]
    one_hot = [ABSENT] * (len(names) - 1) + [PRESENT]
    if len(names) > 1 and all(sorted(row.values()) == one_hot for row in parsed):
        classes = [next(name for name, value in row.items() if value == PRESENT) for row in parsed]
        return _one_class(path, table, names, classes, notes, to_measure)
    ones = [sum(value == PRESENT for value in row.values()) for row in parsed]
    if set(ones) == {0, 1} and all(NOT_KNOWN not in row.values() for row in parsed):
        notes.append(
            f"{path.name}: {ones.count(0):,} of {len(ones):,} rows have no 1, such as line "
            f"{table.rows[ones.index(0)][0]}, and all others a single 1; each column is read as a label that an image "
            "may have"
        )
    rows = rows_by_split(path, table, parsed, to_measure, notes)
    return _source_of_labels(path, tuple(sorted(names)), rows, NOT_KNOWN, notes, to_measure)


def _one_class(
    path: Path, table: CsvTable, names: list[str], classes: list[str], notes: list[str], to_measure: bool
) -> Source:
    """The source of a one-hot table: one column of 0 and 1 for each class, and a single 1 in each row."""
    rows = rows_by_split(path, table, classes, to_measure, notes)
    source = source_of_classes(path, rows, names if to_measure else None, notes, to_measure, is_one_hot=True)
    known = source.class_names
    notes.append(f"{path.name}: each row has a single 1: one class for an image (one-hot), out of {len(known)}")
    absent = [name for name in names if name not in known]
    notes += [f"{path.name}: no training image has the class {', '.join(absent)}"] * bool(absent)
    return source


def _check_cells(path: Path, table: CsvTable, names: list[str], cells: list[list[str]]) -> None:
    """Raise DataError if a cell is not a label's value, or a whole column is something else."""
    known = _CELLS.keys() | _MINUS
    for number, name in enumerate(names):
        wrong = [
            (line, row[number]) for (line, _), row in zip(table.rows, cells, strict=True) if row[number] not in known
        ]
        if not wrong:
            continue
        line, cell = wrong[0]
        if len(wrong) == sum(row[number] != "" for row in cells):
            raise DataError(
                f"{path} lacks the column label or labels, and line {line} of its column {name!r} is {cell[:40]!r}, "
                "which is not 0 or 1",
                f"name the column of classes label, or remove {name!r} if the other columns are labels",
            )
        raise DataError(
            f"{path}, line {line}: column {name!r} has {cell[:40]!r}; the cells of a label are 0, 1 or empty",
            "correct the cell; leave it empty if the label is unknown",
        )


def _place(table: CsvTable, names: list[str], cells: list[list[str]], wanted: set[str]) -> tuple[int, str]:
    """The line and the column of the first cell that is one of the wanted."""
    return next(
        (line, name)
        for (line, _), row in zip(table.rows, cells, strict=True)
        for name, cell in zip(names, row, strict=True)
        if cell in wanted
    )


def _source_of_labels(
    path: Path,
    names: tuple[str, ...],
    rows: _RowsOfLabels,
    missing: int,
    notes: list[str],
    to_measure: bool,
) -> Source:
    """The source of rows with several labels each.

    Args:
        missing: value of a label that a row does not name.
    """
    if len(names) < 2 and not to_measure:
        raise DataError(
            f"{path} has {len(names)} label{'s' * (len(names) != 1)}; several labels for an image need two or more",
            "for one yes/no question, name the column label and give each image one of two classes",
        )
    root, reader = place_of(path, [row.path for split_rows in rows.values() for row in split_rows[:1]])
    splits, is_list = {}, missing == ABSENT
    for split, listed in rows.items():
        labels: LabelRows = np.array(
            [[row.labels.get(name, missing) for name in names] for row in listed], dtype=np.int8
        ).reshape(len(listed), len(names))
        known = (labels != NOT_KNOWN).any(axis=1) | is_list  # a list is known to lack all labels that it does not name
        groups = tuple(row.group for row in listed) if any(row.group for row in listed) else None
        images = Samples([row.path for row in listed], labels, root, groups=groups, reader=reader)
        splits[split] = images.select(np.flatnonzero(known))
        if not known.all():
            notes.append(f"left out {(~known).sum():,} of {len(listed):,} {split} images, of which no label is known")
    if not to_measure:
        _check_variety(path, names, splits["train"].labels)
    return Source(path.stem, names, splits, notes, has_label_lists=is_list)


def _check_variety(path: Path, names: tuple[str, ...], labels: LabelRows) -> None:
    """Raise DataError if a label is the same in all training images where it is known."""
    for number, name in enumerate(names):
        has = {value: bool((labels[:, number] == value).any()) for value in (PRESENT, ABSENT)}
        if not has[PRESENT]:
            raise DataError(
                f"{path}: no training image has the label {name!r}", "add training images with it, or remove the label"
            )
        if not has[ABSENT]:
            raise DataError(
                f"{path}: all training images have the label {name!r}, where it is known; nothing can be learned",
                "add training images without it, or remove the label",
            )


def _is_not_utf8(text: str) -> bool:
    """Whether a text of a table had bytes that are not UTF-8."""
    return any("\udc80" <= letter <= "\udcff" for letter in text)
