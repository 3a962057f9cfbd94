"""CSV files that list images: common column names, with commas, semicolons or tabs between the columns."""

import csv
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from vit.csv_files import is_of_vit, unescape
from vit.data.core.dataset_names import TableColumns
from vit.data.core.image_files import begins_as_image, has_image_extension
from vit.data.sources.csv_cells import MOST_SPLITS, add_splits, any_split, is_index, plain_name, refuse_numbers
from vit.errors import DataError, UsageError, nearest, some_of

if TYPE_CHECKING:
    from _csv import Reader

NAMES = {  # our column -> common names of it, the most specific first
    "path": (
        "path", "file_path", "filepath", "image_path", "img_path", "filename", "file_name", "image_name", "image_file",
        "file", "image", "img", "image_index", "image_id", "img_id", "id",
    ),
    "labels": ("labels", "tags", "finding_labels"),
    "label": ("label", "class", "class_name", "classname", "category", "target", "species"),
    "split": ("split", "set", "subset", "partition", "fold"),
    "group": (
        "group", "group_id", "patient", "patient_id", "patientid", "subject", "subject_id", "subjectid",
        "participant_id", "case_id", "caseid", "specimen_id", "lesion_id", "slide_id", "video_id",
    ),
}  # fmt: skip
MAX_HEADER = 1 << 20  # characters
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t])"?[,;\t]*\s*', re.IGNORECASE)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True)
class CsvTable:
    """The columns of a CSV. Each has a cell for every row, which is "" where the row is too short."""

    path: Path
    lines: list[int]  # line number of each row
    columns: dict[str, list[str]]  # our name of a column -> its cells
    others: list[tuple[str, list[str]]]  # name and cells of columns that have none of our names, if asked for
    notes: list[str]  # columns and separator that were recognized, where they are not ours, and columns not read


def given_columns(wanted: TableColumns) -> dict[str, str]:
    """{our column: its name in the file} of columns that are given by name. Some names stand for several labels."""
    labels = "labels" if plain_name(wanted.label or "") in NAMES["labels"] else "label"
    return {ours: name for ours, name in (("path", wanted.image), (labels, wanted.label)) if name is not None}


def column_names(path: Path, given: Mapping[str, str]) -> list[str]:
    """The names in the first line of a CSV. DataError where the file cannot be read."""
    try:
        return [name.strip() for name in _sniffed(path, tuple(NAMES), given)[0]]
    except (csv.Error, OSError) as error:
        raise _not_a_csv(path, ("path", "label"), error) from error


def columns_of(header: Sequence[str], given: Mapping[str, str]) -> tuple[set[str], bool]:
    """Our names of the columns in a CSV's header, and whether it has others."""
    places = _columns(header, tuple(NAMES), given)
    return set(places), len(_others(header, places.values())) > 0


def read_image_csv(
    path: Path, needed: Sequence[str], given: Mapping[str, str], optional: Sequence[str] = (), others: bool = False
) -> CsvTable:
    """Read a CSV with a header. Cells of our own tables, which are escaped, are read without the escapes.

    UsageError where a given column does not exist, DataError where a needed one is missing or the file is not a CSV.

    Args:
        needed, optional: our names of columns that must be there, and of others to read where they are there. Beside
            "split" any other column may hold the splits.
        given: as `given_columns` gives them; these columns serve for nothing else.
        others: read the columns that have none of our names, too.
    """
    lines: list[int] = []
    try:
        _, mark, skipped = _sniffed(path, needed, given)
        with _opened(path) as file:
            reader = csv.reader(islice(file, skipped, None), delimiter=mark, strict=True)
            header = next(reader, [])
            places = _checked_columns(path, header, needed, optional, given)
            text = unescape if is_of_vit(header) else str
            beside = _others(header, places.values()) if others else {}
            unread = [i for i, name in enumerate(header) if i not in places.values() and not is_index(name)]
            # cells of a column that may hold splits; of a column with more different cells they are dropped
            different: dict[int, dict[str, str]] = {index: {} for index in unread} if optional else {}
            cells: dict[int, list[str]] = {index: [] for index in (*places.values(), *beside, *different)}
            for line, row in _rows(reader, path, mark, len(header), places["path"], skipped):
                lines.append(line)
                for index, column in list(cells.items()):
                    cell, known = text(row[index]) if index < len(row) else "", different.get(index)
                    column.append(cell if known is None else known.setdefault(cell, cell))
                    if known is not None and len(known) > MOST_SPLITS:
                        del different[index]
                        if index not in beside:
                            del cells[index]
    except (csv.Error, OSError, UnicodeError) as error:
        raise _not_a_csv(path, needed, error) from error
    columns, unusual = {ours: cells[index] for ours, index in places.items()}, list[str]()
    named = header[places["split"]] if "split" in places else "split"
    if plain_name(named) != "split" and not any_split(columns["split"]):
        refuse_numbers(plain_name(named), columns.pop("split"), f"{path}: column {named!r}")
        unusual = [f"the column {named!r} is not read: no cell is train, validation or test"]
    renamed = [f"{header[places[ours]]!r} as {ours}" for ours in columns if header[places[ours]] != ours]
    separated = [f"separated by {SEPARATORS[mark]}"] * (mark != ",")
    notes = [f"read {', '.join([*renamed, *separated])}"] * bool(renamed or separated) + unusual
    if "split" in optional:
        candidates = [(index, header[index], cells[index]) for index in different]
        used, note = add_splits(path, lines, columns, candidates, others)
        beside.pop(used, None)
        notes += note
    label = places.get("label", places.get("labels"))
    if label is not None and not given.keys() & {"label", "labels"}:
        usual = {*NAMES["label"], *NAMES["labels"]}
        if more := [repr(name) for i, name in enumerate(header) if plain_name(name) in usual and i != label]:
            remark = f"labels are the column {header[label]!r}, not {' and '.join(more)}"
            notes.append(f"{remark} (--label_column chooses)")
    known_names = {*beside.values(), *(("content", "name") if is_of_vit(header) else ())}
    more = [repr(header[i]) for i in unread if header[i] not in known_names and repr(header[i]) not in " ".join(notes)]
    if more and optional:
        notes.append(f"columns without image or label: {some_of(more, 12)}" + " (rename one that is a label)" * others)
    note = [f"{path.name}: {'; '.join(notes)}"] if notes else []
    return CsvTable(path, lines, columns, [(text(name), cells[index]) for index, name in beside.items()], note)


