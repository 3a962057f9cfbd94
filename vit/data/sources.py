"""Where images come from: DATA on the command line -> a Source.

digits                          scikit-learn's 1,797 real 8x8 scans; comes with the installation
mnist, cifar10, ...             a torchvision data set, read from --data.root
FOLDER/train|val|test/CLASS/*   class folders per split
FOLDER/CLASS/*                  class folders, to be split; folders of runs beside them are passed over
FILE.csv                        columns path,label[,split], or as others call them; paths relative to the file
"""

import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import numpy as np

from vit.data.formats import has_image_extension, how_to_convert
from vit.data.names import DIGITS, KNOWN, LAYOUT, check_data
from vit.data.outputs import holds_runs, is_output
from vit.data.samples import Samples, Source
from vit.data.tables import read_table
from vit.errors import DataError, nearest

SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val"),
    "test": ("test", "testing"),
}
ENDING = "files ending in "
ARCHIVES = frozenset((".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"))


def open_source(data: str, root: str | None = None, download: bool = False, allow_empty: bool = False) -> Source:
    """Read what DATA lists, without opening an image.

    Args:
        data: a folder, a CSV file, "digits" or the name of a torchvision data set. A folder of that name goes first,
            unless there is nothing in it but what this program wrote: `--out .` makes such folders.
        root: where torchvision keeps its data sets.
        download: whether torchvision may fetch what is not there.
        allow_empty: whether a class folder may be empty.

    Raises:
        UsageError: DATA is neither a file nor a folder nor a known name.
        DataError: it is there, but cannot be used to train a classifier.
    """
    check_data(data)
    path = Path(data).expanduser()
    if path.is_dir() and not (data in KNOWN and is_output(path)):
        source = _folder(path, allow_empty)
    elif path.is_file() and path.suffix.lower() in ARCHIVES:
        raise DataError(f"{data} is an archive", "unpack it, and give the folder")
    elif path.is_file():
        source = _table(path)
    elif data == DIGITS:
        source = _digits()
    else:
        from vit.data import torchvision_sets  # needs torch, which a folder that is refused does not

        source = torchvision_sets.read(data, root, download)
    _check(source, data)
    return source


def _check(source: Source, data: str) -> None:
    train = source.splits["train"]
    if len(train) == 0:
        raise DataError(f"{data} has no training images", LAYOUT)
    if len(source.class_names) < 2:
        raise DataError(
            f"{data} has one class, {source.class_names[0]!r}", "a classifier needs two or more class folders"
        )
    folded: dict[str, str] = {}
    for name in source.class_names:
        twin = folded.setdefault(" ".join(unicodedata.normalize("NFC", name).casefold().split()), name)
        if twin != name:
            source.notes.append(f"classes {twin!r} and {name!r} differ only in case, spaces or Unicode form")
    for split, samples in source.splits.items():
        present = set(np.unique(samples.labels).tolist())
        missing = [name for number, name in enumerate(source.class_names) if number not in present]
        if missing:
            source.notes.append(
                f"{split} has no image of {len(missing)} classes: "
                f"{', '.join(missing[:5])}{', ...' * (len(missing) > 5)}"
            )


def _digits() -> Source:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)  # the scans have 17 levels of gray
    samples = Samples([f"digits/{i:04d}" for i in range(len(images))], bunch.target.astype(np.int64), arrays=images)
    return Source("digits", tuple(str(digit) for digit in range(10)), {"train": samples})


