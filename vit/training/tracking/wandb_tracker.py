"""The tracker that writes to Weights & Biases, and its settings, which name no machine, no person and no code"""

import errno
import netrc
import os
import re
import secrets
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from vit.layout import RunLayout
from vit.training.tracking.tracker import Sharing, Tracking, WandbMode, describe, public, recorded_rows, unreachable

if TYPE_CHECKING:
    import wandb
    from wandb.sdk.wandb_setup import _WandbSetup as Session

FINISH_SECONDS = 60.0
SETTINGS: dict[str, object] = {
    "init_timeout": 20.0,
    "login_timeout": 5.0,
    "finish_timeout": FINISH_SECONDS - 5,  # so that wandb can stop in order
    "finish_timeout_raises": True,
    "silent": True,
    "quiet": True,
    "console": "off",
    "reinit": "create_new",
    "host": "",  # else wandb uploads the name of the machine
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "label_disable": True,  # else wandb reads the main script
    "sagemaker_disable": True,  # else wandb replaces our run id
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 5.0,  # the rows that a SIGKILL can lose
}
_ROOM = 4096  # bytes: a disk with less is full


class WandbTracker:
    """A `Tracker` that writes to a run of Weights & Biases.

    A killed training may have rows that the server never got. Where the run is resumed online, it gets these rows of
    metrics.csv first. Offline, nothing tells which rows of earlier parts are lost, and a row that is sent twice would
    stay there twice. So lost rows of an offline run stay lost. A row is in metrics.csv before it is logged here.
    """

    def __init__(
        self,
        wandb: ModuleType,
        session: "Session",
        run: "wandb.Run",
        metrics: Path,
        notify: Callable[[str], None],
        sharing: Sharing,
    ) -> None:
        self._wandb, self._session, self._run, self._sharing = wandb, session, run, sharing
        self._metrics: Path | None = metrics if run.resumed else None  # None: the run lacks no row
        self._notify = notify
        self._step = int(run.step)  # a resumed run continues after its last row
        self._row_open = False
        self._summary: dict[str, float] = {}
        self._state: Literal["open", "failed", "finished"] = "open"

    def log(self, row: Mapping[str, float], step: int) -> None:
        if self._metrics is not None:
            lacking, self._metrics = recorded_rows(self._metrics), None
            for at, numbers in lacking:
                if self._step <= at <= step:  # wandb drops rows before its own step, and joins rows of one step
                    self._write(partial(dict, numbers), at)
        self._step = max(self._step, step)
        self._write(lambda: dict(row), step)

    def figure(self, name: str, path: Path, has_images: bool = False) -> None:
        if self._sharing.media or not has_images:
            self._write(lambda: {name: self._wandb.Image(str(path))}, self._step)

    def table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], has_images: bool = False
    ) -> None:
        def build() -> dict[str, object]:
            data = [list(row) for row in rows]
            return {name: self._wandb.Table(columns=list(columns), data=data, allow_mixed_types=True)}

        if self._sharing.media or not has_images:
            self._write(build, self._step)

    def confusion_matrix(
        self, name: str, labels: Sequence[int], predictions: Sequence[int], class_names: Sequence[str]
    ) -> None:
        def build() -> dict[str, object]:
            known = [pair for pair in zip(labels, predictions, strict=True) if pair[0] >= 0]
            truth, guesses = [label for label, _ in known], [guess for _, guess in known]
            plot = self._wandb.plot.confusion_matrix
            return {name: plot(y_true=truth, preds=guesses, class_names=list(class_names), title=name)}

        if len(class_names) <= 60 and len(labels) <= 10_000:
            self._write(build, self._step)

    def configure(self, config: Mapping[str, object]) -> None:
        self._attempt(lambda: self._run.config.update(public(config), allow_val_change=True))

    def summary(self, values: Mapping[str, float]) -> None:
        self._summary.update(values)
        self._attempt(lambda: self._run.summary.update(dict(values)))

    def artifact(self, path: Path, name: str, metadata: Mapping[str, object]) -> None:
        def send() -> None:
            artifact = self._wandb.Artifact(re.sub(r"[^\w.-]", "-", name), type="model", metadata=public(metadata))
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
                    self._run.log({}, commit=True)  # the last row would replace numbers of the summary
                self._run.summary.update(self._summary)
                self._run.finish()
                _check_room(self._run.dir)
            except Exception as error:  # noqa: BLE001
                trouble.append(describe(error))
            _close(self._wandb)

        if before != "finished":
            thread = threading.Thread(target=end, daemon=True)  # wandb may block forever
            thread.start()
            thread.join(FINISH_SECONDS)
            if thread.is_alive():
                trouble.append("no answer")
                with suppress(Exception):  # wandb has no public way; Python would wait for its process at exit
                    self._session._connection._proc._process.kill()
                thread.join(3.0)  # the thread sees the end of the process, and closes the session
        if before == "open" and trouble:
            self._notify(f"Weights & Biases lacks the end ({trouble[0]}); upload it with: {_sync_line(self._run)}")

    def interrupt(self) -> None:
        """Nothing: at its exit wandb marks the run as one that has failed, and keeps its rows."""

    def _write(self, build: Callable[[], dict[str, object]], step: int) -> None:
        # always with a step: otherwise wandb begins a new step, and later drops the rows of the real steps
        self._row_open = True
        self._attempt(lambda: self._run.log(build(), step=step))

    def _attempt(self, action: Callable[[], object]) -> None:
        if self._state == "open":
            try:
                _check_room(self._run.dir)
                action()
            except Exception as error:  # noqa: BLE001  a tracker must never end a training
                self._state = "failed"
                end = f"training goes on without it; upload what it has with: {_sync_line(self._run)}"
                self._notify(f"Weights & Biases stopped ({describe(error)}); {end}")


