"""A CSV that lists images -> a source."""

from pathlib import Path

from vit.data.dataset_names import SPLIT_SYNONYMS
from vit.data.image_csv import read_image_csv
from vit.data.samples import Source, label_files
from vit.errors import DataError, nearest


def read_csv_source(path: Path) -> Source:
    """List the images of a CSV with the columns path and label, and optionally split and group.

    Raises:
        DataError: a row is wrong, a file is missing, or there are no training images.
    """
    table = read_image_csv(path, ("path", "label"), ("split", "group"))
    split_of = {name: split for split, names in SPLIT_SYNONYMS.items() for name in names} | {"": "train"}
    rows: dict[str, list[tuple[str, str]]] = {"train": []}  # split -> path and class name of each file
    groups: dict[str, list[str]] = {}  # split -> group of each file
    has_groups = any(row.get("group") for _, row in table.rows)
    line_of: dict[str, int] = {}
    for line, row in table.rows:
        file_name, label, split = row["path"], row["label"], row.get("split", "").casefold()
        where = f"{path}, line {line}"
        if split not in split_of:
            raise DataError(f"{where}: split is {row['split']!r}", nearest(split, split_of.keys() - {""}))
        if not label or not file_name:
            raise DataError(f"{where}: an empty path or label", "fill it in or remove the line")
        if label not in file_name and any("\udc80" <= letter <= "\udcff" for letter in label):
            raise DataError(f"{where}: label {label!r} is not UTF-8", "save the file as UTF-8 CSV")
        if file_name in line_of:
            raise DataError(f"{where}: {file_name!r} is also in line {line_of[file_name]}", "keep one of the two")
        line_of[file_name] = line
        if not (path.parent / file_name).is_file():
            raise DataError(f"{where}: there is no file {path.parent / file_name}", "paths are relative to the CSV")
        if has_groups and not row["group"]:
            raise DataError(
                f"{where}: an empty group, where other lines have one",
                "fill it in (an image that stands alone has a group of its own), or remove the column",
            )
        rows.setdefault(split_of[split], []).append((file_name, label))
        groups.setdefault(split_of[split], []).append(row.get("group", ""))
    class_names = tuple(sorted({name for _, name in rows["train"]}))
    if not class_names:
        raise DataError(f"{path} has no training images", "leave split empty or write train")
    splits = {
        split: label_files(path.parent, files, class_names, str(path), groups[split] if has_groups else None)
        for split, files in rows.items()
    }
    return Source(path.stem, class_names, splits, [table.note] if table.note else [])
