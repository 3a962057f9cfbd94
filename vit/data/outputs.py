"""Folders that this program wrote itself, where images are looked for"""

import os
from itertools import islice
from pathlib import Path

from vit.layout import CELLS, CrossvalLayout, RunLayout, StudyLayout

LOOKED_AT = 10  # entries, because a folder of runs contains hardly anything else


def holds_runs(folder: Path) -> bool:
    """Whether the folder contains runs: of one network from `vit train`, or cells of a study or cross-validation."""
    if folder.name == CELLS and _is_described(folder.parent):
        return True
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() and _is_run(Path(entry.path)) for entry in islice(entries, LOOKED_AT))
    except OSError:  # the code that reads its images reports the error
        return False


def is_output(folder: Path) -> bool:
    """Whether all folders inside contain runs, or the folder is a study without runs so far."""
    with os.scandir(folder) as entries:
        shown = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    folders = [path for path in shown if path.is_dir()]
    return all(map(holds_runs, folders)) and (bool(folders) or _is_described(folder))


def _is_described(folder: Path) -> bool:
    """Whether the folder is that of a study or a cross-validation."""
    return any(layout(folder).description_path.is_file() for layout in (StudyLayout, CrossvalLayout))


def _is_run(folder: Path) -> bool:
    run = RunLayout(folder)
    return run.config_path.is_file() and run.splits_path.is_file()
