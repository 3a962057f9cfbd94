"""Which parquet files hold which split, by their names, as Hugging Face names them

name                             split
train-00000-of-00004.parquet     the word before the number; all four files must be there
train/0000.parquet               the folder, as in the hub's branch of converted data sets
photos_test_2.parquet            the last of the usual words in the path
photos.parquet                   train, if no file names a split; else left out

A split that is not for training, validation or test, such as `unlabeled`, is left out with a note.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from vit.data.core.dataset_names import SPLIT_OF_WORD, last_split, words_of
from vit.errors import DataError

PARTIAL = "partial-"  # begins the folder of a split of which the hub has converted only the first part
_NUMBERED = re.compile(r"(?P<name>.*)-(?P<number>[0-9]{5})-of-(?P<total>[0-9]{5})(-[0-9a-f]{8,})?")
_OF_FOLDER = re.compile(r"[0-9]{4,}")


@dataclass(frozen=True)
class NamedSplits:
    """The files of each split."""

    files: dict[str, list[str]]  # {"train", "validation" and "test", where present: names of the files in order}
    notes: list[str] = field(default_factory=list)  # messages for the user, about files that are left out


def files_of_splits(
    names: Sequence[str], where: str, titles: Mapping[str, str] | None = None, needs_train: bool = True
) -> NamedSplits:
    """The split of each file.

    Args:
        names: paths of the files relative to their folder, with "/" between the parts; at least one.
        where: the folder, for errors.
        titles: {file: name of its split}, where something else than the names of the files says it.
        needs_train: whether there must be training images.

    Raises:
        DataError: numbered files are missing, a split stands under two names, or there are no training images.
    """
    _check_numbers(names, where)
    stated = {name: _stated(name) if titles is None else titles[name] for name in names}
    partial = next((name for name, said in stated.items() if said is not None and said.startswith(PARTIAL)), None)
    if partial is not None:
        raise DataError(
            f"{where} has only the first part of {(stated[partial] or '').removeprefix(PARTIAL)}: {partial}",
            "give the files of the data set itself, for example in a folder",
        )
    split_of = {name: last_split(name) if said is None else _known(said) for name, said in stated.items()}
    if not any(split_of.values()):
        return NamedSplits({"train": sorted(names)})
    files: dict[str, list[str]] = {}
    for split in ("train", "validation", "test"):
        own = sorted(name for name in names if split_of[name] == split)
        words = sorted({said for name in own if (said := stated[name]) is not None})
        if len(words) > 1:
            raise DataError(
                f"{where} has {' and '.join(words[:3])}, both for {split}", "give a folder with one of them"
            )
        if own:
            files[split] = own
    if "train" not in files and (needs_train or not files):
        raise DataError(
            f"{where} has {', '.join(files)} but no training images", "name the files of the training images train"
        )
    others = Counter(stated[name] or PurePosixPath(name).stem for name in sorted(names) if split_of[name] is None)
    notes = [
        f"left out {title} ({count} file{'s' * (count != 1)}): it is not named train, validation or test"
        for title, count in others.items()
    ]
    return NamedSplits(files, notes)


def is_split_name(name: str) -> bool:
    """Whether a folder of this name holds a split."""
    return name.casefold().removeprefix(PARTIAL) in SPLIT_OF_WORD


def siblings(name: str) -> int:
    """Number of files that a numbered name says it belongs to; 1 for other names."""
    found = _NUMBERED.fullmatch(PurePosixPath(name).stem)
    return int(found["total"]) if found else 1


def _stated(name: str) -> str | None:
    """The name of a split that a file's name or folder states; None for free names."""
    path = PurePosixPath(name)
    found = _NUMBERED.fullmatch(path.stem)
    return found["name"] if found else (path.parent.name or None) if _OF_FOLDER.fullmatch(path.stem) else None


def _known(title: str) -> str | None:
    """The split of a stated name: of its last word, so that `train_extra` is not train."""
    words = words_of(title)
    return SPLIT_OF_WORD.get(words[-1]) if words else None


def _check_numbers(names: Sequence[str], where: str) -> None:
    """Raise DataError where a file of `-00000-of-00004` is missing."""
    found: dict[tuple[str, str, int], set[int]] = {}
    for name in names:
        path = PurePosixPath(name)
        if match := _NUMBERED.fullmatch(path.stem):
            key = str(path.parent), match["name"], int(match["total"])
            found.setdefault(key, set()).add(int(match["number"]))
    for (_, title, total), numbers in found.items():
        missing = sorted(set(range(total)) - numbers)
        if missing or max(numbers) >= total:
            raise DataError(
                f"{where} has {len(numbers)} of {total} files of {title}"
                + (f"; {title}-{missing[0]:05d}-of-{total:05d} is missing" if missing else ""),
                "restore the missing files, or rename the others if this part is wanted",
            )
