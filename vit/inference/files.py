"""Which files IMAGES on the command line means, in a stable order, and names of new files"""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from vit.data.core.dataset_names import TableColumns, is_far, is_parquet, table_source
from vit.data.core.image_files import has_image_extension, is_folder
from vit.data.sources.csv_cells import ListedFiles
from vit.data.sources.image_csv import given_columns, read_image_csv
from vit.errors import DataError, UsageError, explained, nearest, path_beside, some_of
from vit.layout import RunLayout

if TYPE_CHECKING:
    from vit.data.core.image_bytes import ImageReader

OUTPUTS = (".csv", ".jsonl", ".parquet")
TABLES, NAMES = (".csv", ".tsv"), ".txt"

Paths = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class ListedImages:
    """Images to predict, in order."""

    paths: list[str]  # path of each file, or key of each image of shards
    reader: "ImageReader | None" = None  # reads images of shards; None for files
    # {folder of IMAGES: number of folders in it that were not read}, without zeros
    skipped_folders: dict[str, int] = field(default_factory=dict)
    counts: tuple[int, ...] = ()  # number of images of each input; () where repeats are left out
    notes: tuple[str, ...] = ()  # columns and names of lists that were read as other ones

    @property
    def remarks(self) -> str:
        """Messages about lists, and about the folders that were not read; "" where there is nothing to say."""
        count, names = sum(self.skipped_folders.values()), list(self.skipped_folders)
        where = " and ".join(names) if len(names) <= 2 else f"{len(names):,} of the given folders"
        noun, verb, them = ("folders", "were", "them") if count > 1 else ("folder", "was", "it")
        skipped = f"{count:,} {noun} in {where} {verb} not read (--recursive reads {them})"
        return "; ".join([*self.notes, *[skipped] * bool(count)])


def list_images(
    inputs: Paths, recursive: bool, columns: TableColumns = TableColumns(), keep_repeats: bool = False
) -> ListedImages:
    """The images of an index or of parquet tables, by split in the order of rows; addresses; or those of `list_files`.

    UsageError: there is an index or a table among several inputs. DataError: as for `list_files`, or the index or the
    table cannot be used. ResourceError: the Hugging Face hub does not give the data set.
    """
    names = [os.fspath(item) for item in inputs]
    if any(is_far(name) and not is_parquet(name) for name in names):
        columns.refuse(names[0])
        return _addresses(names, (1,) * len(names))
    indexed = [name for name in names if is_parquet(name) and not _holds_images(Path(name).expanduser())]
    if not indexed:
        listed = list_files(inputs, recursive, columns, keep_repeats)
        return _addresses(listed.paths, listed.counts) if any(map(is_far, listed.paths)) else listed
    if len(names) > 1:
        raise UsageError(f"IMAGES has {indexed[0]} among other inputs", "give one index or table, and nothing else")
    splits = table_source(indexed[0]).list_images(indexed[0], columns).splits.values()
    paths = [path for samples in splits for path in samples.paths]
    return ListedImages(paths, next(iter(splits)).reader, counts=(len(paths),))


def _holds_images(path: Path) -> bool:
    """Whether a path is a folder with images: its tables, such as earlier rows, are files like them."""
    return path.is_dir() and any(map(has_image_extension, path.iterdir()))


def _addresses(names: list[str], counts: tuple[int, ...]) -> ListedImages:
    """Images on other machines."""
    from vit.data.core.image_bytes import address_reader  # imports numpy

    near = next((name for name in names if not is_far(name)), None)
    if near is not None:
        raise UsageError(f"IMAGES has the file {near} among addresses", "give files or addresses, not both")
    return ListedImages(names, address_reader(), counts=counts)


