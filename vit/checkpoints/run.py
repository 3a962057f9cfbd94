"""The run folder of one training: every file name in it, who may train into it, its result"""

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vit.atomic_files import made_folder, remove_partial, why_unwritable
from vit.checkpoints.locking import hold, is_held
from vit.checkpoints.result import RunResult
from vit.console import count_of
from vit.csv_files import records
from vit.data.core.dataset_names import is_gone
from vit.errors import CheckpointError, DataError, ResourceError, UsageError, explained
from vit.layout import OPENVINO_GRAPH, RunLayout, is_of_pretraining
from vit.plain_files import parse_yaml, read_text
from vit.tasks.task import task_of_columns


class RunDirectory(RunLayout):
    """A run folder. Every command that takes a checkpoint takes a run folder, too."""

    @property
    def can_resume(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.last_path.is_file() or self.previous_path.is_file()

    @property
    def is_pretraining(self) -> bool:
        """Whether the folder is of `vit pretrain`, whose network has no classes."""
        return self.config_path.is_file() and is_of_pretraining(read_text(self.config_path))

    @property
    def how_to_resume(self) -> str:
        return f"vit {'pretrain' if self.is_pretraining else 'train'} --resume {shlex.quote(str(self.path))}"

    def read_result(self) -> RunResult | None:
        """The content of result.json; None while the run is not finished. DataError where the file is damaged."""
        return RunResult.read(self.result_path) if self.result_path.is_file() else None

    def finished_result(self, with_classes: bool = True) -> RunResult:
        """The content of result.json. UsageError: the run is not finished, or is a pretraining. DataError: damaged."""
        if with_classes and self.is_pretraining:
            raise has_no_classes(self.path)
        result = self.read_result()
        if result is None:
            raise self.unfinished()
        return result

    def unfinished(self) -> UsageError:
        """The error of a command that needs the result of this run before there is one."""
        problem = f"{self.path} has no {self.result_path.name}: its training has not finished"
        return UsageError(problem, self._how_to_finish)

    @property
    def _how_to_finish(self) -> str:
        if self.is_held():
            return "wait for it: it is being trained"
        if self.can_resume:
            return f"finish it with '{self.how_to_resume}'"
        return "start it again as a new run: it has no checkpoint"

    @property
    def lacking(self) -> str:
        """What the training lacks, such as "7 of 60 epochs, no temperature"; "" where it is finished."""
        if self.result_path.is_file():
            return ""

        try:
            optim = parse_yaml(read_text(self.config_path))["optim"]
            rows = records(self.metrics_path) if self.metrics_path.is_file() else []
            if optim["steps"] is None:
                validated = [int(row["epoch"]) + 1 for row in rows if row["train/loss"]]
                done, total, unit = max(validated, default=0), optim["epochs"], "epoch"
            else:
                done, total, unit = max((int(row["step"]) for row in rows), default=0), optim["steps"], "step"
            if done >= total:
                return f"all {count_of(total, unit)}, but no result"
            return f"{done:,} of {count_of(total, unit)}, {task_of_columns((rows or [{}])[0]).missing_fit}"
        except (OSError, ValueError, LookupError, TypeError):
            return "nothing says how many epochs are trained"

    def check_not_moved(self, data: str) -> None:
        """Raise DataError where the images of this run, at a path, are not there any more."""
        if is_gone(data):
            fix = f"restore it, or write its new path as data.source in {self.config_path}"
            raise DataError(f"{Path(data)}, which held the images of {self.path}, does not exist", fix)

    def gone(self) -> ResourceError:
        """The error of a training whose folder is not there any more; its files are never made again by halves."""
        problem = f"{self.path} is gone: it was removed, renamed or replaced during the training"
        return ResourceError(problem, "start the training again as a new run")

    @contextmanager
    def held(self, wait: bool = False) -> Iterator[None]:
        """Keep other processes from training here, remove partial files; ResourceError: one does, without `wait`."""
        file = hold(self.lock_path, wait)
        if file is None:
            raise ResourceError(f"another process is training into {self.path}", "wait for it, or end it")
        with file:
            for folder in (self.path, self.best_path.parent, self.predictions_dir, self.figures_dir):
                remove_partial(folder)
            try:
                yield
            except (OSError, ResourceError) as error:
                if not self.lock_path.is_file():
                    raise self.gone() from error
                raise
            finally:
                self.lock_path.unlink(missing_ok=True)

    def is_held(self) -> bool:
        """Whether another process is training into this folder."""
        return is_held(self.lock_path)

    @classmethod
    def below(cls, out: str, data: str | None, network: str) -> "list[RunDirectory]":
        """The runs that `create` made for these names, in any order; None: for any data."""
        folders = Path(out).expanduser().glob(f"{'*' if data is None else slug(data)}/{slug(network)}/*")
        return [run for run in map(cls, folders) if run.config_path.is_file()]

    @classmethod
    def create(cls, out: str, data: str, network: str, name: str | None) -> "RunDirectory":
        """A new folder OUT/DATA/NETWORK/TIME[-NAME]; ResourceError where it cannot be made or written."""
        stamp = time.strftime("%Y%m%d-%H%M%S") + (f"-{slug(name)}" if name else "")
        parent = Path(out).expanduser() / slug(data) / slug(network)
        fix = "choose another folder with --out"
        with explained(ResourceError, f"cannot write to {parent / stamp}", fix):
            path = made_folder(parent / stamp)
        if reason := why_unwritable(path, 4096):  # a full disk must show before the first step
            with suppress(OSError):  # it is empty
                path.rmdir()
            raise ResourceError(f"cannot write to {path}: {reason}", fix)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """An existing run; UsageError when the folder is not one."""
        run = cls(path.expanduser())
        if not run.config_path.is_file():
            problem = f"{path} is not a run folder: it has no {run.config_path.name}"
            raise UsageError(problem, "give a folder that 'vit train' made")
        return run


if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # in Python 3.11 classes cannot inherit from Path itself


class RunPath(_Path):
    """The run folder that a training from Python leaves: a path, which every function of vit takes."""

    @property
    def result(self) -> RunResult:
        """What the training found; `result.accuracy` is the accuracy on the test images. Errors: `finished_result`."""
        return RunDirectory(self).finished_result(with_classes=False)


def check_finished(path: Path, unfinished: bool, of_file: str | None = None) -> str:
    """What the training of a run folder, checkpoint or export lacks, in words; "" where nothing says that it lacks any.

    A checkpoint in a finished run is as it is meant to be, such as its last.ckpt. `of_file` is `unfinished` of the
    file's description, where it has been read. UsageError: the training is not finished, and `unfinished` is false.
    """
    run = (
        RunDirectory.around(path)
        if path.expanduser().is_dir() or path.suffix == RunLayout(path).best_path.suffix
        else None
    )
    lacks = (of_file or "") if run is None else run.lacking
    if lacks and not unfinished:
        fix = "finish the training" if run is None else run._how_to_finish
        raise UsageError(f"the training of {path} is not finished ({lacks})", f"{fix}, or give --unfinished")
    return lacks


def unfinished_text(lacks: str) -> str:
    """The warning of a model whose training lacks something; "" where it lacks nothing."""
    return f"the training is not finished: {lacks}" if lacks else ""


def has_no_classes(path: Path) -> UsageError:
    """The error of a command that needs classes, where a path is of a pretraining."""
    fix = f"train them: vit train DATA --init_from {shlex.quote(str(path))}"
    return UsageError(f"{path} is of a pretraining: its network has no classes", fix)


def start_of(path: Path) -> Path:
    """The file that RUN|FILE means as weights to start from: a pretraining's backbone, or as `checkpoint_of`."""
    path = path.expanduser()
    run = RunDirectory(path)
    if not (path.is_dir() and run.is_pretraining):
        return checkpoint_of(path)
    files = [file for file in (run.backbone_path, run.last_path) if file.is_file()]
    if not files:
        raise run.unfinished()
    return files[0]


def checkpoint_of(path: Path) -> Path:
    """The file that RUN|CKPT means: itself, or the run's best. CheckpointError: none. UsageError: a pretraining."""
    path = path.expanduser()
    if not path.is_dir():
        return path
    run = RunDirectory(path)
    if run.is_pretraining:
        raise has_no_classes(path)
    for candidate in (run.best_path, run.last_path):
        if candidate.is_file():
            return candidate
    export = path / OPENVINO_GRAPH
    fix = f"give {export}" if export.is_file() else "give a run folder or a checkpoint that 'vit train' wrote"
    raise CheckpointError(f"{path} has no {run.best_path.relative_to(path)}", fix)


def slug(name: str) -> str:
    """A name as part of a path: letters, digits, dots, dashes, underscores; never empty, hidden or longer than 80."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "data"
