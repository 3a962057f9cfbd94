"""Packages that are looked for and not imported: each worker collects all files, and runs the tests of a few."""

from importlib.util import find_spec

import pytest


def skip_without(name: str, reason: str) -> None:
    """Skip the file of tests that calls this, where a package is not installed."""
    if find_spec(name) is None:
        pytest.skip(reason, allow_module_level=True)
