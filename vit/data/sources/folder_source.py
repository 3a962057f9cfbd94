"""Class folders -> a source: FOLDER/CLASS/image or FOLDER/SPLIT/CLASS/image."""

import json
import os
import re
import shlex
from collections import Counter
from pathlib import Path

from vit.console import count_of
from vit.data.core.dataset_names import LAYOUT, PREDICTED_NAME, SPLIT_OF_NAME, SPLIT_SYNONYMS, split_in
from vit.data.core.image_files import (
    describe_skipped,
    folder_id,
    has_image_extension,
    how_to_convert_skipped,
    image_files,
    is_folder,
    is_hidden,
    is_image,
    is_output,
    subfolders,
)
from vit.data.core.samples import Source, label_files
from vit.errors import DataError, EmptyClassError, some_of
from vit.tasks.label_text import clean_label

_ABOVE = "their images count as images of the folders above"
_PARTS = frozenset((  # of a data set for segmentation or detection
    "images", "image", "imgs", "img", "jpegimages", "annotations", "labels", "masks", "mask", "segmentations",
    "trimaps", "groundtruth", "ground_truth", "gt",
))  # fmt: skip
_NUMBERED = re.compile(r"(.*[^a-z])?(part|fold|batch|shard|images?|imgs?|photos|pictures)[ _-]*[0-9]+", re.IGNORECASE)


def read_folder_source(root: Path, allow_empty: bool, to_measure: bool = False) -> Source:
    """List the images of a folder of class folders, or of a folder of splits with class folders; see `open_source`.

    EmptyClassError where a class folder has no images; DataError where the folder has another layout, can be read in
    two ways, or has no training images.
    """
    names = subfolders(root, Counter())
    matching = {split: [name for name in names if name.casefold() in words] for split, words in SPLIT_SYNONYMS.items()}
    by_word = _splits_by_word(root, names, matching)
    for split, folders in matching.items():
        if len(folders) > 1:
            raise DataError(f"{root} has {' and '.join(folders)}, both for {split}", "keep one of them")
    if not any(matching.values()):
        _check_layout(root, names)
        return _read_splits(root, {"train": ""}, allow_empty, _check_nested(root, names), to_measure)
    if not matching["train"] and not to_measure:
        folder = next(folders[0] for folders in matching.values() if folders)
        fix = f"name the folder of training images train/; if {folder}/ is a class, rename it"
        raise DataError(f"{root} has {folder}/ but no train/", fix)
    name_of = {split: folders[0] for split, folders in matching.items() if folders}
    others = [name for name in names if name not in name_of.values()]
    split, first = next(iter(name_of.items()))
    if not subfolders(root / first, Counter()):
        kind = {"train": "training"}.get(split, split)
        beside = f"; beside it: {some_of(f'{name}/' for name in others)}" * bool(others)
        fix = table_in(root / first) or table_in(root) or f"if {first}/ is a class, rename it, or give a CSV"
        raise DataError(f"{root / first} is taken for the {kind} split and has no class folders{beside}", fix)
    below = {split: str(_inner(root / folder)[0].relative_to(root)) for split, folder in name_of.items()}
    notes = [f"{folder}/ is read as {split}" for split, folder in below.items() if folder != name_of[split] or by_word]
    notes += [f"skipped {name}/, which lies beside {'train' if split == 'train' else first}/" for name in others]
    notes += _check_nested(root / below[split], subfolders(root / below[split], Counter()))
    return _read_splits(root, below, allow_empty, notes, to_measure)


def _splits_by_word(root: Path, names: list[str], matching: dict[str, list[str]]) -> bool:
    """Add folders to the splits found so far that have a split as a word in their names, such as seg_train or test_set.

    They count where folders lie in them, and no images. Without a folder of an exact name, they must be training images
    and others, and no other folder may be alike.
    """
    split_of = {name: split_in(name) for name in names if not any(name in folders for folders in matching.values())}
    if not any(split_of.values()):
        return False
    nested = {name: split for name, split in split_of.items() if _inner(root / name)[1]}
    splits = {split for split in nested.values() if split}
    if not any(matching.values()) and (None in nested.values() or "train" not in splits or len(splits) < 2):
        return False
    missing = [split for split, folders in matching.items() if not folders]
    for name, split in nested.items():
        if split in missing:
            matching[split].append(name)
    return any(split in missing for split in splits)


