"""The columns of a parquet table that hold images, labels, splits and groups, found by type and by usual names

The schema is part of an untrusted file. Its metadata `huggingface` say which columns are of `Image` and `ClassLabel`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.types as types

from vit.data.core.dataset_names import TableColumns
from vit.data.sources.csv_cells import is_index, plain_name
from vit.data.sources.image_csv import NAMES
from vit.errors import DataError, UsageError, nearest, some_of
from vit.tasks.label_text import LIST, SEPARATOR

IMAGE_NAMES = ("image", "img", "jpg", "png", "picture", "photo")
LABEL_NAMES = ("label", "labels", *NAMES["label"][1:], "fine_label")
_METADATA = b"huggingface"
_SHOWN = 12  # columns in an error
_IMAGES, _LABELS = ("bytes", "struct"), ("text", "number")  # kinds of columns
Feature = dict[str, Any]  # what Hugging Face says of a column, with a `_type`


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a table that are read."""

    image: str  # column of encoded images
    bytes_path: str  # path of the bytes of images in the columns of the file: "image.bytes", or "image"
    name_path: str | None  # path of the names of images
    label: str | None  # column of labels
    class_names: tuple[str, ...] | None  # of a ClassLabel by number; None: labels are texts or plain numbers
    split: str | None  # column of the split of each image
    group: str | None  # column of the group of each image
    other_labels: tuple[str, ...]  # further columns that might be the labels
    unread: tuple[str, ...]  # columns that are not read
    may_split: tuple[str, ...]  # those of them with texts, whole numbers or yes and no: one might hold splits


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
    features, kinds = _features(schema.metadata or {}), {name: _kind(kind) for name, kind in fields.items()}
    for option, column in wanted.by_option.items():
        if column not in fields:
            raise UsageError(f"{option} {column!r} is not a column of {where}", nearest(column, fields))
    image, label = wanted.image or _image_column(fields, kinds, features, where), wanted.label
    if kinds[image] not in _IMAGES:
        fix = "give a column of images, which are bytes, or structs with a field bytes"
        raise DataError(f"the column {image!r} of {where} holds {fields[image]}", fix)
    others: tuple[str, ...] = ()
    if label is None and needs_label:
        label, others = _label_column(fields, kinds, features, where)
    if label is not None and kinds[label] not in _LABELS:
        fix = "give a column of labels, which are texts or whole numbers"
        raise DataError(f"the column {label!r} of {where} holds {fields[label]}", fix)
    free = [name for name in fields if name != label]
    split = next((name for name in free if plain_name(name) == "split" and kinds[name] == "text"), None)
    group = next(iter(_named(free, NAMES["group"])), None)
    read = (image, label, split, group)
    twice = next((name for name in read if schema.names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where} has the column {twice!r} twice", "rename one of the two")
    is_struct = kinds[image] == "struct"
    unread = [name for name in fields if name not in (*read, *others) and not is_index(name)]
    return ChosenColumns(
        image=image,
        bytes_path=f"{image}.bytes" if is_struct else image,
        name_path=f"{image}.path" if is_struct and "path" in {field.name for field in fields[image]} else None,
        label=label,
        class_names=None if label is None else _class_names(features.get(label), f"the column {label!r} of {where}"),
        split=split,
        group=group,
        other_labels=others,
        unread=tuple(unread),
        may_split=tuple(name for name in unread if kinds[name] in _LABELS),
    )


def column_notes(
    columns: ChosenColumns, class_names: Sequence[str], has_named_splits: bool, is_given: bool, where: str
) -> list[str]:
    """What a user should know of the columns that were read.

    DataError where labels are lists, or cat|indoors in a column `labels` that is not given: several labels in a CSV.
    """
    column, texts = columns.label or "", class_names if columns.class_names is None else ()
    as_list = next((name for name in texts if LIST.fullmatch(name)), None)
    if as_list is not None:
        fix = "give several labels as a CSV; name one class without brackets"
        raise DataError(f"the column {column!r} of {where} has {as_list[:40]!r}, which is a list", fix)
    with_bar = next((name for name in texts if SEPARATOR in name), "")
    if with_bar and plain_name(column) == "labels" and not is_given:
        problem = f"the column {column!r} of {where} has {with_bar!r}, and a table has one class for each image"
        raise DataError(problem, f"give several labels as a CSV; --label_column {column} takes each text for one class")
    notes = []
    if columns.other_labels:
        others = " and ".join(map(repr, columns.other_labels))
        notes.append(f"labels are the column {column!r}, not {others} (--label_column chooses)")
    if columns.split is not None and has_named_splits:
        notes.append(f"the column {columns.split!r} is not used: the names of the files decide the splits")
    if columns.unread:
        notes.append(f"columns without image or label: {some_of(map(repr, columns.unread), _SHOWN)}")
    if columns.group is not None:
        notes.append(f"groups are the column {columns.group!r}")
    if with_bar:
        notes.append(f"each text of the column {column!r} is one class, also {with_bar!r}; several labels need a CSV")
    return notes


def _image_column(fields: dict[str, Any], kinds: dict[str, str], features: dict[str, Feature], where: str) -> str:
    holding = [name for name in fields if kinds[name] in _IMAGES]
    typed = [name for name in holding if features.get(name, {}).get("_type") == "Image"]
    unsaid = [name for name in holding if name not in features]
    candidates = typed or [name for name in unsaid if kinds[name] == "struct"] or unsaid
    column = _only(candidates, [one for one in candidates if one.casefold() in IMAGE_NAMES])
    if column is not None:
        return column
    fix = "give a table with encoded images (bytes, or structs with a field bytes), or an index of 'vit data index'"
    raise _unclear("images", candidates, fields, where, fix)


def _label_column(
    fields: dict[str, Any], kinds: dict[str, str], features: dict[str, Feature], where: str
) -> tuple[str, tuple[str, ...]]:
    """The column of labels, and others that might be."""
    possible = [name for name in fields if kinds[name] in _LABELS]
    typed = [name for name in possible if features.get(name, {}).get("_type") == "ClassLabel"]
    usual = _named(possible, LABEL_NAMES)
    candidates = list(dict.fromkeys([*typed, *usual]))
    plain = [name for name in candidates if plain_name(name) in ("label", "labels")]
    column = _only(plain, typed, [name for name in typed if name in usual], candidates)
    if column is not None:
        return column, tuple(name for name in candidates if name != column)
    fix = "name one that holds texts or whole numbers with --label_column NAME"
    raise _unclear("labels", candidates, fields, where, f"{fix}; 'vit pretrain --data.labels none' needs none")


def _only(*lists: list[str]) -> str | None:
    """The name in the first of some lists that has one name alone."""
    return next((names[0] for names in lists if len(names) == 1), None)


def _unclear(what: str, candidates: list[str], fields: dict[str, Any], where: str, fix: str) -> DataError:
    """The error where several columns might be the images or the labels, or none is; `fix`: of the latter."""
    if candidates:
        option = f"{what.removesuffix('s')}_column"
        fix = f"choose one with --data.{option} NAME (--{option} for commands without a recipe)"
        return DataError(f"{where} has several columns of {what}: {some_of(map(repr, candidates), _SHOWN)}", fix)
    columns = some_of((f"{name!r} ({str(kind)[:40]})" for name, kind in fields.items()), _SHOWN)
    return DataError(f"{where} has no column of {what}; its columns are {columns}", fix)


def _named(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns that have one of some usual names, as in a CSV; the most specific first."""
    usual = [name for name in columns if plain_name(name) in names]
    return sorted(usual, key=lambda name: names.index(plain_name(name)))


def _features(metadata: dict[bytes, bytes]) -> dict[str, Feature]:
    """{column: what Hugging Face says of it, with a `_type`}; {} where nothing readable is said."""
    try:
        found = json.loads(metadata.get(_METADATA, b"{}"))["info"]["features"]
        return {name: one for name, one in found.items() if isinstance(one, dict) and isinstance(one.get("_type"), str)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _class_names(feature: Feature | None, where: str) -> tuple[str, ...] | None:
    if feature is None or feature["_type"] != "ClassLabel":
        return None
    names = feature.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"{where} has damaged class names", "get the file again, or write the table again")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where} has the class name {twice!r} twice", "write the table again with different names")
    return tuple(names)


def _kind(kind: Any) -> str:
    """What a type of pyarrow holds: "bytes", a "struct" with a field of bytes, "text", "number" or ""."""
    if types.is_struct(kind):
        return "struct" if any(field.name == "bytes" and _kind(field.type) == "bytes" for field in kind) else ""
    if types.is_dictionary(kind):
        return "text" if _kind(kind.value_type) == "text" else ""
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "bytes"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    return "number" if types.is_integer(kind) or types.is_boolean(kind) else ""
