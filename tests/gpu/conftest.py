"""Short trainings on the device under test: a GPU, or with VIT_GPU_TEST=cpu the CPU, which shows that the tests run.

Where RECORD names a folder, each test leaves its outcome there as JSON, and a test that has passed is not run again:
`make gpu` continues where it was cut off.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.conftest import ask
from tests.runs import run_folder
from vit.training.losses import EpochLoss

RECORD = "VIT_GPU_RECORD"
STEPS = 50 if torch.cuda.is_available() else 6
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts: products with equal bits


def record_of(nodeid: str) -> Path | None:
    """The file with the outcome of a test."""
    folder = os.environ.get(RECORD)
    return Path(folder, f"correct_{nodeid.rpartition('::test_')[2]}.json") if folder else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = [item for item in items if (file := record_of(item.nodeid)) and file.is_file() and _outcome(file)]
    config.hook.pytest_deselected(items=passed)
    items[:] = [item for item in items if item not in passed]


def _outcome(file: Path) -> bool:
    return json.loads(file.read_text())["outcome"] == "passed"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = record_of(report.nodeid)
    if file and "tests/gpu" in report.nodeid and (report.when == "call" or report.outcome != "passed"):
        facts = dict(report.user_properties).get("measured", "")
        reason = report.longreprtext.strip().splitlines()[-1:] if report.longrepr and report.failed else []
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = [report.longrepr[2]]
        row = {"outcome": report.outcome, "seconds": report.duration, "measured": facts, "why": "".join(reason)}
        file.write_text(json.dumps(row))


@dataclass(frozen=True)
class Training:
    """What a command left: its run folder, the loss of each step, its output."""

    path: Path
    losses: Tensor
    out: str

    @property
    def weights(self) -> dict[str, Tensor]:
        return torch.load(self.path / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]


@pytest.fixture(scope="session")
def device() -> str:
    """The device under test."""
    return "cuda" if torch.cuda.is_available() and os.environ.get("VIT_GPU_TEST") != "cpu" else "cpu"


@pytest.fixture(autouse=True)
def on_device(device: str) -> Iterator[None]:
    """A GPU keeps nothing of the test before, and a compiler no graph."""
    yield
    torch.compiler.reset()
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory, draw_classes: Callable[..., Path]) -> Path:
    """Three class folders with 40 images of 16 pixels each."""
    return draw_classes(tmp_path_factory.mktemp("gpu") / "images", ("blue", "green", "red"), 40, side=16)


VIT = ("--network", "vit_nano_patch2_8", "--image_size", 16, "--model.network.depth", 2)  # 64 tokens
CNN = ("--network", "resnet10_small", "--image_size", 16)
SHORT = (
    "--init_from", "none", "--optim.steps", STEPS, "--batch_size", 24, "--lr", 0.002, "--precision", "32-true",
    "--data.num_workers", 0, "--wandb", "off",
)  # fmt: skip


@pytest.fixture
def train(device: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """`train(data, *options, on=None, command="train")` -> Training; the last of equal options counts.

    Where the device under test is the CPU, the training beside it "on a CPU" is the same one, and not done again.
    """
    known: dict[tuple[object, ...], Training] = {}

    def run(data: object, *options: object, on: str | None = None, command: str = "train", code: int = 0) -> Training:
        key = (command, str(data), *options)
        if on == device and key in known:
            return known[key]
        losses: list[Tensor] = []
        update = EpochLoss.update
        out = tmp_path_factory.mktemp("run")
        accelerator = {"cuda": "gpu", "cpu": "cpu"}[on or device]
        with monkeypatch.context() as patch:
            patch.setattr(EpochLoss, "update", lambda own, loss, *rest: (losses.append(loss), update(own, loss, *rest)))
            answer = ask(command, data, *SHORT, "--trainer.accelerator", accelerator, *options, "--out", out)
        assert answer.code == code, answer.err
        stacked = torch.stack(losses).float().cpu() if losses else torch.empty(0)
        known[key] = Training(run_folder(out), stacked, answer.out + answer.err)
        return known[key]

    return run


def apart(one: Tensor, other: Tensor) -> float:
    """The largest relative difference of the losses of two trainings."""
    assert len(one) == len(other)
    return ((one - other).abs() / other.abs().clamp_min(1e-3)).max().item()


def weights_apart(one: Training, other: Training) -> float:
    """The largest difference of the weights of two trainings, as a fraction of each tensor's largest value."""
    ours, theirs = one.weights, other.weights
    assert ours.keys() == theirs.keys()
    return max(
        ((value.float() - theirs[name].float()).abs().max() / theirs[name].float().abs().max().clamp_min(1e-2)).item()
        for name, value in ours.items()
    )
