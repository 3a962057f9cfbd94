"""Who may import whom: commands -> report -> study | export -> prediction -> training -> models | data."""

import ast
from pathlib import Path

import pytest

import vit
from vit.__main__ import COMMANDS

PACKAGE = Path(vit.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "models": {"errors"},
    "data": {"errors"},
    "training": {"models", "data", "files", "errors"},
    "prediction": {"training", "models", "data", "errors"},
