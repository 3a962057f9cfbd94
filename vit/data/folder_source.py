"""Class folders -> a source: FOLDER/CLASS/image or FOLDER/SPLIT/CLASS/image."""

import os
from collections import Counter
from pathlib import Path

from vit.data.dataset_names import LAYOUT, SPLIT_SYNONYMS
from vit.data.formats import has_image_extension
from vit.data.image_files import describe_skipped, folder_id, how_to_convert_skipped, image_files, subfolders
from vit.data.outputs import is_output
from vit.data.samples import Source, label_files
from vit.errors import DataError, EmptyClassError


def read_folder_source(root: Path, allow_empty: bool, to_measure: bool = False) -> Source:
    """List the images of a folder of class folders, or of a folder of splits with class folders.

    Args:
        root: the folder.
        allow_empty: accept class folders without images.
        to_measure: as for `open_source`.

    Raises:
        EmptyClassError: a class folder has no images.
        DataError: the folder has another layout, or no training images.
    """
    names = subfolders(root, Counter())
    found = {split: [name for name in names if name.casefold() in words] for split, words in SPLIT_SYNONYMS.items()}
    for split, folders in found.items():
        if len(folders) > 1:
            raise DataError(f"{root} has {' and '.join(folders)}, both for {split}", "keep one of them")
    if not any(found.values()):
        _check_layout(root, names)
        return _read_splits(root, {"train": ""}, allow_empty, [], to_measure)
    if not found["train"] and not to_measure:
        given = next(folders[0] for folders in found.values() if folders)
        raise DataError(f"{root} has {given}/ but no train/", "name the folder of training images train/")
    chosen = {split: folders[0] for split, folders in found.items() if folders}
    others = [name for name in names if name not in chosen.values()]
    split, first = next(iter(chosen.items()))
    if (others or to_measure) and not subfolders(root / first, Counter()):
        kind = {"train": "training"}.get(split, split)
        raise DataError(
            f"{root / first} is taken for the {kind} split and has no class folders"
            + f"; beside it: {', '.join(f'{name}/' for name in others[:5])}" * bool(others),
            f"if {first}/ is a class, rename it, or give a CSV",
        )
    notes = [f"skipped {name}/, which lies beside {'train' if split == 'train' else first}/" for name in others]
    return _read_splits(root, chosen, allow_empty, notes, to_measure)


def _check_layout(root: Path, names: list[str]) -> None:
    """Raise DataError if the subfolders of a folder without splits cannot be classes."""
    for name in names:
        if _has_split(root / name, "train") and (
            _has_split(root / name, "validation") or _has_split(root / name, "test")
        ):
            raise DataError(
                f"{root / name} is not a class folder: it has folders of splits", f"give {root / name} as DATA"
            )
    if len(names) == 1 and subfolders(root / names[0], Counter()):
        raise DataError(
            f"{root} has one folder, {names[0]}/, with folders in it",
            f"give {root / names[0]}, if these are the classes",
        )
    if is_output(root):
        raise DataError(f"{root} holds runs of this program and no images", "give the folder of images")
    if not names:
        loose = sum(has_image_extension(Path(entry.name)) for entry in os.scandir(root))
        raise DataError(f"{root} has no class folders ({loose} images lie directly in it)", LAYOUT)


def _has_split(folder: Path, split: str) -> bool:
    with os.scandir(folder) as entries:  # a class folder may hold many images: only names are looked at
        return any(entry.name.casefold() in SPLIT_SYNONYMS[split] and entry.is_dir() for entry in entries)


def _read_splits(root: Path, folders: dict[str, str], allow_empty: bool, notes: list[str], to_measure: bool) -> Source:
    """List the class folders of each split.

    Args:
        root: the folder that was given.
        folders: {split: name of its folder in `root`}; an empty name for `root` itself.
        allow_empty: accept class folders without images.
        notes: messages for the user.
    """
    skipped: Counter[str] = Counter()
    rows: dict[str, list[tuple[str, str]]] = {}  # split -> path and class name of each file
    class_names: dict[str, list[str]] = {}
    for split, folder in folders.items():
        rows[split] = []
        class_names[split] = subfolders(root / folder, skipped)
        siblings = [root / folder / name for name in class_names[split]]
        outside = {folder_id(other) for other in (root / folder, *(root / folder).resolve().parents, *siblings)}
        for name in class_names[split]:
            class_folder = root / folder / name
            skipped_here: Counter[str] = Counter()
            files = sorted(image_files(class_folder, skipped_here, outside - {folder_id(class_folder)}, True))
            if not files and split == "train" and not allow_empty:
                instead = f" ({describe_skipped(skipped_here)})" if skipped_here else ""
                fix = how_to_convert_skipped(skipped_here, class_folder)
                raise EmptyClassError(
                    f"class folder {class_folder} has no images{instead}", fix or EmptyClassError.REMOVE_IT
                )
            skipped += skipped_here
            rows[split] += [(os.path.join(folder, name, file), name) for file in files]
    if skipped:
        notes.append(f"skipped: {describe_skipped(skipped)}")
        notes += filter(None, [how_to_convert_skipped(skipped, root)])
    defining = list(folders) if to_measure else ["train"]  # splits whose class folders are the classes
    names = tuple(dict.fromkeys(name for split in defining for name in class_names[split]))
    if names and not any(rows[split] for split in defining) and skipped:
        fix = how_to_convert_skipped(skipped, root) or LAYOUT
        kind = "images" if to_measure else "training images"
        raise DataError(f"{root} has no {kind} ({describe_skipped(skipped)})", fix)
    splits = {split: label_files(root, files, names, f"{root / folders[split]}") for split, files in rows.items()}
    return Source(root.resolve().name, names, splits, notes)
