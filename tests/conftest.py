"""Fixtures of all tests. Each process has one thread, which is faster for small tensors; examples are reproducible."""

import contextlib
import gc
import io
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tests share the cores, and some use more threads
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # tests of the hub have one of their own
os.environ["VIT_HASHES"] = "off"  # tests of it have a folder of their own

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from tests.faults.recording import (  # noqa: F401  hooks of pytest
    pytest_addoption,
    pytest_configure,
    pytest_itemcollected,
)
from tests.forked import (  # noqa: F401  hooks of pytest
    pytest_configure_node,
    pytest_sessionstart,
    pytest_unconfigure,
    pytest_xdist_setupnodes,
)
from tests.mlflow_store import mlflow_out, mlflow_tables  # noqa: F401  fixtures
from tests.slurm import write_answer

if TYPE_CHECKING:
    from vit.models.spec import Cost


def remembered(count: "Callable[[Any], Cost]") -> "Callable[[Any], Cost]":
    """`count`, computed once for all networks of one class and config: it is half of the time of a plan."""
    known: dict[tuple[type, str, int], Cost] = {}

    def counted(network: Any) -> "Cost":
        if not hasattr(network, "config"):
            return count(network)
        key = type(network), repr(network.config), sum(value.numel() for value in network.parameters())
        if key not in known:
            known[key] = count(network)
        return known[key]

    return counted


os.fsync = lambda descriptor: None  # no test cuts the power, and a training waits for the disk 16 times


def pytest_collection(session: pytest.Session) -> None:
    """Prepare the libraries in a process that runs tests; the one that leads xdist's workers imports none of them."""
    if session.config.pluginmanager.hasplugin("dsession"):
        return
    from hypothesis import settings

    from vit.memory import collect_seldom
    from vit.models import spec

    collect_seldom()  # 6 % of the time of all tests
    counted = remembered(spec.count)
    for name in ("vit.models.spec", "vit.training.planning.network_choice"):  # a forked worker has imported both
        if name in sys.modules:
            vars(sys.modules[name])["count"] = counted
    settings.register_profile("vit", derandomize=True, deadline=None, database=None, max_examples=30)
    settings.load_profile("vit")


def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each core: a third of the time of all tests is waiting for processes and limits."""
    return (os.cpu_count() or 1) * 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests unless their marker is selected, so that `pytest -m faults` is quick too."""
    selected = set(re.findall(r"\w+", config.option.markexpr))
    left_out = {"slow", "notebooks"} - selected - ({"slow"} if "gpu" in selected else set())
    deselected = [item for item in items if left_out & {marker.name for marker in item.iter_markers()}]
    config.hook.pytest_deselected(items=deselected)
    gone = set(deselected)
    items[:] = sorted((item for item in items if item not in gone), key=turn)


ROOMS_BY_TIME = {"parity": 0, "training": 0, "weights": 0, "explain": 2, "inference": 2, "models": 2, "tasks": 2}


def turn(item: pytest.Item) -> int:
    """Long files come first, and short ones last, so that no worker waits for another one at the end."""
    room, *below = item.path.relative_to(Path(__file__).parent).parts
    return ROOMS_BY_TIME.get(room, 1) if below else 0


def pytest_collection_finish() -> None:
    """Imported modules and collected tests are not garbage: a full collection, after an error of memory, is short."""
    gc.freeze()


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str

    def ok(self, *words: str) -> "Answer":
        """This answer, of a command that must succeed and print these words."""
        assert self.code == 0, self.err
        for word in words:
            assert word in self.out
        return self

    def noted(self, *words: str) -> "Answer":
        """This answer, of a command that must succeed and print these words on standard error."""
        assert self.code == 0, self.err
        for word in words:
            assert word in self.err
        return self

    def failed(self, code: int, *words: str) -> "Answer":
        """This answer, of a command that must end with a code and one error of one line, which has these words."""
        errors = [line for line in self.err.splitlines() if line.startswith("vit: error[")]
        assert (self.code, len(errors)) == (code, 1), self.err
        assert errors[0].startswith(f"vit: error[{code}]: ") and "Traceback" not in self.err
        assert "; " in errors[0] or code > 128  # what to do; nothing, after a signal
        for word in words:
            assert word in errors[0]
        return self


@dataclass(frozen=True)
class Trained:
    """A run folder and the output of its `vit train`."""

    path: Path
    answer: Answer

    @property
    def best(self) -> Path:
        return self.path / "checkpoints" / "best.ckpt"


DRAWING = ("compare", "crossval", "data", "evaluate", "explain", "inspect", "probe", "report", "study")


@cache
def _blank(kind: str) -> bytes:
    """An empty figure as a file, wider than a phone."""
    from matplotlib.figure import Figure

    Figure(figsize=(6, 1)).savefig(buffer := io.BytesIO(), format=kind)
    return buffer.getvalue()