def list_files(
    inputs: Paths, recursive: bool, columns: TableColumns = TableColumns(), keep_repeats: bool = False
) -> ListedImages:
    """Every file that the inputs name, once, as the user would write it.

    - A file stands as given. A pattern stands for its matches, sorted.
    - A folder stands for the files in it, sorted, without hidden files. With `recursive` its folders count too. Files
      of any type are listed: a text file gets its row, too.
    - A table with a column of paths, and a .txt file with one name in each line, are lists if all inputs are lists.
      Each line stands for a file, in order; a name may lack its ending. Repeated and missing names stay.

    With `keep_repeats`, a file that several inputs name stands for each of them. Rows of the command line are one per
    file. A program pairs its own list with the answers by position, so none may be left out.

    UsageError: a column is given, and an input has none of this name. DataError: an input does not exist or has no
    match, or there is not a single file.
    """
    skipped_folders, notes = dict[str, int](), list[str]()
    input_paths = [Path(os.path.expanduser(item)) for item in inputs]
    lists = [path for path in input_paths if path.name.lower().endswith((*TABLES, NAMES)) and path.is_file()]
    if lists and len(lists) == len(inputs):
        listed = [_listed(path, columns, notes) for path in lists]
        keep_repeats = True
    else:
        for item in inputs[:1]:
            columns.refuse(os.fspath(item))
        listed = [_named(os.fspath(item), recursive, skipped_folders) for item in inputs]
        notes += [f"not read as a list, because IMAGES has other inputs, too: {some_of(map(str, lists))}"] * bool(lists)
    paths = [path for part in listed for path in part]
    if not paths:
        count = sum(skipped_folders.values())
        more = f" ({count:,} folder{'s' * (count != 1)} in it)" if count else ""
        fix = "add --recursive to read the folders in it" if skipped_folders else "give a folder that holds images"
        raise DataError(f"{', '.join(map(str, inputs)) or 'an empty list'} holds no files{more}", fix)
    counts = tuple(map(len, listed)) if keep_repeats else ()
    if not keep_repeats and len(inputs) > 1:
        first = dict[Path, str]()  # holiday and ./holiday are one; `..` stays, because links may precede it
        for path in paths:
            first.setdefault(Path(path).absolute(), path)
        paths = list(first.values())
    return ListedImages(paths, None, skipped_folders, counts, (*notes,))


def _named(item: str, recursive: bool, skipped_folders: dict[str, int]) -> list[str]:
    """The files that one input names. Folders in it that are not read are counted in `skipped_folders`."""
    name = os.path.expanduser(item)
    if os.path.isdir(name):
        if RunLayout(Path(name)).is_run:
            raise UsageError(f"{item} is a run folder, not a folder of images", "give one model, then images")
        entries = list(_walk(name, recursive, set()))
        if skipped := sum(is_dir for _, is_dir in entries):
            skipped_folders[item] = skipped
        return [path for path, is_dir in entries if not is_dir]
    if os.path.lexists(name):
        if is_parquet(name):
            fix = "give files or folders of images; 'vit predict' and 'vit embed' read tables"
            raise UsageError(f"{item} is a table, which this command does not read", fix)
        return [name]
    if not glob.has_magic(name):
        fix = "give files, folders or patterns such as 'photos/*.jpg'"
        raise DataError(f"there is no {item}{path_beside(Path(name))}", fix)
    matches = sorted(path for path in glob.glob(name, recursive=True) if not os.path.isdir(path))
    if not matches:
        raise DataError(f"{item} matches no file", "check the pattern, and quote it if your shell changes it")
    return matches


def _listed(path: Path, columns: TableColumns, notes: list[str]) -> list[str]:
    """The files that a list names, relative to the folder of the list. What was read as something else is noted."""
    if path.suffix.lower() == NAMES:
        columns.refuse(str(path))
        lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
        names = [line for line in lines if line.strip()]  # a name may begin or end with spaces
    else:
        table, files = read_image_csv(path, ("path",), given_columns(columns)), ListedFiles(path)
        names = table.columns["path"]
        are_there = bool(names) and os.path.isfile(path.parent / names[0])
        for row, name in enumerate(names):
            # millions of plain names are not looked up: each file is opened later anyway
            is_plain = are_there and name.isascii() and "\\" not in name and has_image_extension(PurePath(name))
            if not is_plain and not is_far(name) and len(candidates := files.candidates(name)) == 1:
                names[row] = candidates[0]
        notes += [*table.notes, *files.notes]
    if not names:
        raise DataError(f"{path} lists no files", "give one file name in each line")
    return [name if path.parent == Path() or is_far(name) else os.path.join(path.parent, name) for name in names]


def _walk(folder: str, recursive: bool, seen: set[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """(path, whether it is a folder that is not read) of each file and such folder, in order."""
    with explained(DataError, f"cannot read {folder}", "check its permissions"):
        status = os.stat(folder)
        visible = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    if (status.st_dev, status.st_ino) in seen:
        return  # a link back to a folder that was already read
    seen.add((status.st_dev, status.st_ino))
    for entry in sorted(visible, key=lambda entry: entry.name):
        if not is_folder(entry):
            yield entry.path, False
        elif recursive:
            yield from _walk(entry.path, recursive, seen)
        else:
            yield entry.path, True


def check_output(path: Path) -> None:
    """Raise UsageError if the suffix of an output file is unknown."""
    if path.suffix.lower() not in OUTPUTS:
        raise UsageError(f"--output {path} ends in {path.suffix or 'nothing'}", nearest(path.suffix, OUTPUTS))
