"""Image files by their endings and first bytes, and folders, in a stable order, without heavy imports

What is skipped is counted by kind, such as folders that this program wrote itself.
"""

import os
import re
import shlex
from collections import Counter
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path, PurePath

from vit import layout
from vit.console import count_of
from vit.errors import ResourceError, how_to_read_again, install, is_of_machine, some_of
from vit.registry import has_extra

FolderId = tuple[int, int]  # device and inode

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO", "AVIF", "HEIF", "DICOM")
FORMATS_OF = {  # ending -> formats that such a file may hold; cameras name MPO files .jpg
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), ("JPEG", "MPO")),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF",)),
    **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), ("PPM",)),
    **{f".{name.lower()}": (name,) for name in ("PNG", "WEBP", "BMP", "GIF", "AVIF")},
    **dict.fromkeys((".heic", ".heif", ".hif"), ("HEIF",)),
    **dict.fromkeys((".dcm", ".dicom"), ("DICOM",)),
}
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two of BigTIFF
_STARTS = (  # first bytes of a file -> its format
    (b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"GIF87a", "GIF"), (b"GIF89a", "GIF"), (b"BM", "BMP"),
    *((start, "TIFF") for start in _TIFF_STARTS),
    *((f"P{number}{space}".encode(), "PPM") for number in range(1, 7) for space in "\n "),
)  # fmt: skip
CONVERTIBLE = {  # endings of photographs that this program does not decode
    ".jxl": "JPEG XL",
    ".jp2": "JPEG 2000",
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"), "raw"),
}

_ENDING = "files ending in "
_OUTPUTS = "folders that vit wrote: "
_NO_ENDING = re.compile(r"|\.[0-9]*|\..{6,}")  # what ends the names of DICOM series, and of files without an ending
_OF_SYSTEMS = frozenset((  # files and folders of macOS, Windows, Linux, Python, and of disks in a network
    "__MACOSX", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN", "System Volume Information", "lost+found", "@eaDir",
    "#recycle", "__pycache__",
))  # fmt: skip
LOOKED_AT = 10  # entries, because a folder of runs contains hardly anything else
_OWN_PICTURE = re.compile(  # of vit explain, vit inspect and vit evaluate
    r"[0-9]{4,}-.*\.png|(filters|positions|attention|cost|confusion_matrix|precision_recall|reliability|curve)\.png"
)
_DEPTH = 3  # levels between a folder of runs and a run: DATA, NETWORK and TIME


def image_files(folder: Path, skipped: Counter[str], outside: AbstractSet[FolderId] = frozenset()) -> list[str]:
    """Paths of image files below `folder`, relative to it. Links are followed, and each real folder is read once.

    Folders that this program wrote are skipped, which hold its own pictures.

    Args:
        skipped: counts of skipped entries by kind; this function adds to them.
        outside: folders that are not part of this one, for example its parents and other class folders.
    """
    paths: list[str] = []
    seen = set(outside)

    def walk(relative: str) -> None:
        here = folder / relative
        try:
            identity = folder_id(here)
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            if is_of_machine(error):
                raise ResourceError(f"cannot list {here}: {error.strerror}", how_to_read_again(error)) from error
            skipped[f"unreadable folders ({error.strerror})"] += 1
            return
        if identity in seen:
            skipped["links back to a folder already read"] += 1
            return
        seen.add(identity)
        for entry in entries:
            name = os.path.join(relative, entry.name)
            if is_hidden(entry.name):
                skipped["hidden or system files"] += 1
            elif is_folder(entry) and holds_outputs(Path(entry.path)):
                skipped[f"{_OUTPUTS}{name}/"] += 1
            elif is_folder(entry):
                walk(name)
            elif not is_image(entry):
                skipped[f"{_ENDING}{Path(entry.name).suffix or 'nothing'}"] += 1
            elif entry.is_symlink() and not os.path.exists(entry.path):
                skipped["broken links"] += 1
            elif not entry.is_file():
                skipped["FIFOs, sockets or devices"] += 1
            else:
                paths.append(name)

    walk("")
    return paths


def subfolders(folder: Path, skipped: Counter[str]) -> list[str]:
    """Names of the folders directly in `folder`, but for hidden ones and outputs; `skipped` counts what is skipped."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                skipped["hidden or system files"] += 1
            elif is_folder(entry) and holds_outputs(Path(entry.path)):
                skipped[f"{_OUTPUTS}{entry.name}/"] += 1
            elif is_folder(entry):
                names.append(entry.name)
            else:
                skipped["files beside the class folders"] += 1
    return sorted(names)


def folder_id(folder: Path) -> FolderId:
    """Device and inode of a folder: equal for two paths of one real folder."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def describe_skipped(skipped: Counter[str]) -> str:
    """Counts and kinds of skipped entries in words."""
    outputs = [kind.removeprefix(_OUTPUTS) for kind in sorted(skipped) if kind.startswith(_OUTPUTS)]
    counts = {kind: count for kind, count in skipped.items() if not kind.startswith(_OUTPUTS)}
    if outputs:
        counts[f"{_OUTPUTS.removesuffix(': ')} ({some_of(outputs, 3)})"] = len(outputs)
    one = {kind: re.sub(r"\b(file|folder|link)s\b", r"\1", kind, count=1) for kind in counts}
    return ", ".join(count_of(count, one[kind], kind) for kind, count in sorted(counts.items()))