def _checked_columns(
    path: Path, header: Sequence[str], needed: Sequence[str], optional: Sequence[str], given: Mapping[str, str]
) -> dict[str, int]:
    """{our column: index}. UsageError or DataError where one is missing, or is there twice."""
    stripped = [name.strip() for name in header]
    for ours, name in given.items():
        option = "image_column" if ours == "path" else "label_column"
        if name not in stripped:
            raise UsageError(f"{option} {name!r} is not a column of {path}", nearest(name, stripped))
        if stripped.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice", "rename one of the two")
    places = _columns(header, (*needed, *optional), given)
    names = [plain_name(name) for name in header]
    for index in places.values():
        if names.count(names[index]) > 1:
            raise DataError(f"{path} has the column {header[index]!r} twice", "rename one of the two")
    if missing := [name for name in needed if name not in places]:
        present = ", ".join(repr(name[:40]) for name in header[:10]) or "none"
        options = "--image_column and --label_column" if len(needed) > 1 else "--image_column"
        fix = f"the first line must name them: {','.join(needed)}; or give {options}"
        raise DataError(f"{path} lacks the column {' and '.join(missing)}; its columns are {present}", fix)
    return places


def _rows(
    reader: "Reader", path: Path, mark: str, width: int, of_path: int, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header that are not empty, with the number of their last line.

    DataError where a row has more cells than the header, or goes on with other rows: a quotation mark is missing there.
    """
    line = reader.line_num + skipped + 1
    quote = f'quote whole cells, as in "a{mark} b", and double quotation marks inside'
    try:
        for row in reader:
            end = reader.line_num + skipped
            later = (one.split(mark) for cell in row for one in cell.splitlines()[1:]) if end > line else ()
            if any(os.path.isfile(path.parent / cells[of_path]) for cells in later if len(cells) > of_path):
                raise DataError(f"{path}, line {line}: a cell goes on to line {end}", quote)
            if len(row) > width and any(cell.strip() for cell in row[width:]):
                counts = f"{len(row):,} cells, and the header {width} columns"
                raise DataError(f"{path}, line {line}: {counts}", f"{quote}; several labels are a|b")
            if row:
                yield end, row
            line = end + 1
    except csv.Error as error:
        raise DataError(f"{path} is not a CSV: line {line}: {error}", quote) from error


def _opened(path: Path) -> IO[str]:
    """A table as text: UTF-8, or UTF-16 as Excel saves "Unicode text". DataError where it is not text."""
    with open(path, "rb") as file:
        start = file.read(1024)
    is_wide = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in start and not is_wide:
        is_image = has_image_extension(path) or begins_as_image(str(path))
        fix = "give the folder of the images, or a CSV with the columns path,label" if is_image else "save it as CSV"
        raise DataError(f"{path} is {'an image' if is_image else 'not text'}, not a table", fix)
    return open(path, newline="", encoding="utf-16" if is_wide else "utf-8-sig", errors="surrogateescape")


def _sniffed(path: Path, wanted: Sequence[str], given: Mapping[str, str]) -> tuple[list[str], str, int]:
    """The cells of the header, the character between them, and the number of lines above it: 1 for "sep=;" of Excel."""
    with _opened(path) as file:
        first, skipped = file.readline(MAX_HEADER), 0
        stated = _SEPARATOR_LINE.fullmatch(first)
        if stated:
            first, skipped = file.readline(MAX_HEADER), 1
    headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in (stated[1] if stated else SEPARATORS)}
    mark = max(headers, key=lambda mark: (len(_columns(headers[mark], wanted, given)), len(headers[mark])))
    return headers[mark], mark, skipped


def _not_a_csv(path: Path, needed: Sequence[str], error: Exception) -> DataError:
    return DataError(f"{path} is not a CSV: {error}", f"save it as UTF-8 CSV with {','.join(needed)}")


def _columns(header: Sequence[str], wanted: Sequence[str], given: Mapping[str, str]) -> dict[str, int]:
    """{our column: index} for the wanted columns that a header has. Given ones serve for nothing else."""
    places = {name.strip(): i for i, name in enumerate(header)}
    by_option = {ours: places[name] for ours, name in given.items() if name in places}
    indices = {plain_name(name): i for i, name in enumerate(header) if i not in by_option.values()}
    usual = {ours: [indices[name] for name in NAMES[ours] if name in indices] for ours in wanted if ours not in given}
    place_of = {ours: candidates[0] for ours, candidates in usual.items() if candidates} | by_option
    return {ours: place_of[ours] for ours in wanted if ours in place_of}


def _others(header: Sequence[str], read: Collection[int]) -> dict[int, str]:
    """{index: name} of the columns that have none of our names, and are not read."""
    ours = {name for names in NAMES.values() for name in names}
    unread = ((i, name) for i, name in enumerate(header) if i not in read and not is_index(name))
    return {i: name for i, name in unread if plain_name(name) not in ours}
