"""The library openvino, imported where it computes, without its telemetry"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

from vit.errors import UsageError, install

NAME = "openvino"


def check_installed(what: str) -> None:
    """Raise UsageError where the library is missing. It is not imported.

    Args:
        what: option or file that needs the library.
    """
    if find_spec(NAME) is None:
        raise UsageError(f"{what} needs openvino, which is not installed", install(NAME))


def import_openvino(what: str) -> ModuleType:
    """The library, imported. Its import alone would send an event to its makers."""
    check_installed(what)
    with without_telemetry():
        import openvino
    return openvino


@contextmanager
def without_telemetry() -> Iterator[None]:
    """While entered: openvino counts this process as a run of continuous integration, and sends nothing.

    Its other switch, `opt_in_out --opt_out`, writes a file to the user's home, which is not ours to write.
    """
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CI"]
        else:
            os.environ["CI"] = before
