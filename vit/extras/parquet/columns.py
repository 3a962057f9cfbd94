"""The columns of a parquet table that hold images, labels, splits and groups, found by type and by usual names

The schema is part of an untrusted file. Its metadata `huggingface` say which columns are of `Image` and `ClassLabel`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vit.data.core.dataset_names import TableColumns
from vit.data.sources.csv_cells import is_index, plain_name
from vit.data.sources.image_csv import NAMES
from vit.errors import DataError, UsageError, nearest, some_of
from vit.tasks.label_text import LIST, SEPARATOR

IMAGE_NAMES = ("image", "img", "jpg", "png", "picture", "photo")
LABEL_NAMES = ("label", "labels", *NAMES["label"][1:], "fine_label")
_METADATA = b"huggingface"
_SHOWN = 12  # columns in an error


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a table that are read.

    Attributes:
        image: column of encoded images.
        bytes_path: path of the bytes of images in the columns of the file: "image.bytes", or "image".
        name_path: path of the names of images, or None.
        label: column of labels; None where there is none.
        class_names: names of a ClassLabel in the order of its numbers; None: labels are texts or plain numbers.
        split, group: columns of the split and of the group of each image, or None.
        other_labels: further columns that might be the labels.
        may_split: columns that are not read, of texts, whole numbers or yes and no: one might hold splits.
    """

    image: str
    bytes_path: str
    name_path: str | None
    label: str | None
    class_names: tuple[str, ...] | None
    split: str | None
    group: str | None
    other_labels: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    may_split: tuple[str, ...] = ()


