"""Folders that this program has written itself: with `--out .` they lie where images are looked for."""

import os
from itertools import islice
from pathlib import Path

STUDY, CELLS = "study.json", "cells"  # of vit/study/folder.py
RUN_FILES = ("config.yaml", "splits.csv")  # of vit/checkpoints/run.py
LOOKED_AT = 10  # entries: a folder of runs holds hardly anything else


def holds_runs(folder: Path) -> bool:
    """Whether its folders are runs: those of one network, as `vit train` puts them, or a study's cells."""
    if folder.name == CELLS and (folder.parent / STUDY).is_file():
        return True
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.is_dir() and all(os.path.isfile(os.path.join(entry.path, name)) for name in RUN_FILES)
                for entry in islice(entries, LOOKED_AT)
            )
    except OSError:  # whoever reads its images says so
        return False


def is_output(folder: Path) -> bool:
    """Whether it holds runs, or a study that has none yet, and no other folder."""
    with os.scandir(folder) as entries:
        shown = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    folders = [path for path in shown if path.is_dir()]
    return all(map(holds_runs, folders)) and (bool(folders) or (folder / STUDY).is_file())