def leave_blank(patch: pytest.MonkeyPatch) -> None:
    """Figures are made, and each is written as an empty one: layout and drawing are most of the time of a report."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    blank = {kind: _blank(kind) for kind in ("png", "svg")}
    patch.setattr(Figure, "get_layout_engine", lambda figure: None)
    bar = Axes.bar  # an artist for each bar; a legend shows those with a label
    patch.setattr(Axes, "bar", lambda axes, *given, **options: "label" in options and bar(axes, *given, **options))
    patch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(blank[options["format"]]))


def ask(*arguments: object, drawn: bool = False, figures: bool = False) -> Answer:
    """Run a command line in this process. Figures and page of a training take longer than most trainings here.

    Args:
        drawn: whether a training writes its page.
        figures: whether figures are not empty.
    """
    from vit.__main__ import main
    from vit.registry import command_module

    datasets = sys.modules.get("sklearn.datasets")
    if datasets and not hasattr(datasets.load_digits, "cache_info"):
        datasets.load_digits = cache(datasets.load_digits)  # a table of text, which most commands would read again
    callbacks = sys.modules.get("lightning.pytorch.trainer.connectors.callback_connector")
    if callbacks:
        callbacks._load_external_callbacks = lambda group: []  # a search in all packages, for each training
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        trains = arguments[:1] in (("train",), ("pretrain",))
        if trains and not (drawn or figures):
            patch.setattr(command_module(arguments[0]), "_draw", lambda *_: None)
        elif not figures and (trains or (arguments[:1] and arguments[0] in DRAWING)):
            leave_blank(patch)
        if arguments[:1] == ("inspect",):
            from vit.explain import inspection

            patch.setattr(inspection, "image_sizes_around", lambda side, _: [side, 2 * side])  # of seven, each counted
        code = main([os.fspath(part) if isinstance(part, os.PathLike) else str(part) for part in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def own_variables() -> Iterator[None]:
    """Lightning leaves LOCAL_RANK behind, by which a later training waits for processes that are never started.

    A command leaves the code that its options name in VIT_OWN_CODE, too.
    """
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "VIT_OWN_CODE")
    before = {name: os.environ[name] for name in names if name in os.environ}
    yield
    for name in names:
        os.environ.pop(name, None)
    os.environ.update(before)


@pytest.fixture(autouse=True)
def clean_start_folder() -> Iterator[None]:
    """A test that leaves a file in the folder of the repository fails: the next test or a user would find it."""
    folder = Path.cwd()
    before = set(os.listdir(folder))
    yield
    assert not [name for name in set(os.listdir(folder)) - before if not name.startswith((".", "__"))], folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder for the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def empty_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of the functions of `vit` are empty."""
    leave_blank(monkeypatch)


@pytest.fixture
def small_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    """timm's models have few and narrow blocks."""
    import timm

    from tests.timm_networks import small_create

    monkeypatch.setattr(timm, "create_model", small_create)


@pytest.fixture
def cells_here() -> Iterator[None]:
    """Cells of a study are not processes: for tests in which that changes nothing."""
    from tests.cells import here

    with here():
        yield


@pytest.fixture(scope="session")
def vit() -> Callable[..., Answer]:
    """`vit("train", "digits", ...)` -> Answer; see `ask`."""
    return ask


@pytest.fixture(scope="session")
def draw_classes() -> Callable[..., Path]:
    """`draw_classes(folder, ("cat", "dog"), 12)` writes 12 PNGs of 12x12 pixels per class, each class in one color."""

    def draw(folder: Path, class_names: Sequence[str], each: int, side: int = 12) -> Path:
        for number, name in enumerate(class_names):
            generator = np.random.default_rng([number, *name.encode()])
            color = np.array([hash_byte(name, channel) for channel in range(3)])
            (folder / name).mkdir(parents=True, exist_ok=True)
            for index in range(each):
                noise = generator.integers(-30, 31, (side, side, 3))
                pixels = np.clip(color + noise, 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / name / f"{index:02d}.png")
        return folder

    return draw


def hash_byte(name: str, channel: int) -> int:
    """One channel of the color of a class, from its name."""
    return sum(ord(letter) * (31 + 17 * channel) ** place for place, letter in enumerate(name)) % 200 + 28


def shared(folders: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]) -> Any:
    """What `make` gives for a folder of its own, which all workers share: the first one makes it."""
    root = folders.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    kept = root / f"{name}.pickle"
    with FileLock(root / f"{name}.lock"):
        if not kept.exists():
            (root / name).mkdir(exist_ok=True)
            kept.write_bytes(pickle.dumps(make(root / name)))
        return pickle.loads(kept.read_bytes())