def intended(mode: WandbMode) -> tuple[Literal["online", "offline", "off"], str]:
    """The status that a mode asks for, and why, before any server is asked. WANDB_MODE decides only for "auto"."""
    variable = os.environ.get("WANDB_MODE") if mode == "auto" else None
    why = "as asked" if variable is None else f"WANDB_MODE={variable}"
    if mode == "off" or variable == "disabled":
        return "off", why
    if mode == "offline" or variable in ("offline", "dryrun"):
        return "offline", why
    return "online", "you are logged in" if logged_in() else "if you are logged in"


def logged_in() -> bool:
    """Whether a user is logged in to Weights & Biases. This asks no server and imports nothing."""
    server = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    return bool(os.environ.get("WANDB_API_KEY")) or _in_netrc(server)


def obstacle(settings: "wandb.Settings") -> str:
    """Why online is not possible, or "". The answer takes 3 seconds at most; wandb would try for over a minute."""
    server = urlsplit(settings.base_url)
    if not (settings.api_key or settings.identity_token_file or _in_netrc(server.netloc)):
        return "not logged in, see 'wandb login'"
    return unreachable(settings.base_url)


def _in_netrc(host: str) -> bool:
    hosts = [host, "api.wandb.ai"] if host == "api.forge.coreweave.com" else [host]  # one server, renamed in 2026
    netrc_file = os.environ.get("NETRC")
    for file in [netrc_file] if netrc_file else ["~/.netrc", "~/_netrc"]:
        with suppress(OSError, netrc.NetrcParseError):
            entries = netrc.netrc(Path(file).expanduser())
            return any((entries.authenticators(each) or ("", "", ""))[2] for each in hosts)
    return False


def open_wandb(mode: WandbMode, run: Tracking, notify: Callable[[str], None]) -> WandbTracker | None:
    """Begin or continue a run of Weights & Biases, whose id and files are in the run folder; None where it is off.

    With "auto" it is online where a user is logged in and the server answers, else offline.
    An exception: wandb is not installed or does not work.
    """
    status, why = intended(mode)
    if status == "off":
        return None
    home = run.folder.absolute()
    # wandb has no settings for these folders, and would use the user's home folder
    os.environ.update(WANDB_DATA_DIR=str(home / "wandb" / "data"), WANDB_CACHE_DIR=str(home / "wandb" / "cache"))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    settings = wandb.Settings(**{key: SETTINGS[key] for key in SETTINGS.keys() & wandb.Settings.model_fields})
    session = wandb.setup(settings)  # login_timeout counts here, not in init
    reason = why if status == "offline" else obstacle(session.settings)
    if not reason:
        try:
            begun = _begin(home, run, settings, "online")
        except Exception as error:  # noqa: BLE001
            reason = describe(error)
            _close(wandb)  # this session would refuse the same run id
            session = wandb.setup(settings)
        else:
            notify(f"Weights & Biases: {begun.url}")
    if reason:
        begun = _begin(home, run, settings, "offline")
        notify(f"Weights & Biases is offline ({reason}); upload later with: {_sync_line(begun)}")
    return WandbTracker(wandb, session, begun, RunLayout(home).metrics_path, notify, run.sharing)


def _begin(home: Path, run: Tracking, settings: "wandb.Settings", mode: Literal["online", "offline"]) -> "wandb.Run":
    import wandb

    config = public(run.config)
    assert isinstance(config, dict)
    id_path = RunLayout(home).wandb_id_path
    run_id = id_path.read_text().strip() if id_path.exists() else ""
    if not run_id:
        run_id = secrets.token_hex(4)
        home.mkdir(parents=True, exist_ok=True)
        id_path.write_text(f"{run_id}\n")
    begun = wandb.init(
        mode=mode,
        project=os.environ.get("WANDB_PROJECT") or "vit",
        id=run_id,
        resume="allow",
        name=run.name,
        group=run.group,
        job_type="train" if run.group is None else "cell",
        config=config,
        dir=str(home),
        settings=settings,
    )
    if begun.id != run_id:  # in a sweep, the agent has given the run its id
        id_path.write_text(f"{begun.id}\n")
    return begun


def _check_room(folder: str) -> None:
    """Raise OSError if the disk is full: wandb writes rows in another process, which drops them silently."""
    if shutil.disk_usage(folder).free < _ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _close(wandb: ModuleType) -> None:
    with suppress(Exception, SystemExit):  # at the exit of Python it would wait without a limit
        wandb.teardown()


def _sync_line(run: "wandb.Run") -> str:
    return f"wandb sync {shlex.quote(str(Path(run.dir).parent))}"
