"""Folders that this program has written itself: with `--out .` they lie where images are looked for."""

import os
from itertools import islice
from pathlib import Path

from vit.layout import RunLayout, StudyLayout

LOOKED_AT = 10  # entries: a folder of runs contains hardly anything else


def holds_runs(folder: Path) -> bool:
    """Whether its folders are runs: those of one network, as `vit train` puts them, or a study's cells."""
    study = StudyLayout(folder.parent)
    if folder.name == study.cells_dir.name and study.description_path.is_file():
        return True
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() and _is_run(Path(entry.path)) for entry in islice(entries, LOOKED_AT))
    except OSError:  # whoever reads its images says so
        return False


def is_output(folder: Path) -> bool:
    """Whether it holds runs, or a study that has none yet, and no other folder."""
    with os.scandir(folder) as entries:
        shown = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    folders = [path for path in shown if path.is_dir()]
    return all(map(holds_runs, folders)) and (bool(folders) or StudyLayout(folder).description_path.is_file())


def _is_run(folder: Path) -> bool:
    run = RunLayout(folder)
    return run.config_path.is_file() and run.splits_path.is_file()
