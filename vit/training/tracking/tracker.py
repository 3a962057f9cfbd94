"""Trackers show a training to people: which ones a recipe names, their interface, and what they may share"""

import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from vit.csv_files import records
from vit.errors import UsageError, install, nearest
from vit.registry import TRACKERS
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import dotted

WandbMode = Literal["auto", "online", "offline", "off"]
WANDB = "wandb"
_NAMES = (WANDB, *TRACKERS)
SHARED = ("tracker_media", "tracker_model")  # options of a single training: cells and folds send numbers alone
CONNECT_SECONDS = 3.0


def chosen_trackers(recipe: Recipe) -> tuple[str, ...]:
    """The trackers of a training, in the order of `tracker`. Without `tracker`, W&B in the mode of `wandb`.

    UsageError: a name is unknown, or `wandb` and `mlflow.register` contradict `tracker`.
    """
    if recipe.tracker is None:
        names: tuple[str, ...] = () if recipe.wandb == "off" else (WANDB,)
    else:
        names = tuple(dict.fromkeys(word.strip() for word in recipe.tracker.split(",") if word.strip()))
        if not names:
            raise UsageError("--tracker names no tracker", f"give {', '.join(_NAMES)}, or --wandb off for none")
        for name in names:
            if name == "csv":
                raise UsageError("--tracker csv: every run writes metrics.csv already", "leave csv out")
            if name not in _NAMES:
                raise UsageError(f"--tracker {name} is unknown", nearest(name, _NAMES))
        if WANDB in names and recipe.wandb == "off":
            raise UsageError(f"--wandb off with --tracker {recipe.tracker}", "leave one of them out")
        if WANDB not in names and recipe.wandb in ("online", "offline"):
            problem = f"--wandb {recipe.wandb} without wandb in --tracker {recipe.tracker}"
            raise UsageError(problem, f"give --tracker {','.join((*names, WANDB))}, or leave --wandb out")
    if recipe.mlflow.register is not None and "mlflow" not in names:
        raise UsageError("--mlflow.register without mlflow", "give --tracker mlflow too, or leave it out")
    return names


def wandb_mode(recipe: Recipe) -> WandbMode:
    """The mode of W&B: "off" where `tracker` names other trackers alone."""
    return recipe.wandb if WANDB in chosen_trackers(recipe) else "off"


def check_trackers(recipe: Recipe) -> None:
    """Raise UsageError for a wrong choice of trackers, or one whose package is not installed. This imports nothing."""
    for name in chosen_trackers(recipe):
        if name in TRACKERS and find_spec(name) is None:  # package, extra and tracker share their name
            raise UsageError(f"--tracker {name} needs the package {name}", install(name))


def refuse_register(recipe: Recipe, where: str) -> None:
    """Raise UsageError where each of many trainings would register a model."""
    if recipe.mlflow.register is not None:
        raise UsageError(f"--mlflow.register in {where}, whose models are many", "leave it out")


_SECRET = re.compile("key|token|passw|secret|credential", re.IGNORECASE)
_HARMLESS = (bool, int, float, type(None))


def public(value: object) -> object:
    """The value without texts under names of secrets. Of an absolute path, whose folders name people, the last part."""
    if isinstance(value, Mapping):
        hidden = {key for key, item in value.items() if _SECRET.search(str(key)) and not isinstance(item, _HARMLESS)}
        return {str(key): "(not uploaded)" if key in hidden else public(item) for key, item in value.items()}
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith("~")):
        return f".../{Path(value).name}"
    return [public(item) for item in value] if isinstance(value, list | tuple) else value


def flat(config: Mapping[str, object]) -> dict[str, object]:
    """The public options by their dotted names: {"optim.lr": 0.001}. Empty sections have no names."""
    shown = public(config)
    assert isinstance(shown, dict)
    return dotted(shown)


@dataclass(frozen=True)
class Sharing:
    """What a tracker may upload besides numbers, configuration, class names and figures of these."""

    media: bool = False  # pictures that show images of the data, and file names with their labels
    model: bool = False  # weights of the best checkpoint

    def describe(self, status: Literal["online", "offline", "off"], why: str) -> str:
        """The status of W&B, what it gets and what it does not, for people."""
        if status == "off":
            return f"off ({why})"
        stats = "" if os.environ.get("WANDB_X_DISABLE_STATS", "").lower() == "true" else "use of the machine, "
        return f"{status} ({why}): {stats}{self.content()}"

    def content(self) -> str:
        asked = {
            "images and file names (--tracker_media true)": self.media,
            "weights (--tracker_model true)": self.model,
        }
        goes = ["numbers, configuration, class names, figures without images", *(what for what in asked if asked[what])]
        stays = [what for what in asked if not asked[what]]
        return ", ".join(goes) + f"; not {', '.join(stays)}" * bool(stays)


