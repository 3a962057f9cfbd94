"""Run folders of commands: of trainings that end, or die on their way; and whether two runs are the same."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.comparing import differences
from tests.conftest import ask
from tests.tables import rows
from vit.commands.training import train_progress


def run_folder(out: Path) -> Path:
    """The only run folder below a folder."""
    (config,) = out.glob("**/config.yaml")
    return config.parent


def trained(out: Path, *words: object) -> Path:
    """The run folder of `vit train WORDS --out OUT`, which must succeed."""
    ask("train", *words, "--out", out).ok()
    return run_folder(out)


def die() -> None:
    raise RuntimeError("killed")


@contextmanager
def at_step(step: int, action: Callable[[], object] = die) -> Iterator[None]:
    """A training in the block acts when so many optimizer steps are done."""

    def act(progress: train_progress.TrainProgress, done: int, *_: object) -> None:
        if done == step:
            action()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_progress.TrainProgress, "step", act)
        yield


def died(out: Path, step: int, *words: object) -> Path:
    """The run folder of `vit train WORDS --out OUT`, which dies at an optimizer step."""
    with at_step(step):
        answer = ask("train", *words, "--out", out)
    assert answer.code == 1 and "killed" in answer.err, answer.err
    return run_folder(out)


def metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics.csv without its columns of times."""
    return [{key: cell for key, cell in row.items() if "second" not in key} for row in rows(run / "metrics.csv")]


def checkpoint(run: Path, name: str = "last") -> dict[str, Any]:
    """A checkpoint without Lightning's count of how often it restarted."""
    content = torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    for counted in ("callbacks", "loops"):
        content.pop(counted)
    return content


def weights(run: Path, name: str = "last") -> dict[str, torch.Tensor]:
    """The weights in a checkpoint, by their names there."""
    content = torch.load(run / "checkpoints" / f"{name}.ckpt", map_location="cpu", weights_only=True)
    state: dict[str, torch.Tensor] = content["state_dict"]
    return state


def timeless(run: Path) -> dict[str, Any]:
    """result.json without times."""
    result = json.loads((run / "result.json").read_text())
    return {key: value for key, value in result.items() if "second" not in key and key not in ("image_wait", "mfu")}


def same_end(run: Path, other: Path) -> bool:
    """Whether two finished runs differ in nothing but times."""
    for name in ("last", "best"):
        assert differences(checkpoint(run, name), checkpoint(other, name)) == []
    assert metrics(run) == metrics(other) and timeless(run) == timeless(other)
    assert sorted(os.listdir(run / "checkpoints")) == ["best.ckpt", "last.ckpt"]
    return True