def _inner(folder: Path, depth: int = 3) -> tuple[Path, list[str]]:
    """A folder, and the folders in it; none where images lie beside them.

    A folder that holds one folder alone, which has folders or its name, stands for that one, as Kaggle's
    seg_train/seg_train/CLASS and seg_pred/seg_pred.
    """
    names: list[str] = []
    with os.scandir(folder) as entries:  # a class folder may hold many images: the first one ends the search
        for entry in entries:
            if is_folder(entry) and not is_hidden(entry.name):
                names.append(entry.name)
            elif not is_hidden(entry.name) and is_image(entry):
                return folder, []
    if len(names) == 1 and depth:
        below, inside = _inner(folder / names[0], depth - 1)
        if inside or names[0] == folder.name:
            return below, inside
    return folder, sorted(names)


def _classes_in(folder: Path) -> list[str]:
    """The folders in a folder, and none where the first one of them holds no image."""
    below, names = _inner(folder)
    return names if names and image_files(below / names[0], Counter()) else []


def _check_nested(root: Path, names: list[str]) -> list[str]:
    """Notes on class folders that hold the same folders, or of which one holds all that may be the classes.

    DataError where they may be splits or variants of a data set: all class folders hold the same folders, and none has
    images of its own.
    """
    nested = {name: inside for name in names if (inside := _classes_in(root / name))}
    (alone, inside), *others = [*nested.items()] or [("", [])]
    if len(inside) > 1 and len(names) > 1 and not others:
        below = " and ".join(f"{name}/" for name in inside[:2])
        fix = f"if these are the classes, give {root / alone} as DATA"
        return [f"WARNING: only {alone}/ has all its images in folders, such as {below}; {_ABOVE}; {fix}"]
    counts = Counter(inside for folders in nested.values() for inside in folders)
    common = [name for name, count in sorted(counts.items()) if 2 * count > len(nested)]
    if len(nested) < 2 or len(common) < 2:
        return []
    holding = [name for name, inside in nested.items() if set(common) <= set(inside)] or list(nested)
    few, shared = (" and ".join(f"{name}/" for name in group[:2]) for group in (holding, common))
    if len(nested) < len(names):
        return [f"{few} hold the same folders, such as {shared}; {_ABOVE}"]
    if all(map(split_in, common)):
        fix = f"write DATA/{common[0]}/{holding[0]}/IMAGE, or a CSV with the columns path,label,split"
        raise DataError(f"each folder of {root} holds {shared}: splits in classes are not read", fix)
    raise DataError(
        f"all folders of {root}, such as {few}, hold the same folders, such as {shared}, and no images of their own",
        f"if {shared} are classes, give one folder, such as {_inner(root / holding[0])[0]}, or name the folders train, "
        f"validation and test; if {few} are the classes, give a CSV with the columns path,label",
    )


def _check_layout(root: Path, names: list[str]) -> None:
    """Raise DataError if the subfolders of a folder without splits cannot be classes."""
    for name in names:
        below, inside = _inner(root / name)
        exact = {SPLIT_OF_NAME[one.casefold()]: one for one in inside if one.casefold() in SPLIT_OF_NAME}
        if "train" in exact and len(exact) > 1 and _inner(below / exact["train"])[1]:
            raise DataError(f"{below} is not a class folder: it has folders of splits", f"give {below} as DATA")
    splits, tables = set(map(split_in, names)), _tables_in(root)
    are = {
        "parts of a data set and no classes": {name.casefold() for name in names} <= _PARTS,
        "called as splits and have no class folders": len(splits) > 1 and None not in splits,
        "called as parts of one data set, beside a table": bool(tables) and all(map(_NUMBERED.fullmatch, names)),
    }
    if len(names) > 1 and (kind := next((words for words, holds in are.items() if holds), None)):
        parts = " and ".join(f"{name}/" for name in names[:2])
        others = "give the folder of the classes, or a CSV with the columns path,label; rename folders of classes"
        raise DataError(f"{root} holds {parts}, which are {kind}", table_in(root) or others)
    if len(names) == 1 and subfolders(root / names[0], Counter()):
        fix = f"give {root / names[0]}, if these are the classes"
        raise DataError(f"{root} has one folder, {names[0]}/, with folders in it", fix)
    if is_output(root):
        raise DataError(f"{root} holds runs of this program and no images", "give the folder of images")
    if not names:
        loose = sum(has_image_extension(Path(entry.name)) for entry in os.scandir(root))
        raise DataError(f"{root} has no class folders ({loose} images lie directly in it)", table_in(root) or LAYOUT)


def _tables_in(folder: Path) -> list[str]:
    """Names of the tables that lie directly in a folder, those of training images first."""
    names = [path.name for path in folder.glob("*.[ct]sv") if not is_hidden(path.name)]
    return sorted(names, key=lambda name: (split_in(name) != "train", name))