def how_to_convert_skipped(skipped: Counter[str], folder: Path) -> str:
    """How to read or convert skipped photographs of other formats; empty if there are none."""
    endings = [kind.removeprefix(_ENDING).lower() for kind in skipped if kind.startswith(_ENDING)]
    ways = [
        f"to read the {name} files: {install(extra)}"
        for extra, kind, name in (("heif", "HEIF", "HEIC"), ("dicom", "DICOM", "DICOM"))
        if any(FORMATS_OF.get(ending) == (kind,) for ending in endings)
    ]
    if known := [ending for ending in endings if ending in CONVERTIBLE]:
        names = " and ".join(sorted({CONVERTIBLE[ending] for ending in known}))
        find = f"find {shlex.quote(str(folder))} -iname '*{known[0]}' -exec magick mogrify -format jpg {{}} +"
        ways.append(f"convert the {names} files to JPEG, for example with ImageMagick: {find}")
    return "; ".join(ways)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name belongs to a system or a program, and not to the images."""
    return name.startswith(".") or name in _OF_SYSTEMS


def is_image(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is called like an image; a file without an ending, whether it begins as one."""
    name = Path(entry.name)
    return begins_as_image(entry.path) if _NO_ENDING.fullmatch(name.suffix) else has_image_extension(name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is a folder; False for a link to itself."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def holds_outputs(folder: Path, depth: int = _DEPTH) -> bool:
    """Whether a folder is an output, or contains outputs and no images: runs, studies, evaluations, explanations, ...

    A folder that directly contains an output is taken for one of outputs, unless images of others lie beside.
    """
    if _is_described(folder) or (folder.name == layout.CELLS and _is_described(folder.parent)):
        return True
    evaluation = layout.EvaluationLayout(folder)
    is_page = (
        (evaluation.metrics_path.is_file() and evaluation.predictions_path.is_file())
        or layout.ExplanationsLayout(folder).table_path.is_file()
        or layout.InspectionLayout(folder).page_path.is_file()
    )
    if not is_page:
        try:
            with os.scandir(folder) as entries:
                shown = [entry for entry in islice(entries, LOOKED_AT) if not entry.name.startswith(".")]
                folders = [Path(entry.path) for entry in shown if entry.is_dir()]
        except OSError:  # the code that reads its images reports the error
            return False
        holds_one = any(layout.RunLayout(path).is_run or _is_described(path) for path in folders)
        if not holds_one and (depth == 1 or not folders or not all(holds_outputs(path, depth - 1) for path in folders)):
            return False
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".")]
    return not any(has_image_extension(Path(name)) and not _OWN_PICTURE.fullmatch(name) for name in names)


def is_output(folder: Path) -> bool:
    """Whether all folders inside contain runs, or the folder is a study without runs so far."""
    folders = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]
    return all(map(holds_outputs, folders)) and (bool(folders) or _is_described(folder))


def _is_described(folder: Path) -> bool:
    """Whether the folder is that of a study or a cross-validation."""
    return any(kind(folder).description_path.is_file() for kind in (layout.StudyLayout, layout.CrossvalLayout))


def is_dicom(data: bytes) -> bool:
    """Whether bytes begin as a DICOM file."""
    return data[128:132] == b"DICM"


def is_tiff(data: bytes) -> bool:
    """Whether bytes begin as a TIFF."""
    return data[:4] in _TIFF_STARTS


def has_image_extension(path: PurePath) -> bool:
    """Whether `read_image` reads files with this ending."""
    formats = FORMATS_OF.get(path.suffix.lower(), ())
    return bool(formats) and _is_read(formats[0])


def _is_read(image_format: str) -> bool:
    return image_format not in ("HEIF", "DICOM") or has_extra(image_format)


def begins_as_image(path: str) -> bool:
    """Whether the first bytes of a regular file are those of an image that `read_image` reads, whatever its name is."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            start = file.read(132)
    except OSError as error:
        if is_of_machine(error):
            raise ResourceError(f"cannot read {path}: {error.strerror}", how_to_read_again(error)) from error
        return False
    image_format = next((kind for mark, kind in _STARTS if start.startswith(mark)), "")
    if start[4:8] == b"ftyp":
        image_format = {b"avif": "AVIF", b"heic": "HEIF", b"heix": "HEIF", b"mif1": "HEIF"}.get(start[8:12], "")
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        image_format = "WEBP"
    if is_dicom(start):
        image_format = "DICOM"
    return bool(image_format) and _is_read(image_format)
