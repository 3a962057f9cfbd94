"""The scripts of benchmarks/ and of evidence/make/ import each other by name, as Python runs them."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "benchmarks", ROOT / "evidence" / "make")


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """Both folders are on the path of a test. Their modules, and the number of threads, are gone afterwards."""
    for folder in FOLDERS:
        monkeypatch.syspath_prepend(str(folder))
    before, num_threads = set(sys.modules), torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent in FOLDERS:
            del sys.modules[name]