def choose_columns(schema: Any, wanted: TableColumns, where: str, needs_label: bool = True) -> ChosenColumns:
    """Choose the columns of a table.

    Args:
        schema: the table's schema, of pyarrow.
        wanted: names that are given; None for those that are to be found.
        where: path of the file, for errors.
        needs_label: whether a table without labels, or with several columns that might be, is an error.

    Raises:
        UsageError: a given column does not exist.
        DataError: no column, or more than one, may be the images or the labels; or the class names are damaged.
    """
    fields = {field.name: field.type for field in schema}
    features = _features(schema.metadata or {})
    for given, flag in ((wanted.image, "image_column"), (wanted.label, "label_column")):
        if given is not None and given not in fields:
            raise UsageError(f"{flag} {given!r} is not a column of {where}", nearest(given, fields))
    image = wanted.image or _image_column(fields, features, where)
    if not _holds_images(fields[image]):
        raise DataError(
            f"the column {image!r} of {where} holds {fields[image]}, not images",
            "images are bytes, or structs with a field bytes",
        )
    label, others = _label_column(fields, features, wanted, where, needs_label)
    is_struct = not _is_binary(fields[image])
    names = {field.name for field in fields[image]} if is_struct else set()
    texts = [name for name in fields if plain_name(name) == "split" and name != label and _is_text(fields[name])]
    split = next(iter(texts), None)
    group = next((name for name in _named(fields, NAMES["group"]) if name != label), None)
    twice = next((name for name in (image, label, split, group) if schema.names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where} has the column {twice!r} twice", "rename one of the two")
    rest = [name for name in fields if name not in (image, label, split, group, *others) and not is_index(name)]
    return ChosenColumns(
        image=image,
        bytes_path=f"{image}.bytes" if is_struct else image,
        name_path=f"{image}.path" if "path" in names else None,
        label=label,
        class_names=None if label is None else _class_names(features.get(label), f"the column {label!r} of {where}"),
        split=split,
        group=group,
        other_labels=others,
        unread=tuple(rest),
        may_split=tuple(name for name in rest if _is_label(fields[name])),
    )


def is_index_schema(names: list[str]) -> bool:
    """Whether columns of these names are those of an index of shards."""
    return {"key", "shard", "offset", "length"} <= set(names)


def check_bars(columns: ChosenColumns, class_names: Sequence[str], is_given: bool, where: str) -> None:
    """Raise DataError for cat|indoors in a column `labels`, which are several labels in a CSV, and for lists.

    Args:
        is_given: whether the user has named the column.
    """
    as_list = next((name for name in class_names if columns.class_names is None and LIST.fullmatch(name)), None)
    if as_list is not None:
        fix = "give several labels as a CSV; name one class without brackets"
        raise DataError(f"the column {columns.label!r} of {where} has {as_list[:40]!r}, which is a list", fix)
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


def column_notes(columns: ChosenColumns, class_names: Sequence[str], has_named_splits: bool) -> list[str]:
    """What a user should know of the columns that were read."""
    notes = []
    if columns.other_labels:
        others = " and ".join(map(repr, columns.other_labels))
        notes.append(f"labels are the column {columns.label!r}, not {others} (--data.label_column chooses)")
    if columns.split is not None and has_named_splits:
        notes.append(f"the column {columns.split!r} is not used: the names of the files decide the splits")
    if columns.unread:
        notes.append(f"columns that are not read: {some_of(map(repr, columns.unread), _SHOWN)}")
    if columns.group is not None:
        notes.append(f"groups are the column {columns.group!r}")
    if with_bar := _with_bar(columns, class_names):
        column = columns.label
        notes.append(f"each text of the column {column!r} is one class, also {with_bar!r}; several labels need a CSV")
    return notes


def _image_column(fields: dict[str, Any], features: dict[str, Any], where: str) -> str:
    named = [name for name in fields if _feature_type(features, name) == "Image" and _holds_images(fields[name])]
    unsaid = [name for name in fields if _feature_type(features, name) is None]
    structs = [name for name in unsaid if _holds_images(fields[name]) and not _is_binary(fields[name])]
    candidates = named or structs or [name for name in unsaid if _is_binary(fields[name])]
    usual = [name for name in candidates if name.casefold() in IMAGE_NAMES]
    found = candidates if len(candidates) == 1 else usual
    if len(found) == 1:
        return found[0]
    if candidates:
        raise DataError(
            f"{where} has several columns of images: {', '.join(map(repr, candidates[:_SHOWN]))}",
            "choose one with --data.image_column NAME (--image_column for commands without a recipe)",
        )
    raise DataError(
        f"{where} has no column of images; its columns are {_listed(fields)}",
        "give a table with encoded images (bytes, or structs with a field bytes), or an index of 'vit data index'",
    )


def _label_column(
    fields: dict[str, Any], features: dict[str, Any], wanted: TableColumns, where: str, needs_label: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The column of labels, and other columns that might be."""
    of_classes = [name for name in fields if _feature_type(features, name) == "ClassLabel" and _is_label(fields[name])]
    usual = [name for name in _named(fields, LABEL_NAMES) if _is_label(fields[name])]
    candidates = list(dict.fromkeys([*of_classes, *usual]))
    if wanted.label is not None:
        if not _is_label(fields[wanted.label]):
            raise DataError(
                f"the column {wanted.label!r} of {where} holds {fields[wanted.label]}",
                "labels are texts or whole numbers",
            )
        return wanted.label, ()
    if not needs_label:
        return None, ()
    plain = [name for name in candidates if plain_name(name) in ("label", "labels")]
    named_classes = [name for name in of_classes if plain_name(name) in LABEL_NAMES]
    for found in (plain, of_classes, named_classes, candidates):
        if len(found) == 1:
            return found[0], tuple(name for name in candidates if name != found[0])
    if candidates:
        raise DataError(
            f"{where} has several columns that may be the labels: {', '.join(map(repr, candidates[:_SHOWN]))}",
            "choose one with --data.label_column NAME (--label_column for commands without a recipe)",
        )
    raise DataError(
        f"{where} has no column of labels; its columns are {_listed(fields)}",
        "name one that holds texts or whole numbers with --data.label_column NAME; 'vit pretrain --data.labels none' "
        "needs none",
    )


def _named(fields: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The columns that have one of some usual names, as in a CSV; the most specific first."""
    return sorted(
        (name for name in fields if plain_name(name) in names), key=lambda name: names.index(plain_name(name))
    )


def _features(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """{column: what Hugging Face says of it}; {} where nothing readable is said."""
    try:
        found = json.loads(metadata.get(_METADATA, b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _feature_type(features: dict[str, Any], name: str) -> str | None:
    feature = features.get(name)
    kind = feature.get("_type") if isinstance(feature, dict) else None
    return kind if isinstance(kind, str) else None


def _class_names(feature: Any, where: str) -> tuple[str, ...] | None:
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"{where} has damaged class names", "get the file again, or write the table again")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where} has the class name {twice!r} twice", "write the table again with different names")
    return tuple(names)


def _holds_images(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_struct(kind):
        return any(field.name == "bytes" and _is_binary(field.type) for field in kind)
    return _is_binary(kind)


def _is_binary(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_label(kind: Any) -> bool:
    import pyarrow.types as types

    return _is_text(kind) or bool(types.is_integer(kind) or types.is_boolean(kind))


def _listed(fields: dict[str, Any]) -> str:
    return some_of((f"{name!r} ({str(kind)[:40]})" for name, kind in fields.items()), _SHOWN)