def _folder(root: Path, allow_empty: bool) -> Source:
    names = _folders(root, Counter())
    found = {
        split: [name for name in names if name.casefold() in synonyms] for split, synonyms in SPLIT_FOLDERS.items()
    }
    for split, folders in found.items():
        if len(folders) > 1:
            raise DataError(f"{root} has {' and '.join(folders)}, both for {split}", "keep one of them")
    others = [name for name in names if not any(name in folders for folders in found.values())]
    if any(found.values()):
        if not found["train"]:
            given = next(folders[0] for folders in found.values() if folders)
            raise DataError(f"{root} has {given}/ but no train/", "name the folder of training images train/")
        chosen = {split: given[0] for split, given in found.items() if given}
        notes = [f"{name}/ beside train/ was passed over" for name in others]
        return _class_folders(root, chosen, allow_empty, notes)
    for name in names:
        if _has(root / name, "train") and (_has(root / name, "validation") or _has(root / name, "test")):
            raise DataError(
                f"{root / name} is no class folder: it has folders of splits", f"give {root / name} as DATA"
            )
    if len(names) == 1 and _folders(root / names[0], Counter()):
        raise DataError(
            f"{root} has one folder, {names[0]}/, with folders in it",
            f"give {root / names[0]}, if these are the classes",
        )
    if is_output(root):
        raise DataError(f"{root} holds runs of this program, and no images", "give the folder of images")
    if not names:
        loose = sum(has_image_extension(Path(entry.name)) for entry in os.scandir(root))
        raise DataError(f"{root} has no class folders ({loose} images lie directly in it)", LAYOUT)
    return _class_folders(root, {"train": ""}, allow_empty, [])


def _has(folder: Path, split: str) -> bool:
    return any((folder / name).is_dir() for name in SPLIT_FOLDERS[split])


def _class_folders(root: Path, folders: dict[str, str], allow_empty: bool, notes: list[str]) -> Source:
    passed_over: Counter[str] = Counter()
    listed: dict[str, list[tuple[str, str]]] = {}  # split -> (path, class name)
    class_names: dict[str, list[str]] = {}
    for split, folder in folders.items():
        listed[split] = []
        class_names[split] = _folders(root / folder, passed_over)
        beside = [root / folder / name for name in class_names[split]]
        others = {_identity(here) for here in (root / folder, *(root / folder).resolve().parents, *beside)}
        for name in class_names[split]:
            here = root / folder / name
            passed_over_here: Counter[str] = Counter()
            files = sorted(image_files(here, passed_over_here, elsewhere=others - {_identity(here)}))
            if not files and split == "train" and not allow_empty:
                beside_images = f" ({_kinds(passed_over_here)})" if passed_over_here else ""
                fix = _how_to_convert(passed_over_here, here) or "remove it, or give --data.allow_empty true"
                raise DataError(f"class folder {here} has no images{beside_images}", fix)
            passed_over += passed_over_here
            listed[split] += [(os.path.join(folder, name, file), name) for file in files]
    if passed_over:
        notes.append(f"passed over: {_kinds(passed_over)}")
        notes += filter(None, [_how_to_convert(passed_over, root)])
    if class_names["train"] and not listed["train"] and passed_over:
        raise DataError(
            f"{root} has no training images ({_kinds(passed_over)})", _how_to_convert(passed_over, root) or LAYOUT
        )
    names = tuple(class_names["train"])
    splits = {split: _samples(root, rows, names, f"{root / folders[split]}") for split, rows in listed.items()}
    return Source(root.resolve().name, names, splits, notes)


def _how_to_convert(passed_over: Counter[str], folder: Path) -> str:
    """What to do with photographs of other formats among what was passed over; empty where there is none."""
    return how_to_convert((kind.removeprefix(ENDING) for kind in passed_over if kind.startswith(ENDING)), folder)


def _kinds(passed_over: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(passed_over.items()))


