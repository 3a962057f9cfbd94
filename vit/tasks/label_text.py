"""Several labels of one image as one text, as `splits.csv` and a CSV with a column `labels` hold them

cat|indoors      the image has these labels, and no other
cat|?indoors     whether the image shows the label `indoors` is unknown
                 (empty) the image has none of the labels
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

SEPARATOR, UNKNOWN = "|", "?"  # between labels; before a label that may or may not be there
PRESENT, ABSENT, NOT_KNOWN = 1, 0, -1  # in an array of labels

LabelRows = npt.NDArray[np.int8]  # (n, K), or (K,) of one image

LIST = re.compile(r"""\s*[\[({].*['",].*[\])}]\s*""", re.DOTALL)  # as Python writes one: "['cat', 'dog']"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "nat"))  # how programs write an empty cell


def clean_label(text: str) -> str:
    """The name of a class: without space around it, and in the Unicode form NFC, wherever it was written."""
    return unicodedata.normalize("NFC", text.strip()) or text


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Class names in order; class numbers are sorted as numbers."""
    known = set(names)
    if all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in known):
        return tuple(sorted(known, key=lambda name: (int(name), name)))
    return tuple(sorted(known))


def alike_key(name: str) -> str | Decimal:
    """What is equal for names that people would take for one: by case, spaces, Unicode form, or 1 and 1.0."""
    folded = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return Decimal(folded) if _NUMBER.fullmatch(folded) else folded


def label_text(row: LabelRows, class_names: Sequence[str]) -> str:
    """The labels (K,) of one image as text."""
    marks = {PRESENT: "", NOT_KNOWN: UNKNOWN}
    values = zip(class_names, row.tolist(), strict=True)
    return SEPARATOR.join(marks[value] + name for name, value in values if value in marks)


def parse_labels(text: str) -> dict[str, int]:
    """{label: 1 for present, -1 for unknown} of a text that `label_text` or a user wrote.

    Repeated labels count once: lists of the objects in a picture repeat them. ValueError where a name is empty, or a
    label is both there and unknown.
    """
    values: dict[str, int] = {}
    for part in text.split(SEPARATOR) if text.strip() else ():
        name = clean_label(part)
        value = NOT_KNOWN if name.startswith(UNKNOWN) else PRESENT
        name = name.removeprefix(UNKNOWN).strip()
        if not name:
            raise ValueError(f"a label without a name in {text!r}")
        if values.setdefault(name, value) != value:
            raise ValueError(f"label {name!r} is both present and unknown in {text!r}")
    return values


def check_label_name(name: str) -> None:
    """Raise ValueError if `label_text` could not write this name so that `parse_labels` reads it again."""
    if SEPARATOR in name or name.startswith(UNKNOWN) or name != name.strip() or not name:
        problem = f"is empty, has {SEPARATOR!r} in it, begins with {UNKNOWN!r} or with space"
        raise ValueError(f"label name {name!r} {problem}")