def table_in(folder: Path) -> str:
    """How to give the table that lies among images, or shards; empty where there is none."""
    tables, of_hub = _tables_in(folder), folder / "metadata.jsonl"
    if not tables and of_hub.is_file():
        files = [str(of_hub), str(of_hub.with_suffix(".csv"))]
        code = "from pyarrow import csv, json; csv.write_csv(json.read_json({}), {})".format(*map(json.dumps, files))
        return f"write {files[0]} as a CSV, and give {files[1]}: python -c {shlex.quote(code)}"
    if not tables and any(folder.glob("*.tar")):
        return f"run 'vit data index {folder}' first, if its .tar files are shards of WebDataset"
    return f"give {folder / tables[0]} as DATA, if it lists the images and their classes" if tables else ""


def _read_splits(root: Path, folders: dict[str, str], allow_empty: bool, notes: list[str], to_measure: bool) -> Source:
    """List the class folders of each split: {split: name of its folder in `root`}, which is "" for `root` itself."""
    skipped: Counter[str] = Counter()
    rows: dict[str, list[tuple[str, str]]] = {}  # split -> path and class name of each file
    class_names: dict[str, list[str]] = {}
    deeper: list[str] = []  # images in folders inside class folders
    for split, folder in folders.items():
        rows[split] = []
        folder_names = subfolders(root / folder, skipped)
        class_names[split] = list(dict.fromkeys(map(clean_label, folder_names)))
        if split != "train" and {name.casefold() for name in folder_names} <= _PARTS - {*class_names.get("train", ())}:
            listed = next((f", as {one} lists them" for one in sorted((root / folder).glob("*.txt"))), "")
            fix = f"move its images into folders of classes{listed}, or the folder elsewhere if nothing lists them"
            raise DataError(f"{root / folder} has {some_of(folder_names)} in place of class folders", fix)
        first_of = {clean_label(name): name for name in reversed(folder_names)}
        siblings = [root / folder / name for name in folder_names]
        real = {folder_id(sibling): sibling for sibling in reversed(siblings)}
        if linked := next((one for one in siblings if real[folder_id(one)] != one), None):
            both = f"{real[folder_id(linked)]} and {linked} are one folder"
            raise DataError(f"{both}, so that its images would have two classes", "leave the link out")
        outside = {*real, *map(folder_id, (root / folder, *(root / folder).resolve().parents))}
        for name in folder_names:
            label = clean_label(name)
            if first_of[label] != name:
                pair = f"{first_of[label]!r} and {name!r} in {root / folder}"
                notes.append(f"{pair} are one class: they differ only in spaces around the name or in Unicode form")
            class_folder = root / folder / name
            skipped_here: Counter[str] = Counter()
            files = sorted(image_files(class_folder, skipped_here, outside - {folder_id(class_folder)}))
            if not files and split == "train" and not allow_empty:
                instead = f" ({describe_skipped(skipped_here)})" if skipped_here else ""
                to_convert = how_to_convert_skipped(skipped_here, class_folder)
                others = "convert its files to JPEG or PNG, or move the folder elsewhere"
                deep = [sibling for sibling in siblings if _classes_in(sibling)]
                fix = to_convert or (others if skipped_here else "remove it")  # a folder without any file
                fix += f"; or give {deep[0]} as DATA, if it holds the classes" if len(deep) == 1 else ""
                fix += "" if to_convert else EmptyClassError.OR_KEEP_IT
                raise EmptyClassError(f"class folder {class_folder} has no images{instead}", fix)
            skipped += skipped_here
            rows[split] += [(os.path.join(folder, name, file), label) for file in files]
            deeper += [os.path.join(folder, name, file) for file in files if os.sep in file]
    if deeper and not any(_ABOVE in note for note in notes):
        deep_folder = min(deeper, key=lambda path: path.count(os.sep)).rpartition(os.sep)[0]
        note = f"folders inside class folders, such as {deep_folder}/, hold {count_of(len(deeper), 'image')}; {_ABOVE}"
        if len(deeper) == sum(map(len, rows.values())):
            pattern = f"^{'[^/]+/' * deep_folder.count(os.sep)}([^/]+)/"
            note += f"; if each is of one patient or one video, --data.groups '{pattern}' keeps it in one split"
        notes.append(note)
    places = dict.fromkeys(("", *folders.values()))
    if tables := [os.path.join(place, name) for place in places for name in _tables_in(root / place)]:
        notes.append(f"classes are the names of the folders; tables beside them are not read: {some_of(tables, 3)}")
    if (root / PREDICTED_NAME).exists():
        notes.append(f"WARNING: the labels are predictions, and say nothing of their model: {root / PREDICTED_NAME}")
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
