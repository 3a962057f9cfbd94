"""Types and checks of arguments that several commands share"""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vit.commands.cli.command_line import Metavar
from vit.errors import ResourceError, UsageError
from vit.layout import RunLayout
from vit.training.recipes.ranges import PositiveInt as PositiveInt

if TYPE_CHECKING:
    from vit.console import Reporter
    from vit.inference.scores.intervals import Interval


StrPath = str | os.PathLike[str]
Paths = StrPath | Sequence[StrPath]
Model = Annotated[StrPath, Metavar("RUN|CKPT")]
ModelOrExport = Annotated[StrPath, Metavar("RUN|CKPT|EXPORT")]


def fraction(option: str, value: float | str | None) -> float | None:
    """The value of an option between 0 and 1, such as an accuracy; None where none is given.

    Raises:
        UsageError: it is not a number between 0 and 1.
    """
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        shown = value if isinstance(value, str) else f"{value:g}"
        raise UsageError(f"{option} {shown} is not between 0 and 1", "give a fraction such as 0.95")
    return number


def path_list(paths: Paths) -> list[StrPath]:
    """One path or several as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def leading_models(paths: Sequence[StrPath]) -> tuple[list[str], list[StrPath]]:
    """(models at the beginning of some paths, the rest): run folders, checkpoints and exported files."""
    endings, models = (".ckpt", ".onnx", ".xml"), list[str]()
    for path in map(Path, paths):
        run = RunLayout(path.expanduser())
        if not (run.is_run or (path.suffix in endings and path.expanduser().is_file())):
            break
        models.append(os.fspath(path))
    return models, list(paths[len(models) :])


def check_different(models: Sequence[str]) -> None:
    """Raise UsageError where a model is given twice."""
    files = [Path(model).expanduser().resolve() for model in models]
    twice = next((model for model, file in zip(models, files, strict=True) if files.count(file) > 1), None)
    if twice is not None:
        raise UsageError(f"the model {twice} is given twice", "give each model once")


def in_points(gap: "Interval") -> str:
    """A difference of accuracies with its interval."""
    low, high = (f"{100 * (end or 0.0):+.2f}" for end in (gap.low, gap.high))
    return f"{100 * gap.value:+.2f} points ({low} to {high})"


def path_text(path: StrPath | None) -> str | None:
    """A path as text; None where none is given."""
    return None if path is None else os.fspath(path)


def shell_command(*words: StrPath, options: Mapping[str, StrPath | bool | None]) -> str:
    """A command line for a shell: the words, then each option that has a value. True is a flag without a value."""
    line = [os.fspath(word) for word in words]
    for name, value in options.items():
        if value is True:
            line.append(f"--{name}")
        elif value is not None and value is not False:
            line += [f"--{name}", os.fspath(value)]
    return shlex.join(line)


def trusted_hosts(host: str) -> list[str]:
    """Names that requests to a service on this machine may have in their Host header: any where it is open to all."""
    return ["*"] if host in ("0.0.0.0", "::", "") else ["localhost", "127.0.0.1", "::1", "[::1]", host]  # noqa: S104


def new_file(wanted: StrPath, option: str = "--output") -> Path:
    """The path of a file to write; UsageError where it exists, because nothing is overwritten."""
    path = Path(wanted).expanduser()
    if path.exists():
        raise UsageError(f"{option} {path} exists", "give another name, or move it elsewhere")
    return path


def new_folder(wanted: Path | None, default: Path) -> Path:
    """Make the wanted folder, which is not there or empty; without one, the first free name of the default.

    ResourceError where it cannot be made.
    """
    from vit.inference.files import made_folder

    try:
        if wanted is None:
            if default.parent.is_symlink():
                raise UsageError(f"{default.parent} is a link to another folder", "remove the link, or give --output")
            return made_folder(default)
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(f"cannot make {wanted or default}: {error.strerror}", "choose another --output") from error
    return wanted


def warn_of_unfinished(lacks: str, reporter: "Reporter") -> None:
    """Warn where the training of a model lacks something."""
    if lacks:
        from vit.checkpoints.run import unfinished_text

        reporter.notice(f"WARNING: {unfinished_text(lacks)}")


def without_dry_run(words: Sequence[str]) -> str:
    """The words of a command line without `--dry_run` and its value, as one text."""
    kept: list[str] = []
    is_after = False
    for word in words:
        if word.partition("=")[0] != "--dry_run" and not (is_after and word in ("true", "false")):
            kept.append(word)
        is_after = word == "--dry_run"
    return shlex.join(kept)
