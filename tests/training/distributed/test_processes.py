"""Processes that train one network: the end of one of them is one clear error."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit.errors import ProcessesError
from vit.training.distributed import processes
from vit.training.distributed.processes import lost_process_explained
from vit.training.observers import Stop


def trainer(*children):
    launcher = SimpleNamespace(procs=[SimpleNamespace(poll=lambda code=code: code) for code in children])
    return SimpleNamespace(world_size=2, global_step=7, strategy=SimpleNamespace(launcher=launcher))


@pytest.mark.parametrize(("error", "children"), [
    (RuntimeError("[/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"), ()),
    (RuntimeError("[/src/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 600000ms for recv"), ()),
    (torch.distributed.DistNetworkError("the server has gone"), ()),
    (Stop(15), (None, 3)),  # Lightning sends us SIGTERM when a child of ours has failed
    (Stop(15), (143, -9)),
    (RuntimeError("a bug"), (143,)),
])  # fmt: skip
def test_the_loss_of_another_process_is_one_error(error, children):
    with (
        pytest.raises(ProcessesError, match="has ended, or cannot be reached") as caught,
        lost_process_explained(trainer(*children)),
    ):
        raise error
    assert caught.value.code == 8


@pytest.mark.parametrize(("error", "children"), [
    (RuntimeError("a bug"), (None,)),
    (Stop(15), (None, 0)),
    (Stop(15), (143,)),  # the same signal ended the child
    (Stop(15), (-15,)),
    (Stop(2, step=7), (8,)),  # the child had agreed to end, too
])  # fmt: skip
def test_other_errors_stay_what_they_are(error, children):
    with pytest.raises(type(error)) as caught, lost_process_explained(trainer(*children)):
        raise error
    assert caught.value is error


@pytest.mark.faults("X2", simulated="the source is searched for the word")
def test_metrics_are_never_added_up_by_lightning():
    """`self.log(..., sync_dist=True)` floors counts: torchmetrics adds the processes' states."""
    files = list((Path(processes.__file__).parents[2]).rglob("*.py"))
    assert len(files) > 50 and not [path for path in files if "sync_dist" in path.read_text(encoding="utf-8")]
