"""MLflow as a tracker: a server, or a store on this machine; only an open tracker imports MLflow"""

import io
import json
import logging
import os
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import urlsplit

import yaml

from vit.atomic_files import write_text
from vit.csv_files import CsvValue, TableWriter
from vit.extras.mlflow.background import Background
from vit.layout import MlflowLayout, RunLayout
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.tracker import Sharing, Tracker, Tracking, flat, public, recorded_rows, unreachable

START_SECONDS = 45.0  # a new local store takes about 5
FINISH_SECONDS = 60.0
_INTERRUPT_SECONDS = 5.0
_MODEL = "model"  # folder of the run's artifacts
_MOST_CHARACTERS = 6000  # of an option
VARIABLES = {  # of MLflow, whose own values wait for minutes and report the use of MLflow to its makers
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_STRANGE = re.compile(r"[^\w./ -]")  # characters that MLflow refuses in names

Point = tuple[str, int, float]  # name, step, value


@dataclass(frozen=True)
class MlflowAddress:
    """A place of runs: a server, or a store on this machine."""

    uri: str  # as MLflow takes it
    artifacts: str | None = None  # where the artifacts of a new experiment go; None: as the server or store decides

    @classmethod
    def below(cls, out: Path) -> Self:
        """The server of MLFLOW_TRACKING_URI, else a store in the parent folder of run folders."""
        server = os.environ.get("MLFLOW_TRACKING_URI")
        if server:
            return cls(server)
        store = MlflowLayout(out.expanduser().absolute())
        path = os.fspath(store.database_path).replace("%", "%25").replace("?", "%3F")  # parts of an address
        return cls(f"sqlite:///{path}", store.artifacts_dir.as_uri())

    @property
    def is_local(self) -> bool:
        """Whether everything stays on this machine."""
        return urlsplit(self.uri).scheme in ("", "file", "sqlite")

    def describe(self) -> str:
        """The address for people, without a password."""
        parts = urlsplit(self.uri)
        return self.uri if "@" not in parts.netloc else parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def obstacle(self) -> str:
        """Why a server cannot be reached, or ""; known for addresses of the web alone."""
        return unreachable(self.uri) if urlsplit(self.uri).scheme in ("http", "https") else ""


class Mlflow:
    """The `TrackerKind` of --tracker mlflow."""

    title = "MLflow"

    def open(self, recipe: Recipe, run: Tracking) -> Tracker:
        return MlflowTracker(run, recipe.mlflow.register)

    def describe(self, recipe: Recipe, run: Path, sharing: Sharing) -> str:
        name = recipe.mlflow.register
        address = MlflowAddress.below(run.absolute().parents[2] if run.is_dir() else Path(recipe.out))
        uploaded = (sharing if name is None else replace(sharing, model=True)).content()
        where = f"{address.describe()}{', on this machine' if address.is_local else f': {uploaded}'}"
        return where if name is None else f"{where}; registers the best checkpoint as {name!r}"

    def describe_cells(self, folder: Path) -> str:
        return f"{MlflowAddress.below(folder).describe()}: numbers and configuration of every training, no images"


class MlflowTracker:
    """A `Tracker` that writes to a run of MLflow. Its methods raise what goes wrong, except while a server is away.

    A resumed training continues the run whose id is in its folder. The run then gets all rows of metrics.csv that it
    lacks, and none twice. A store on this machine gets pictures too, whatever may be shared.

    Lightning's logger is not used: it waits for the server in every call, and sends names of the user and of files.

    Args:
        register: name under which the best checkpoint is registered as a model; None: it is not.
    """

    def __init__(self, run: Tracking, register: str | None = None) -> None:
        for variable, value in VARIABLES.items():
            os.environ.setdefault(variable, value)
        self._address, self._layout = MlflowAddress.below(run.out), RunLayout(run.folder)
        self._sharing, self._register = run.sharing, register
        self._shows_images = run.sharing.media or self._address.is_local
        self._step = 0
        self._last: dict[str, int] = {}  # steps that the run has when this process begins, by name
        self._has_begun = False  # to log
        why = self._address.obstacle()
        if why:
            raise ConnectionError(why)
        self._background = Background(self._address.obstacle)
        self._background.ask(lambda: self._begin(run), START_SECONDS)

    def log(self, row: Mapping[str, float], step: int) -> None:
        points = [(name, step, float(value)) for name, value in row.items()]
        if not self._has_begun:
            self._has_begun = True
            recorded = (
                (name, at, value) for at, row in recorded_rows(self._layout.metrics_path) for name, value in row.items()
            )
            points = list(dict.fromkeys([*recorded, *points]))
        self._step = max(self._step, step)
        self._send([point for point in points if point[1] > self._last.get(_name(point[0]), -1)])

    def figure(self, name: str, path: Path, has_images: bool = False) -> None:
        folder = str(PurePosixPath(name).parent)
        if self._shows_images or not has_images:
            self._background.add(lambda: self._client.log_artifact(self._run, str(path), folder))

    def table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], has_images: bool = False
    ) -> None:
        if has_images and not self._shows_images:
            return
        file = io.StringIO()
        table = TableWriter(file, columns)
        for row in rows:
            table.row(map(_cell, row))
        self._background.add(lambda: self._client.log_text(self._run, file.getvalue(), f"{name}.csv"))

    def confusion_matrix(
        self, name: str, labels: Sequence[int], predictions: Sequence[int], class_names: Sequence[str]
    ) -> None:
        import numpy as np

        from vit.inference.metrics.metrics import MOST_IN_CONFUSION, confusion

        if len(class_names) <= MOST_IN_CONFUSION:
            counts = confusion(np.asarray(labels), np.asarray(predictions), len(class_names)).tolist()
            rows = [[true, *row] for true, row in zip(class_names, counts, strict=True)]
            self.table(name, ["true class (rows), predicted class (columns)", *class_names], rows)

    def configure(self, config: Mapping[str, object]) -> None:
        self._background.add(lambda: self._set_options(config))

    def summary(self, values: Mapping[str, float]) -> None:
        self._send([(name, self._step, float(value)) for name, value in values.items()])

    def artifact(self, path: Path, name: str, metadata: Mapping[str, object]) -> None:
        if not self._sharing.model and self._register is None:
            return
        if path.suffix == ".ckpt":
            self._background.add(lambda: self._send_model(path))
        else:  # weights without a head, of a pretraining
            self._background.add(lambda: self._client.log_artifact(self._run, str(path), "checkpoints"))

    def finish(self) -> None:
        self._background.add(lambda: self._client.set_terminated(self._run, "FINISHED"))
        self._background.finish(FINISH_SECONDS)

    def interrupt(self) -> None:
        self._background.add(lambda: self._client.set_terminated(self._run, "KILLED"))
        self._background.finish(_INTERRUPT_SECONDS)

    def _begin(self, run: Tracking) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a library that MLflow uses
            from mlflow import MlflowClient

            for library in ("mlflow", "alembic", "urllib3"):  # notices of every try and of every migration
                logging.getLogger(library).setLevel(logging.ERROR)
            self._client = MlflowClient(self._address.uri)
            file = self._layout.mlflow_run_path
            earlier = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
            self._run = earlier if earlier and self._is_there(earlier) else self._new_run(run)
        if self._run == earlier:
            self._client.update_run(earlier, status="RUNNING")
            for metric in self._client.get_run(earlier).data.metrics:
                self._last[metric] = max(point.step for point in self._client.get_metric_history(earlier, metric))
            self._step = max(self._last.values(), default=0)
        self._set_options(run.config)

    def _is_there(self, run: str) -> bool:
        """Whether the server has a run: another server may have been chosen since."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self._client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _new_run(self, run: Tracking) -> str:
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "vit"
        if self._client.get_experiment_by_name(title) is None:  # asked first: a server that is down is awaited once
            with suppress(Exception):  # another process has just made it
                self._client.create_experiment(title, artifact_location=self._address.artifacts)
        experiment = self._client.get_experiment_by_name(title).experiment_id
        tags = {} if run.group is None else {"study": run.group}
        number = str(self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id)
        write_text(self._layout.mlflow_run_path, f"{number}\n")
        return number

    def _set_options(self, config: Mapping[str, object]) -> None:
        """Set the options that the run lacks. MLflow never changes one: config.yaml has the newest values."""
        from mlflow.entities import Param

        known = self._client.get_run(self._run).data.params
        options = {_name(name): _text(value) for name, value in flat(config).items()}
        self._client.log_batch(self._run, params=[Param(*one) for one in options.items() if one[0] not in known])
        text = yaml.safe_dump(public(config), sort_keys=False, allow_unicode=True)
        self._client.log_text(self._run, text, self._layout.config_path.name)

    def _send(self, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_name(name), value, now, step) for name, step, value in points]
        self._background.add(lambda: self._client.log_batch(self._run, metrics=metrics))

    def _send_model(self, checkpoint: Path) -> None:
        from mlflow.exceptions import MlflowException

        from vit.extras.mlflow.model import save_mlflow_model

        with TemporaryDirectory() as folder:
            save_mlflow_model(checkpoint, Path(folder) / _MODEL)
            self._client.log_artifacts(self._run, str(Path(folder) / _MODEL), _MODEL)
        if self._register is None:
            return
        try:
            self._client.create_registered_model(self._register)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        source = f"{self._client.get_run(self._run).info.artifact_uri}/{_MODEL}"
        self._client.create_model_version(self._register, source, self._run)


def _name(name: str) -> str:
    return _STRANGE.sub("_", name)


def _text(value: object) -> str:
    return (value if isinstance(value, str) else json.dumps(value))[:_MOST_CHARACTERS]


def _cell(value: object) -> CsvValue:
    return value if isinstance(value, str | int | float) or value is None else str(value)
