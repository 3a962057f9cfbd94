"""Weights & Biases, kept at arm's length: whatever goes wrong there is one line, and training goes on.

Our own metrics file is the truth that reports and studies read; this is the window for people. `wandb` is imported when
a tracker is opened: ranks other than zero take `NoTracker` and never load it.
"""

import errno
import os
import re
import secrets
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from vit.layout import RunLayout
from vit.training import wandb_login

_SECRET = re.compile("key|token|passw|secret|credential", re.IGNORECASE)
_HARMLESS = (bool, int, float, type(None))
_FINISH_SECONDS = 60.0
_ROOM = 4096  # bytes, a page: less is a full disk
_SETTINGS: dict[str, Any] = {
    "init_timeout": 20.0,
    "login_timeout": 5.0,
    "finish_timeout": _FINISH_SECONDS - 5,  # so that wandb can give up in order
    "finish_timeout_raises": True,
    "silent": True,
    "quiet": True,
    "console": "off",
    "reinit": "create_new",
    "host": "",  # else the name of the machine is uploaded
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "label_disable": True,  # it would read the main script
    "sagemaker_disable": True,  # it would replace our run id
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 5.0,  # what a SIGKILL can lose
}


@dataclass(frozen=True)
class Sharing:
    """What a tracker may hand over beside numbers, configuration, class names and figures of these.

    Attributes:
        media: pictures that show images of the data, and file names with their labels.
        model: the weights of the best checkpoint.
    """

    media: bool = False
    model: bool = False

    def words(self, place: Literal["online", "offline", "off"], why: str) -> str:
        """Where a training is tracked, what goes there and what stays here, for people."""
        if place == "off":
            return f"off ({why})"
        asked = {"images and file names (--wandb_media true)": self.media, "weights (--wandb_model true)": self.model}
        goes = ["numbers, configuration, class names, figures without images", *(what for what in asked if asked[what])]
        stays = [what for what in asked if not asked[what]]
        return f"{place} ({why}): {', '.join(goes)}" + f"; not {', '.join(stays)}" * bool(stays)


class Tracker(Protocol):
    """Where a training shows its progress to people. No method raises, and none waits for a network but `finish`."""

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Numbers of one step, by slash-grouped names; steps must not go back."""

    def figure(self, name: str, path: Path, caption: str = "") -> None:
        """A PNG file that shows numbers and class names, and no image of the data; it stands at the latest step."""

    def media(self, name: str, path: Path, caption: str = "") -> None:
        """A PNG file that shows images of the data; nothing unless media are shared."""

    def image_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A row of plain values for each image, with its file name; nothing unless media are shared."""

    def confusion_matrix(
        self, name: str, labels: Sequence[int], predictions: Sequence[int], class_names: Sequence[str]
    ) -> None:
        """An interactive chart of the images with a known label; nothing if it would be too large to read."""

    def summary(self, values: Mapping[str, float]) -> None:
        """The numbers that stand for the whole run."""

    def artifact(self, path: Path, name: str, metadata: Mapping[str, object]) -> None:
        """A model file that does not change any more; nothing unless the model is shared."""

    def finish(self) -> None:
        """Hand over what is left, in a minute at most."""


class NoTracker:
    """Tracks nothing: tracking is off, this is not rank zero, or wandb cannot be used."""

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    log = figure = media = image_table = confusion_matrix = summary = artifact = finish = _nothing


class _WandbTracker:
    def __init__(self, wandb: Any, session: Any, run: Any, notify: Callable[[str], None], sharing: Sharing) -> None:
        self._sharing = sharing
        self._wandb = wandb
        self._session = session
        self._run = run
        self._notify = notify
        self._step = int(run.step)  # of a resumed run: after its last row
        self._row_open = False
        self._summary: dict[str, float] = {}
        self._state: Literal["open", "failed", "finished"] = "open"

    def log(self, row: Mapping[str, float], step: int) -> None:
        self._step = max(self._step, step)
        self._write(lambda: dict(row), step)

    def figure(self, name: str, path: Path, caption: str = "") -> None:
        self._write(lambda: {name: self._wandb.Image(str(path), caption=caption or None)}, self._step)

    def media(self, name: str, path: Path, caption: str = "") -> None:
        if self._sharing.media:
            self.figure(name, path, caption)

    def image_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        def build() -> dict[str, Any]:
            data = [list(row) for row in rows]
            return {name: self._wandb.Table(columns=list(columns), data=data, allow_mixed_types=True)}

        if self._sharing.media:
            self._write(build, self._step)

    def confusion_matrix(
        self, name: str, labels: Sequence[int], predictions: Sequence[int], class_names: Sequence[str]
    ) -> None:
        def build() -> dict[str, Any]:
            known = [pair for pair in zip(labels, predictions, strict=True) if pair[0] >= 0]
            truth, guesses = [label for label, _ in known], [guess for _, guess in known]
            plot = self._wandb.plot.confusion_matrix
            return {name: plot(y_true=truth, preds=guesses, class_names=list(class_names), title=name)}

        if len(class_names) <= 60 and len(labels) <= 10_000:
            self._write(build, self._step)

    def summary(self, values: Mapping[str, float]) -> None:
        self._summary.update(values)
        self._attempt(lambda: self._run.summary.update(dict(values)))

    def artifact(self, path: Path, name: str, metadata: Mapping[str, object]) -> None:
        def send() -> None:
            artifact = self._wandb.Artifact(re.sub(r"[^\w.-]", "-", name), type="model", metadata=_public(metadata))
            # in place: by default wandb copies every checkpoint, twice
            artifact.add_file(str(path.absolute()), policy="immutable", skip_cache=True)
            self._run.log_artifact(artifact)

        if self._sharing.model:
            self._attempt(send)

    def finish(self) -> None:
        before, self._state = self._state, "finished"
        trouble: list[str] = []

        def end() -> None:
            try:
                if self._row_open:
                    self._run.log({}, commit=True)  # the last row, which would replace numbers of the summary
                self._run.summary.update(self._summary)
                self._run.finish()
                _check_room(self._run.dir)
            except Exception as error:  # noqa: BLE001
                trouble.append(_words(error))
            _close(self._wandb)

        if before != "finished":
            thread = threading.Thread(target=end, daemon=True)  # wandb may block for good
            thread.start()
            thread.join(_FINISH_SECONDS)
            if thread.is_alive():
                trouble.append("no answer")
                with suppress(Exception):  # wandb has no public way, and Python would wait for its process at exit
                    self._session._connection._proc._process.kill()
                thread.join(3.0)  # it sees that, and closes the session
        if before == "open" and trouble:
            self._notify(f"Weights & Biases lacks the end ({trouble[0]}); upload it with: {_sync_line(self._run)}")

    def _write(self, build: Callable[[], dict[str, Any]], step: int) -> None:
        # always with a step: without one wandb begins a new step, and later drops the rows of the real ones
        self._row_open = True
        self._attempt(lambda: self._run.log(build(), step=step))

    def _attempt(self, action: Callable[[], object]) -> None:
        if self._state == "open":
            try:
                _check_room(self._run.dir)
                action()
            except Exception as error:  # noqa: BLE001  training never dies of tracking
                self._state = "failed"
                end = f"training goes on without it; upload what it has with: {_sync_line(self._run)}"
                self._notify(f"Weights & Biases stopped ({_words(error)}); {end}")


