"""The operations that a training step starts outside its network: on a GPU each is a launch by the main process."""

import sys
from collections import Counter

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from vit.commands.training import train_progress

DEEP = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 12, "--model.network.embed_dim", 32, "--batch_size", 4,
    "--epochs", 1, "--augment", "strong", "--augment.randaugment", 0, "--optim.ema_decay", 0.9, "--wandb", "off",
    "--data.num_workers", 0,
)  # fmt: skip


class Launches(TorchDispatchMode):
    """Counts operations by the part of a step that starts them, without views and new empty tensors.

    Attributes:
        parts: number of operations of "network", "backward" and "rest".
    """

    def __init__(self):
        super().__init__()
        self.parts = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        first = next(iter(operation._schema.returns), None)
        is_view = first is not None and first.alias_info is not None and not first.alias_info.is_write
        if not is_view and not operation.__name__.startswith(
            ("empty", "new_empty", "detach", "_unsafe_view", "_record")
        ):
            self.parts[_part()] += 1
        return operation(*args, **(kwargs or {}))


def _part():
    frame = sys._getframe(2)
    while frame is not None:
        if "/vit/models/" in frame.f_code.co_filename:
            return "network"
        if frame.f_code.co_name == "_engine_run_backward":
            return "backward"
        frame = frame.f_back
    return "rest"


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (("--optim.optimizer", "muon", "--optim.layer_decay", 0.75), 200),
        (("--optim.layer_decay", 0.75), 160),
    ],
)
def test_a_step_starts_few_operations_outside_its_network(vit, colors, tmp_path, monkeypatch, options, most):
    launches = Launches()

    def count_the_fifth(watcher, done, *rest):
        if done == 4:
            launches.__enter__()
        elif done == 5:
            launches.__exit__(None, None, None)

    monkeypatch.setattr(train_progress.TrainProgress, "step", count_the_fifth)
    vit("train", colors, *DEEP, *options, "--out", tmp_path).ok()
    assert min(launches.parts["backward"], launches.parts["network"]) > 12 * 10
    assert launches.parts["rest"] <= most
