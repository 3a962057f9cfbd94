"""Messages about parquet tables: which columns were read, texts with bars, and row groups beyond the cache"""

from collections.abc import Sequence

from vit.data.image_csv import plain_name
from vit.errors import DataError
from vit.extras.parquet.columns import ChosenColumns
from vit.extras.parquet.rows import TableReader
from vit.extras.s3.cache import PartCache
from vit.tasks.label_text import SEPARATOR


def table_notes(
    columns: ChosenColumns, class_names: Sequence[str], has_named_splits: bool, reader: TableReader
) -> list[str]:
    """What a user should know of the columns and the size of tables."""
    notes = _column_notes(columns, has_named_splits)
    with_bar = _with_bar(columns, class_names)
    if with_bar:
        column = columns.label
        notes.append(f"each text of the column {column!r} is one class, also {with_bar!r}; several labels need a CSV")
    return [*notes, *_size_notes(reader)]


def check_bars(columns: ChosenColumns, class_names: Sequence[str], is_given: bool, where: str) -> None:
    """Raise DataError for cat|indoors in a column `labels`, which are several labels in a CSV.

    Args:
        is_given: whether the user has named the column.
    """
    with_bar, column = _with_bar(columns, class_names), columns.label or ""
    if with_bar and plain_name(column) == "labels" and not is_given:
        raise DataError(
            f"the column {column!r} of {where} has {with_bar!r}, and a table has one class for each image",
            f"give several labels as a CSV; --data.label_column {column} takes each text for one class",
        )


def _with_bar(columns: ChosenColumns, class_names: Sequence[str]) -> str:
    """A text of the column of labels with a bar; "" where no text has one, or the table has class names."""
    if columns.class_names is not None:
        return ""
    return next((name for name in class_names if SEPARATOR in name), "")


def _column_notes(columns: ChosenColumns, has_named_splits: bool) -> list[str]:
    notes = []
    if columns.other_labels:
        others = " and ".join(map(repr, columns.other_labels))
        notes.append(f"labels are the column {columns.label!r}, not {others} (--data.label_column chooses)")
    if columns.split is not None and has_named_splits:
        notes.append(f"the column {columns.split!r} is not used: the names of the files decide the splits")
    if columns.like_split and not has_named_splits:
        unread = " and ".join(map(repr, columns.like_split))
        notes.append(f"the column {unread} is not read; name it split if it says which images are train and test")
    if columns.group is not None:
        notes.append(f"groups are the column {columns.group!r}")
    return notes


def _size_notes(reader: TableReader) -> list[str]:
    """A warning where the cache on the disk is smaller than the images of large tables."""
    limit = PartCache.of_machine().max_bytes
    if reader.is_small or reader.num_bytes <= limit:
        return []
    return [
        f"{reader.num_bytes / 1e9:,.1f} GB of images, and a cache of {limit / 1e9:g} GB on the disk: row groups are "
        f"read again and again; set VIT_CACHE_GB to {reader.num_bytes / 1e9 * 1.1:,.0f}, or make shards with "
        "'vit data pack'"
    ]
