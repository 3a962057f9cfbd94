"""A CSV that lists images -> a source

path,label[,split]            one class for each image
path,labels[,split]           labels of an image between bars: `cat|indoors`; `?name` is unknown, an empty cell is none
path,NAME,NAME,...[,split]    one column of 0 and 1 for each label; an empty cell is unknown

In a table of columns that has -1 and 1, and neither 0 nor empty cells, -1 means absent, as in CelebA. Beside 0 or empty
cells -1 may mean unknown, as in CheXpert, and is refused. A single 1 in each row is one class for each image.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vit.data.core.dataset_names import TableColumns, is_far
from vit.data.core.image_bytes import address_reader
from vit.data.core.samples import Samples, Source, label_files
from vit.data.sources.csv_cells import ListedFiles, split_of
from vit.data.sources.image_csv import CsvTable, column_names, columns_of, given_columns, read_image_csv
from vit.errors import DataError, explained, some_of
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

_MINUS = -2  # a cell of -1, which is absent or unknown: the whole table decides
_CELLS = {  # of a column of a label, in small letters
    "0": ABSENT, "0.0": ABSENT, "false": ABSENT, "1": PRESENT, "1.0": PRESENT, "true": PRESENT, "": NOT_KNOWN,
    "-1": _MINUS, "-1.0": _MINUS,
}  # fmt: skip
_OTHER_MARKS = ",;/"  # that people put between labels
_SHOWN = 5  # notes on classes that are spelled in several ways


def read_csv_source(path: Path, wanted: TableColumns, to_measure: bool = False) -> Source:
    """List the images of a CSV. Its columns tell whether an image has one class or several labels.

    A column of labels that is given by name has one class for each image, unless it is called labels or alike.
    UsageError where a given column does not exist; DataError where a row is wrong, a file is missing, a label cannot be
    learned or is a prediction, or there are no training images.
    """
    given = given_columns(wanted)
    header = column_names(path, given)
    if wanted.label is None and {"status", "novelty", "engine"} <= {*header}:
        fix = "--label_column label takes them for labels"
        raise DataError(f"{path} is a table of 'vit predict': its labels are predictions", fix)
    columns, has_others = columns_of(header, given)
    if "labels" in given or ("label" not in columns and "labels" in columns):
        return _read_label_lists(read_image_csv(path, ("path", "labels"), given, ("split", "group")), to_measure)
    if "label" not in columns and "path" in columns and has_others:
        return _read_label_columns(read_image_csv(path, ("path",), given, ("split", "group"), others=True), to_measure)
    return _read_classes(read_image_csv(path, ("path", "label"), given, ("split", "group")), to_measure)


def other_columns(path: Path, wanted: TableColumns) -> dict[str, dict[str, str]]:
    """{column: {path: cell}} of the columns of a CSV that have no meaning for a training; {} if it has changed."""
    given = given_columns(wanted)
    try:
        table = read_image_csv(path, ("path",), given, ("label", "labels", "split", "group"), others=True)
        paths = list(map(ListedFiles(path).add, table.columns["path"], table.lines))
    except DataError:
        return {}
    return {name: dict(zip(paths, cells, strict=True)) for name, cells in table.others}


class _Listed:
    """The images of a table in one list, whose files are there, with their splits and groups."""

    def __init__(self, table: CsvTable, to_measure: bool) -> None:
        self.table, self.to_measure, self.notes = table, to_measure, list(table.notes)
        files, splits = ListedFiles(table.path), table.columns.get("split", [""] * len(table.lines))
        groups = [group.strip() for group in table.columns.get("group", ())]
        self.groups = tuple(groups) if any(groups) else ()
        self.paths, named = list[str](), list[str]()
        _refuse_empty(table, "path")
        for row, (line, name) in enumerate(zip(table.lines, table.columns["path"], strict=True)):
            where = f"{table.path}, line {line}"
            named.append(split_of(splits[row], where))
            self.paths.append(files.add(name, line))
            if self.groups and not self.groups[row]:
                fix = "fill it in (an image that stands alone has a group of its own), or remove the column"
                raise DataError(f"{where}: an empty group, where other lines have one", fix)
        self.notes += files.notes
        if 0 < (empty := sum(not split.strip() for split in splits)) < len(splits):
            count = f"{empty:,} of {len(splits):,} lines"
            self.notes.append(f"{table.path.name}: lines with an empty split are training images ({count})")
        if "train" not in named and not to_measure:
            raise DataError(f"{table.path} has no training images", "leave split empty or write train")
        places = np.array(named, dtype=np.str_)
        self.rows = {split: places == split for split in dict.fromkeys(("train", *named))}  # of each split
        are_far = bool(self.paths) and is_far(self.paths[0])
        self.root = None if are_far else table.path.parent
        self.reader = address_reader() if are_far else None

    def source_of_classes(self, labels: Sequence[str], names: Sequence[str] = (), is_one_hot: bool = False) -> Source:
        """The source of images with one class each. Without names the training images name the classes."""
        defining = labels if self.to_measure else [labels[row] for row in np.flatnonzero(self.rows["train"]).tolist()]
        class_names, path = tuple(sorted(names or set(defining))), self.table.path
        pairs = list(zip(self.paths, labels, strict=True))
        images = label_files(self.root, pairs, class_names, str(path), self.groups, self.reader)
        splits = {split: images.select(np.flatnonzero(rows)) for split, rows in self.rows.items()}
        return Source(path.stem, class_names, splits, self.notes, is_one_hot=is_one_hot)

    def source_of_labels(self, names: Sequence[str], labels: LabelRows, is_list: bool) -> Source:
        """The source of images with several labels (n, K) each. A row that lists its labels is known to lack others."""
        path = self.table.path
        if len(names) < 2 and not self.to_measure:
            count = f"{len(names)} label{'s' * (len(names) != 1)}"
            fix = "for one yes/no question, name the column label and give each image one of two classes"
            raise DataError(f"{path} has {count}; several labels for an image need two or more", fix)
        images = Samples(self.paths, labels, self.root, groups=self.groups or None, reader=self.reader)
        is_known, splits = (labels != NOT_KNOWN).any(axis=1) | (is_list and self.to_measure), {}
        for split, rows in self.rows.items():
            splits[split] = images.select(np.flatnonzero(rows & is_known))
            left_out = int(rows.sum()) - len(splits[split])
            if left_out:
                self.notes.append(f"left out {left_out:,} of {rows.sum():,} {split} images, of which no label is known")
        for name, column in zip(names, splits["train"].labels.T, strict=True) if not self.to_measure else ():
            fix = "add training images {} it, or remove the label"
            if PRESENT not in column:
                raise DataError(f"{path}: no training image has the label {name!r}", fix.format("with"))
            if ABSENT not in column:
                have = f"all training images have the label {name!r}, where it is known"
                raise DataError(f"{path}: {have}; nothing can be learned", fix.format("without"))
        return Source(path.stem, tuple(names), splits, self.notes, has_label_lists=is_list)


def _read_classes(table: CsvTable, to_measure: bool) -> Source:
    path, written = table.path, table.columns["label"]
    labels = [clean_label(text) for text in written]
    _refuse_empty(table, "label")
    for line, label, name in zip(table.lines, labels, table.columns["path"], strict=True):
        if label not in name:
            _check_utf8(label, f"{path}, line {line}: label")
    _refuse_lists(table, "label")
    listed = _Listed(table, to_measure)
    spellings: dict[str, set[str]] = {}
    for label, text in zip(labels, written, strict=True):
        spellings.setdefault(label, set()).add(text)
    several = [sorted(texts)[:2] for texts in spellings.values() if len(texts) > 1]
    why = "are one class: they differ only in spaces around the name or in Unicode form"
    listed.notes += [f"{path.name}: {one!r} and {other!r} {why}" for one, other in several[:_SHOWN]]
    source = listed.source_of_classes(labels)
    marks, classes = _OTHER_MARKS, set(source.class_names)
    for name in source.class_names:
        if SEPARATOR in name or any({*map(str.strip, name.split(mark))} <= classes - {name} for mark in marks):
            why = f"each cell of the column label is one class, also {name!r}; several labels need a column labels"
            source.notes.append(why)
            break
    return source


def _refuse_empty(table: CsvTable, column: str) -> None:
    """Raise DataError where a cell is empty."""
    empty = [line for line, cell in zip(table.lines, table.columns[column], strict=True) if not cell.strip()]
    if empty:
        count = f" ({len(empty):,} of {len(table.lines):,} lines have one)" * (len(empty) > 1)
        raise DataError(f"{table.path}, line {empty[0]}: an empty {column}{count}", "fill it in, or remove the line")


def _refuse_lists(table: CsvTable, column: str) -> None:
    """Raise DataError where a cell is a list as Python writes it, which may be one class or several labels."""
    for line, cell in zip(table.lines, table.columns[column], strict=True):
        if LIST.fullmatch(cell):
            fix = "write several labels as cat|indoors, in a column labels; name one class without brackets"
            raise DataError(f"{table.path}, line {line}: {cell[:40]!r} in the column {column} is a list", fix)


def _check_utf8(text: str, what: str) -> None:
    """Raise DataError where a text of a table had bytes that are not UTF-8."""
    if any("\udc80" <= letter <= "\udcff" for letter in text):
        raise DataError(f"{what} {text!r} is not UTF-8", "save the file as UTF-8 CSV")


def _read_label_lists(table: CsvTable, to_measure: bool) -> Source:
    """The source of a column of lists. A label that a list does not name is absent."""
    path, texts = table.path, table.columns["labels"]
    _refuse_lists(table, "labels")
    if SEPARATOR not in "".join(texts):
        mark = next((mark for mark in _OTHER_MARKS if mark in "".join(texts)), "")
        distinct, tags = {text.strip() for text in texts} - {""}, {tag for text in texts for tag in text.split()}
        has_spaces = len(tags) < len(distinct)  # names with spaces have more words
        if mark or has_spaces:
            row = next(row for row, text in enumerate(texts) if (mark in text if mark else len(text.split()) > 1))
            kind, repeats = (repr(mark), "") if mark else ("spaces", ", and the words repeat")
            problem = f"the column labels has {kind} and no '|' between labels{repeats}"
            fix = "write labels as cat|indoors; name the column label if each image has one class"
            raise DataError(f"{path}, line {table.lines[row]}: {problem}", fix)
    parsed: list[dict[str, int]] = []
    for line, text in zip(table.lines, texts, strict=True):
        try:
            parsed.append(parse_labels(text))
        except ValueError as error:
            fix = "write labels as cat|indoors, unknown ones as ?cat"
            raise DataError(f"{path}, line {line}: {error}", fix) from error
        _check_utf8(text, f"{path}, line {line}: the cell")
    if all(len(labels) < 2 for labels in parsed):
        example = max(parsed, key=lambda labels: " " in "".join(labels))
        remark = f"each image has one label at most, such as {''.join(example)!r}"
        table.notes.append(f"{path.name}: {remark}; name the column label if each image has one class")
    listed = _Listed(table, to_measure)
    defining = parsed if to_measure else [parsed[row] for row in np.flatnonzero(listed.rows["train"])]
    names = sorted({name for labels in defining for name, value in labels.items() if to_measure or value == PRESENT})
    for line, labels in zip(table.lines, parsed, strict=True):
        for name in sorted(labels.keys() - set(names)):
            problem = f"no training image has the label {name!r} (known: {some_of(map(repr, names))})"
            fix = "correct the name, remove the label, or add training images with it"
            raise DataError(f"{path}, line {line}: {problem}", fix)
    rows = np.array([[labels.get(name, ABSENT) for name in names] for labels in parsed], dtype=np.int8)
    return listed.source_of_labels(names, rows.reshape(len(parsed), len(names)), is_list=True)


def _read_label_columns(table: CsvTable, to_measure: bool) -> Source:
    """The source of one column of 0 and 1 for each label, or for each class where each row has a single 1."""
    path, names = table.path, [clean_label(name) for name, _ in table.others]
    for name in names:
        with explained(DataError, str(path), "rename the column", ValueError):
            check_label_name(name)
        if names.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice", "keep one of the two")
    columns = {
        name: [cell.strip().casefold() for cell in cells] for name, (_, cells) in zip(names, table.others, strict=True)
    }
    for name, cells in columns.items():
        wrong = [(line, cell) for line, cell in zip(table.lines, cells, strict=True) if cell not in _CELLS]
        if wrong:
            line, cell = wrong[0]
            fix = "correct the cell; leave it empty if the label is unknown"
            if len(wrong) == sum(cell != "" for cell in cells):
                fix = "give the column of classes, such as --label_column " + shlex.quote(name)
                fix += f"; or write 0 and 1 if it is a label, or remove {name!r} if the other columns are labels"
            is_not = "the table lacks the column label or labels, and the cells of a label are 0, 1 or empty"
            raise DataError(f"{path}, line {line}: column {name!r} has {cell[:40]!r}; {is_not}", fix)
    names = sorted(names)
    rows = np.array([[_CELLS[cell] for cell in columns[name]] for name in names], dtype=np.int8)
    rows = rows.reshape(len(names), len(table.lines)).T
    if (rows == _MINUS).any():
        others = sorted({cell for cells in columns.values() for cell in cells if _CELLS[cell] in (ABSENT, NOT_KNOWN)})
        if others:
            first = np.flatnonzero((rows == _MINUS).any(axis=1))[0]
            name = next(name for name, cells in columns.items() if _CELLS[cells[first]] == _MINUS)
            both = f"column {name!r} has -1, and other cells are {others[0] or 'empty'}"
            fix = "write 0 for absent, and leave unknown cells empty"
            raise DataError(f"{path}, line {table.lines[first]}: {both}", fix)
        rows[rows == _MINUS] = ABSENT
        table.notes.append(f"{path.name}: the labels are -1 and 1; -1 is read as absent")
    ones, is_known = (rows == PRESENT).sum(axis=1), bool((rows != NOT_KNOWN).all())
    if len(names) > 1 and is_known and (ones == 1).all():
        listed = _Listed(table, to_measure)
        classes = [names[number] for number in rows.argmax(axis=1)]
        source = listed.source_of_classes(classes, names if to_measure else (), is_one_hot=True)
        known = source.class_names
        kind = f"one class for an image (one-hot), out of {len(known)}"
        source.notes.append(f"{path.name}: each row has a single 1: {kind}")
        if absent := [name for name in columns if name not in known]:
            source.notes.append(f"{path.name}: no training image has the class {', '.join(absent)}")
        return source
    if is_known and set(ones.tolist()) == {0, 1}:
        empty = f"{(ones == 0).sum():,} of {len(ones):,} rows have no 1, such as line {table.lines[int(ones.argmin())]}"
        read = "each column is read as a label that an image may have"
        table.notes.append(f"{path.name}: {empty}, and all others a single 1; {read}")
    return _Listed(table, to_measure).source_of_labels(names, rows, is_list=False)
