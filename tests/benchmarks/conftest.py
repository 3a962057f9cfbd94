"""The scripts of benchmarks/ and of evidence/make/ import each other by name, as Python runs them."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "benchmarks", ROOT / "evidence" / "make")


@pytest.fixture(autouse=True)
def threads():
    """The number of threads is as before after each test."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """Both folders are on the path of a file of tests, after which their modules are gone."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for folder in FOLDERS:
            patch.syspath_prepend(str(folder))
        yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent in FOLDERS:
            del sys.modules[name]
