"""Folders that this program wrote itself, where images are looked for"""

import os
import re
from itertools import islice
from pathlib import Path

from vit.data.core.formats import has_image_extension
from vit.layout import (
    CELLS,
    CrossvalLayout,
    EvaluationLayout,
    ExplanationsLayout,
    InspectionLayout,
    RunLayout,
    StudyLayout,
)

LOOKED_AT = 10  # entries, because a folder of runs contains hardly anything else
_OWN_PICTURE = re.compile(  # of vit explain, vit inspect and vit evaluate
    r"[0-9]{4,}-.*\.png|(filters|positions|attention|cost|confusion_matrix|precision_recall|reliability|curve)\.png"
)
_DEPTH = 3  # levels between a folder of runs and a run: DATA, NETWORK and TIME


def holds_outputs(folder: Path, depth: int = _DEPTH) -> bool:
    """Whether a folder is an output, or contains outputs and no images: runs, studies, evaluations, explanations, ...

    A folder that directly contains an output is taken for one of outputs, unless images of others lie beside.
    """
    if _is_described(folder) or (folder.name == CELLS and _is_described(folder.parent)):
        return True
    if not _is_page(folder):
        try:
            with os.scandir(folder) as entries:
                shown = [entry for entry in islice(entries, LOOKED_AT) if not entry.name.startswith(".")]
                folders = [Path(entry.path) for entry in shown if entry.is_dir()]
        except OSError:  # the code that reads its images reports the error
            return False
        holds_one = any(_is_run(path) or _is_described(path) for path in folders)
        if not holds_one and (depth == 1 or not folders or not all(holds_outputs(path, depth - 1) for path in folders)):
            return False
    return not _has_images_of_others(folder)


def _has_images_of_others(folder: Path) -> bool:
    """Whether images that no command of this program wrote lie directly in a folder."""
    with os.scandir(folder) as entries:
        names = (entry.name for entry in entries if not entry.name.startswith("."))
        return any(has_image_extension(Path(name)) and not _OWN_PICTURE.fullmatch(name) for name in names)


def is_output(folder: Path) -> bool:
    """Whether all folders inside contain runs, or the folder is a study without runs so far."""
    with os.scandir(folder) as entries:
        shown = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    folders = [path for path in shown if path.is_dir()]
    return all(map(holds_outputs, folders)) and (bool(folders) or _is_described(folder))


def _is_described(folder: Path) -> bool:
    """Whether the folder is that of a study or a cross-validation."""
    return any(layout(folder).description_path.is_file() for layout in (StudyLayout, CrossvalLayout))


def _is_run(folder: Path) -> bool:
    run = RunLayout(folder)
    return run.config_path.is_file() and run.splits_path.is_file()


def _is_page(folder: Path) -> bool:
    """Whether the folder is that of an evaluation, of explanations or of an inspection."""
    evaluation, explanations = EvaluationLayout(folder), ExplanationsLayout(folder)
    return (
        (evaluation.metrics_path.is_file() and evaluation.predictions_path.is_file())
        or explanations.table_path.is_file()
        or InspectionLayout(folder).page_path.is_file()
    )
