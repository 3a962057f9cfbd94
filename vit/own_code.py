"""Code of your own by its import path, such as mypackage.nets:MyViT

Importing a module runs its code. So a path counts only where somebody has named it: on the command line, in a recipe
file, or in the environment variable VIT_OWN_CODE, whose paths stand with commas. No checkpoint and no run folder makes
vit import anything by itself.
"""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

from vit.errors import UsageError, VitError, first_line, is_out_of_memory

VARIABLE = "VIT_OWN_CODE"


def is_path(name: str) -> bool:
    """Whether a name is an import path, and not a name of ours or of timm's."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def trust(path: str) -> None:
    """Let a path that the user has named be imported, also in the processes that this one starts."""
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*trusted(), path]))


def check_trusted(paths: Iterable[str]) -> None:
    """Raise UsageError with all paths that the user has not named, and the variable that names them, too."""
    known = trusted()
    if missing := [path for path in paths if path not in known]:
        problem = f"{', '.join(missing)}: code outside vit, and a file alone does not make vit run it"
        raise UsageError(problem, f"set {VARIABLE}={','.join([*known, *missing])} if you trust this code")


def load(path: str, flag: str) -> Any:
    """What a path names, also in the current folder; UsageError: the user has not named it, or the import fails."""
    check_trusted([path])
    module, _, name = path.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    with running(path, flag, "give MODULE:NAME of an installed module, or of a file in this folder"):
        return getattr(importlib.import_module(module), name)


@contextmanager
def running(path: str, flag: str, fix: str) -> Iterator[None]:
    """Whatever the user's code raises is a UsageError with a fix; a lack of memory and our own errors stay."""
    try:
        yield
    except (Exception, SystemExit) as error:  # a script that ends itself would end this program as done
        if isinstance(error, VitError) or is_out_of_memory(error):
            raise
        raise UsageError(f"{flag} {_failure(path, error)}", fix) from error


def failure(error: Exception) -> str:
    """Which of the trusted paths an error comes from, with file and line; "" where it comes from none of them."""
    return next((_failure(path, error) for path in trusted() if _line(path, error)), "")


def _failure(path: str, error: BaseException) -> str:
    kind, text = type(error).__name__, first_line(error)
    return f"{path} fails: {text if text.startswith(kind) else f'{kind}: {text}'}{_line(path, error)}"


def _line(path: str, error: BaseException) -> str:
    """The last line of a path's module on the way to an error, as a SyntaxError shows it; "" where it has none."""
    module = path.partition(":")[0]  # other modules, as of torch, may have a file of the same name
    frames = [each for each in walk_tb(error.__traceback__) if each[0].f_globals.get("__name__") == module]
    return "".join(f" ({Path(frame.f_code.co_filename).name}, line {line})" for frame, line in frames[-1:])


def trusted() -> list[str]:
    """The import paths that the user has named."""
    return [path.strip() for path in os.environ.get(VARIABLE, "").split(",") if path.strip()]