def open_tracker(
    mode: wandb_login.Mode,
    folder: Path,
    config: Mapping[str, object],
    name: str,
    notify: Callable[[str], None],
    run_id: str | None = None,
    group: str | None = None,
    job_type: str = "train",
    sharing: Sharing = Sharing(),
) -> Tracker:
    """A tracker that keeps its files in the run folder; for rank zero alone. `notify` takes one line for people.

    "auto" is online where somebody is logged in and the server answers, else offline. Without a `run_id` a resumed
    training continues the run whose id is in the folder. Of `config`, text under names of secrets is not uploaded, and
    of an absolute path only the last part is.
    """
    place, why = wandb_login.intended(mode)
    if place == "off":
        return NoTracker()
    obstacle = why if place == "offline" else ""
    home = folder.absolute()
    # before the import, as wandb has no settings for these; its defaults are in the home folder
    os.environ.update(WANDB_DATA_DIR=str(home / "wandb" / "data"), WANDB_CACHE_DIR=str(home / "wandb" / "cache"))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    try:
        import wandb

        settings = wandb.Settings(**{key: _SETTINGS[key] for key in _SETTINGS.keys() & wandb.Settings.model_fields})
        about: dict[str, Any] = {"name": name, "group": group, "job_type": job_type, "config": _public(config)}
        about |= {"id": _run_id(home, run_id), "resume": "allow", "dir": str(home), "settings": settings}
        about |= {"project": os.environ.get("WANDB_PROJECT") or "vit"}
        session: Any = wandb.setup(settings)  # login_timeout counts here, not in init
        obstacle = obstacle or wandb_login.obstacle(session.settings)
        if not obstacle:
            try:
                run = wandb.init(mode="online", **about)
                notify(f"Weights & Biases: {run.url}")
                return _WandbTracker(wandb, session, run, notify, sharing)
            except Exception as error:  # noqa: BLE001
                obstacle = _words(error)
                _close(wandb)  # this session would refuse the same run id
                session = wandb.setup(settings)
        run = wandb.init(mode="offline", **about)
        notify(f"Weights & Biases is offline ({obstacle}); upload later with: {_sync_line(run)}")
        return _WandbTracker(wandb, session, run, notify, sharing)
    except Exception as error:  # noqa: BLE001  a broken installation raises anything
        notify(f"Weights & Biases cannot be used ({_words(error)}); training goes on without it")
        return NoTracker()


def _run_id(folder: Path, wanted: str | None) -> str:
    file = RunLayout(folder).wandb_id_path
    kept = file.read_text().strip() if file.exists() else ""
    chosen = wanted or kept or secrets.token_hex(4)
    if chosen != kept:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{chosen}\n")
    return chosen


def _public(value: Any) -> Any:
    """The value without text under names of secrets; of an absolute path, whose folders name people, the last part."""
    if isinstance(value, Mapping):
        hidden = {key for key, item in value.items() if _SECRET.search(str(key)) and not isinstance(item, _HARMLESS)}
        return {str(key): "(not uploaded)" if key in hidden else _public(item) for key, item in value.items()}
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith("~")):
        return f".../{Path(value).name}"
    return [_public(item) for item in value] if isinstance(value, list | tuple) else value


def _check_room(folder: str) -> None:
    """Raise OSError where a disk is full: wandb writes rows in a process of its own, which drops them silently."""
    if shutil.disk_usage(folder).free < _ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _close(wandb: Any) -> None:
    with suppress(Exception, SystemExit):  # left to the exit of Python, it would wait without a limit
        wandb.teardown()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200].rstrip(": ")


def _sync_line(run: Any) -> str:
    return f"wandb sync {shlex.quote(str(Path(run.dir).parent))}"