NUMBERS_ALONE = Sharing()  # no images of the data, no weights


class Tracker(Protocol):
    """Shows the progress of a training to people. Only `finish` waits for a network, for one minute at most.

    No method of a tracker that a training gets raises an error: `Trackers` calls those that may.
    """

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Log the numbers of a step, by names with slashes. A step must not be smaller than the previous one."""

    def figure(self, name: str, path: Path, has_images: bool = False) -> None:
        """Log a PNG file at the latest step; one that shows images of the data only if media are shared."""

    def table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], has_images: bool = False
    ) -> None:
        """Log rows of plain values at the latest step; those with file names of images only if media are shared."""

    def confusion_matrix(
        self, name: str, labels: Sequence[int], predictions: Sequence[int], class_names: Sequence[str]
    ) -> None:
        """Log an interactive chart of the images with a known label, unless the chart would be too large to read."""

    def configure(self, config: Mapping[str, object]) -> None:
        """Replace the options of the training."""

    def summary(self, values: Mapping[str, float]) -> None:
        """Set the final numbers of the run."""

    def artifact(self, path: Path, name: str, metadata: Mapping[str, object]) -> None:
        """Upload a model file that does not change any more, if the model is shared."""

    def finish(self) -> None:
        """Upload the rest, and close the tracker."""

    def interrupt(self) -> None:
        """Close the tracker of a training that has ended early, and may be resumed. This takes seconds at most."""


@dataclass(frozen=True)
class Tracking:
    """What trackers are told of a run."""

    folder: Path  # run folder
    out: Path  # parent folder of run folders, or folder of the study, with the local store of MLflow
    name: str  # name of the run
    group: str | None  # name of the study that the run is a cell of; None for a single training
    config: Mapping[str, object]  # options of the training
    sharing: Sharing  # what may be uploaded


class TrackerKind(Protocol):
    """A tracker of an extra; see `vit.registry.TRACKERS`. Only `open` imports its library."""

    title: str  # its name for people

    def open(self, recipe: Recipe, run: Tracking) -> Tracker:
        """The tracker of a run. It raises what goes wrong."""

    def describe(self, recipe: Recipe, run: Path, sharing: Sharing) -> str:
        """What it gets of a training and where that goes, for the plan. The folder `run` may not exist."""

    def describe_cells(self, folder: Path) -> str:
        """What it gets of the trainings in a folder and where that goes, for the plan."""


@contextmanager
def tracked(tracker: Tracker) -> Iterator[None]:
    """A training that tells its tracker if it ends early."""
    try:
        yield
    except BaseException:
        tracker.interrupt()
        raise


def recorded_rows(metrics: Path) -> list[tuple[int, dict[str, float]]]:
    """(step, numbers by their names) of each row of metrics.csv; none where there is no such file."""
    rows = records(metrics) if metrics.is_file() else []
    return [
        (int(row["step"]), {name: float(text) for name, text in row.items() if name != "step" and text}) for row in rows
    ]


def describe(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200].rstrip(": ")


def unreachable(url: str) -> str:
    """Why a server, or the proxy before it, cannot be reached, or "". The answer takes 3 seconds at most."""
    import urllib.request  # slow to load

    server = urlsplit(url)
    proxy = urllib.request.getproxies().get(server.scheme)
    if proxy and not urllib.request.proxy_bypass(server.hostname or ""):
        server = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    address = (server.hostname or "", server.port or (443 if server.scheme == "https" else 80))
    answered = threading.Event()

    def connect() -> None:
        with suppress(OSError), socket.create_connection(address, timeout=CONNECT_SECONDS):
            answered.set()

    thread = threading.Thread(target=connect, daemon=True)  # a name lookup ignores the timeout
    thread.start()
    thread.join(CONNECT_SECONDS)
    return "" if answered.is_set() else f"no connection to {server.hostname}"
