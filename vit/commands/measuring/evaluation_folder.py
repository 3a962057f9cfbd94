"""The folder of an evaluation: its name, and who may write to it"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vit.commands.cli.arguments import StrPath
from vit.errors import UsageError
from vit.layout import RunLayout

_LOCK = ".unfinished"  # in the folder of an evaluation that is not finished


def own_folder(output: StrPath) -> Path:
    """The folder of --output, if it is empty, or of an evaluation that was cut off."""
    folder = Path(output).expanduser()
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / _LOCK).is_file())):
        raise UsageError(f"--output {folder} is not an empty folder", "give a new folder")
    return folder


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """While entered: the folder is marked as unfinished, and this process alone writes to it."""
    from vit.checkpoints.locking import hold

    file = hold(folder / _LOCK, wait=False)
    if file is None:
        raise UsageError(f"another process writes to {folder}", "wait for it, or give another --output")
    with file:
        yield
        (folder / _LOCK).unlink()


def evaluation_folder(model: str, data: str, split: str) -> Path:
    """The folder of an evaluation for which none was given. `model` is "" for several models."""
    from vit.checkpoints.run import slug

    run, name = RunLayout.around(Path(model)) if model else None, f"{slug(data)}-{split}"
    return Path(f"evaluation-{name}") if run is None else run.evaluation_dir(name)
