"""The scripts of benchmarks/ import each other by name, as Python runs them."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """benchmarks/ is on the path of a test. Its modules, and its number of threads, are gone afterwards."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    before, num_threads = set(sys.modules), torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent == ROOT / "benchmarks":
            del sys.modules[name]
