"""Types and checks of arguments that several commands share, and options that say where cells run"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vit.atomic_files import made_folder
from vit.checkpoints.model_path import MODEL_ENDINGS, check_model
from vit.commands.cli.command_line import Metavar, Parser
from vit.console import Reporter
from vit.errors import ResourceError, UsageError, explained, nearest
from vit.inference.engines.engine_names import EngineName, check_engine
from vit.layout import RunLayout
from vit.options import options_of, read_word
from vit.ranges import Fraction as Fraction
from vit.ranges import Port as Port
from vit.ranges import PositiveInt as PositiveInt
from vit.study.running.cluster import ClusterOptions, Executor, check_executor

if TYPE_CHECKING:
    from vit.inference.scores.intervals import Interval

StrPath = str | os.PathLike[str]
Paths = StrPath | Sequence[StrPath]
Model = Annotated[StrPath, Metavar("RUN|CKPT")]
ModelOrExport = Annotated[StrPath, Metavar("RUN|CKPT|EXPORT")]


def path_list(paths: Paths) -> list[StrPath]:
    """One path or several as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def leading_models(paths: Sequence[StrPath]) -> tuple[list[str], list[StrPath]]:
    """(models at the beginning of some paths, the rest): run folders, checkpoints and exported files."""
    models = list[str]()
    for path in map(Path, paths):
        run = RunLayout(path.expanduser())
        if not (run.is_run or (path.suffix in MODEL_ENDINGS and path.expanduser().is_file())):
            break
        models.append(os.fspath(path))
    return models, list(paths[len(models) :])


def check_different(models: Sequence[str]) -> None:
    """Raise UsageError where a model is given twice."""
    files = [Path(model).expanduser().resolve() for model in models]
    twice = next((model for model, file in zip(models, files, strict=True) if files.count(file) > 1), None)
    if twice is not None:
        raise UsageError(f"the model {twice} is given twice", "give each model once")


def check_models(models: Sequence[str], engine: EngineName, device: str, unfinished: bool) -> None:
    """Raise VitError where a model is given twice, missing or not finished, or where an engine cannot compute it."""
    check_different(models)
    for model in models:
        check_model(model, unfinished)
        check_engine(engine, Path(model), device)


def in_points(gap: "Interval", unit: str = " points") -> str:
    """A difference of accuracies, with its interval where both ends are known."""
    around = " to ".join(f"{100 * end:+z.2f}" for end in gap.ends or ())
    return f"{100 * gap.value:+z.2f}{unit}{f' ({around})' * bool(around)}"


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


def new_page(wanted: StrPath | None, table: Path | None) -> Path | None:
    """The path of --page, where one is wanted; UsageError where it exists, or is that of --output."""
    path = None if wanted is None else new_file(wanted, "--page")
    if path is not None and path == table:
        raise UsageError(f"--page and --output are both {path}", "give them two names")
    return path


def new_folder(wanted: Path | None, default: Path) -> Path:
    """Make the wanted folder, which is not there or empty; without one, the first free name of the default."""
    if wanted is None and default.parent.is_symlink():
        raise UsageError(f"{default.parent} is a link to another folder", "remove the link, or give --output")
    with explained(ResourceError, f"cannot make {wanted or default}", "choose another --output"):
        if wanted is None:
            return made_folder(default)
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted


def warn_of_unfinished(lacks: str, reporter: Reporter) -> None:
    """Warn where the training of a model lacks something."""
    from vit.checkpoints.run import unfinished_text

    reporter.warn(unfinished_text(lacks))


def without(words: Sequence[str], *flags: str) -> str:
    """The words of a command line without options and their values, as one text."""
    may_lack_value, remaining = ("--dry_run", "--yes"), list[str]()
    for before, word in zip(["", *words], words, strict=False):
        if before not in flags or (before in may_lack_value and word not in ("true", "false")):
            remaining.append(word)
    return shlex.join(word for word in remaining if word.partition("=")[0] not in flags)


@dataclass(frozen=True)
class ExecutorOptions:
    """Where cells run, and how many at a time. A cell is a training, a fold, a linear probe, or a task of --parts.

    Attributes:
        jobs: number of cells at a time; null: one for each GPU, or for each of at most 8 CPU cores; on a cluster, as
            many tasks as it allows. Of vit predict: number of tasks on a cluster
        executor: where cells run. local: on this machine. slurm: as tasks of SLURM. ray: on a cluster of Ray
        cluster: what a task of SLURM or Ray asks for, such as --cluster.time 4h, --cluster.cpus 4, --cluster.gpus 1,
            --cluster.memory 16 (GB), --cluster.partition gpu, --cluster.cells_per_task 10
    """

    jobs: PositiveInt | None = None
    executor: Executor = "local"
    cluster: dict[str, bool | int | float | str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, command: str, values: Mapping[str, object]) -> "ExecutorOptions":
        """The options of a command from keyword arguments of Python; UsageError for a wrong value."""
        return cls(**Parser(command, "", "", tuple(options_of(cls))).read_values(values))

    @property
    def cluster_options(self) -> ClusterOptions:
        """What a task of a cluster asks for; UsageError for a wrong value, or without a cluster."""
        if self.cluster and self.executor == "local":
            raise UsageError("--cluster.* without a cluster", "give --executor slurm or --executor ray")
        known, values = {option.name: option for option in options_of(ClusterOptions)}, dict[str, Any]()
        for name, value in self.cluster.items():
            if name not in known:
                raise UsageError(f"there is no option --cluster.{name}", nearest(name, known))
            values[name] = read_word(known[name].kind, str(value), f"--cluster.{name}")
        return ClusterOptions(**values)

    def check(self, dry_run: bool = False) -> None:
        """Raise UsageError for wrong options, and where the executor is missing, which a dry run does not need."""
        options = self.cluster_options
        if not dry_run:
            check_executor(self.executor, options)


EXECUTOR_OPTIONS = tuple(one.name for one in fields(ExecutorOptions))