def trained_run(out: Path, *words: object) -> Trained:
    """The run of `vit train WORDS`, with figures and page."""
    answer = ask("train", *words, "--out", out, figures=True).ok()
    (config,) = out.glob("**/config.yaml")
    return Trained(config.parent, answer)


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A ViT trained on digits for two epochs, once for all tests. Tests must not write to the folder."""
    options = ("--epochs", 2, "--batch_size", 128, "--optim.warmup", 0, "--seed", 3, "--keep_state", "true")
    return shared(tmp_path_factory, "digits_run", lambda out: trained_run(out, "digits", *options, "--wandb", "off"))


@pytest.fixture(scope="session")
def colors(tmp_path_factory: pytest.TempPathFactory, draw_classes: Callable[..., Path]) -> Path:
    """A folder of three class folders with 14 images each. Tests must not write to it."""
    return draw_classes(tmp_path_factory.mktemp("data") / "colors", ("blue", "green", "red"), 14)


@pytest.fixture(scope="session")
def labels_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 90 images with the labels bright, left and top, some unknown. Tests must not write beside it."""
    return shared(tmp_path_factory, "labels", draw_labels)


def draw_labels(folder: Path) -> Path:
    """The images and the table of `labels_csv`."""
    generator = np.random.default_rng(1)
    lines = ["path,bright,left,top"]
    for number in range(90):
        bright, left, top = generator.random(3) < (0.4, 0.5, 0.2)
        pixels = generator.integers(0, 40, (8, 8, 3)) + 120 * bright
        pixels[:, :4, 0] += 90 * left
        pixels[:3, :, 2] += 90 * top
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")
        cells = ["" if generator.random() < 0.1 else str(int(value)) for value in (bright, left, top)]
        lines.append(",".join([f"{number:02}.png", *cells]))
    path = folder / "tints.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


LABELS_OPTIONS = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--augment", "strong", "--epochs", 3,
    "--batch_size", 16, "--optim.accumulate", 2, "--optim.ema_decay", 0.8, "--optim.best_metric", "map",
    "--lr", 0.01, "--precision", "32-true", "--data.num_workers", 0, "--keep_state", "true", "--wandb", "off",
)  # fmt: skip


@pytest.fixture(scope="session")
def labels_run(tmp_path_factory: pytest.TempPathFactory, labels_csv: Path) -> Trained:
    """A ViT trained on `labels_csv`, once for all tests. Tests must not write to the folder."""
    return shared(tmp_path_factory, "labels_run", lambda out: trained_run(out, labels_csv, *LABELS_OPTIONS))


HOSTILE_NAMES = (
    b"=cmd|'calc'!A0.png", b"@SUM(1).png", b"-rf.png", b"+1.png", b"a b.png", b"new\nline.png", b"caf\xe9.png",
    b"<script>alert(1)<.png", b"\"><img src=x onerror=y>.png", b"\x1b[31mred.png", "日本.png".encode(),
    b"comma,quote\".png", b"javascript:alert(1).png", b"%0d%0a&amp;.png",
)  # fmt: skip


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of images with odd names and of other files. A test that writes to it makes the last one fail."""
    folder = tmp_path_factory.mktemp("mixed")
    generator = np.random.default_rng(5)
    for place, name in enumerate(HOSTILE_NAMES):
        pixels = generator.integers(0, 256, (8 + place, 8, 3), dtype=np.uint8)
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            Image.fromarray(pixels).save(file, "PNG")
    whole = (folder / "a b.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "notes.txt").write_text("no image")
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "pipe.png")
    Image.new("L", (1, 300)).save(folder / "thin.png")
    (folder / ".hidden.png").write_bytes(whole)
    (folder / "below").mkdir()
    (folder / "below" / "deep.png").write_bytes(whole)
    made = sorted(os.fsencode(path) for path in folder.rglob("*"))
    yield folder
    assert sorted(os.fsencode(path) for path in folder.rglob("*")) == made, "a test wrote to the folder that all share"


@pytest.fixture(scope="session")
def scene() -> Callable[..., Image.Image]:
    """`scene(seed)` or `scene(seed, width, height)`: a smooth picture of random colors, different for each seed."""

    def draw(seed: int, width: int = 80, height: int = 60) -> Image.Image:
        colors = np.random.default_rng([77, seed]).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        return Image.fromarray(colors).resize((width, height), Image.Resampling.BICUBIC)

    return draw


@pytest.fixture
def slurm_answers(tmp_path_factory, monkeypatch):
    """Gives SLURM's commands an answer, an error and an exit code."""
    folder = tmp_path_factory.mktemp("slurm_commands")
    for command in ("sbatch", "srun", "squeue", "scontrol"):
        write_answer(folder, command)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return partial(write_answer, folder)