def _folders(root: Path, passed_over: Counter[str]) -> list[str]:
    """Names of the folders directly in `root` but hidden ones and those of runs; counts the rest in `passed_over`."""
    names: list[str] = []
    with os.scandir(root) as entries:
        for entry in entries:
            if _is_hidden(entry.name):
                passed_over["hidden or system files"] += 1
            elif _is_folder(entry) and holds_runs(Path(entry.path)):
                passed_over["folders of runs"] += 1
            elif _is_folder(entry):
                names.append(entry.name)
            else:
                passed_over["files beside the class folders"] += 1
    return sorted(names)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in ("Thumbs.db", "desktop.ini", "__MACOSX")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def image_files(
    folder: Path, passed_over: Counter[str], elsewhere: AbstractSet[tuple[int, int]] = frozenset()
) -> list[str]:
    """Names of image files below `folder`, relative to it; links are followed, each real folder once.

    Counts what it passes over by kind in `passed_over`: hidden entries, other extensions, what is not a regular file.

    Args:
        elsewhere: (device, inode) of folders that do not belong to this one: those above it, and the classes beside it.
    """
    found: list[str] = []
    seen = set(elsewhere)

    def walk(relative: str) -> None:
        here = folder / relative
        try:
            identity = _identity(here)
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            passed_over[f"unreadable folders ({error.strerror})"] += 1
            return
        if identity in seen:
            passed_over["links back to a folder already read"] += 1
            return
        seen.add(identity)
        for entry in entries:
            name = os.path.join(relative, entry.name)
            if _is_hidden(entry.name):
                passed_over["hidden or system files"] += 1
            elif _is_folder(entry):
                walk(name)
            elif not has_image_extension(Path(entry.name)):
                passed_over[f"{ENDING}{Path(entry.name).suffix or 'nothing'}"] += 1
            elif entry.is_symlink() and not os.path.exists(entry.path):
                passed_over["broken links"] += 1
            elif not entry.is_file():
                passed_over["FIFOs, sockets or devices"] += 1
            else:
                found.append(name)

    walk("")
    return found


def _samples(root: Path, rows: Sequence[tuple[str, str]], class_names: tuple[str, ...], where: str) -> Samples:
    """Number the class names of `rows` by the class map of the training images."""
    numbers = {name: number for number, name in enumerate(class_names)}
    unknown = sorted({name for _, name in rows} - numbers.keys())
    if unknown:
        raise DataError(
            f"{where} has classes that the training images lack: {', '.join(map(repr, unknown[:10]))} "
            f"(known: {', '.join(map(repr, class_names[:10]))}{', ...' if len(class_names) > 10 else ''})",
            "rename or remove them, or add training images",
        )
    labels = np.fromiter((numbers[name] for _, name in rows), dtype=np.int64, count=len(rows))
    return Samples([path for path, _ in rows], labels, root)


def _table(path: Path) -> Source:
    table = read_table(path, ("path", "label"), ("split",))
    synonyms = {name: split for split, names in SPLIT_FOLDERS.items() for name in names} | {"": "train"}
    listed: dict[str, list[tuple[str, str]]] = {"train": []}
    seen: dict[str, int] = {}
    for line, row in table.rows:
        file_name, label, split = row["path"], row["label"], row.get("split", "").casefold()
        if split not in synonyms:
            raise DataError(f"{path}, line {line}: split is {row['split']!r}", nearest(split, synonyms.keys() - {""}))
        if not label or not file_name:
            raise DataError(f"{path}, line {line}: an empty path or label", "fill it in or remove the line")
        if label not in file_name and any("\udc80" <= letter <= "\udcff" for letter in label):
            raise DataError(f"{path}, line {line}: label {label!r} is not UTF-8", "save the file as UTF-8 CSV")
        if file_name in seen:
            raise DataError(
                f"{path}, line {line}: {file_name!r} stands in line {seen[file_name]} already", "keep one of the two"
            )
        seen[file_name] = line
        if not (path.parent / file_name).is_file():
            raise DataError(
                f"{path}, line {line}: there is no file {path.parent / file_name}", "paths are relative to the CSV"
            )
        listed.setdefault(synonyms[split], []).append((file_name, label))
    class_names = tuple(sorted({name for _, name in listed["train"]}))
    if not class_names:
        raise DataError(f"{path} has no training images", "leave split empty or write train")
    splits = {split: _samples(path.parent, part, class_names, str(path)) for split, part in listed.items()}
    return Source(path.stem, class_names, splits, [table.note] if table.note else [])
