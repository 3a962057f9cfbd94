"""Processes that train one network: what they compare, what the loss of one is called, which of them speaks."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit.errors import DisagreementError, ProcessesError
from vit.training import processes
from vit.training.plan import make_plan
from vit.training.processes import Agreement, deciding, is_first, together
from vit.training.recipe import DataConfig, Recipe
from vit.training.signals import Stop

WORDS = {"images": "train " + "1a2b" * 9, "options": "0" * 64, "PyTorch": "2.14.1"}


def trainer(*children):
    launcher = SimpleNamespace(procs=[SimpleNamespace(poll=lambda code=code: code) for code in children])
    return SimpleNamespace(world_size=2, global_step=7, strategy=SimpleNamespace(launcher=launcher))


@pytest.fixture
def other(monkeypatch):
    """`other(words)`: what the second process says."""

    def answer(said):
        def gather(found, own):
            found[:] = [own, said]

        monkeypatch.setattr(processes.dist, "all_gather_object", gather)

    return answer


@pytest.mark.faults("X6", "X7", simulated="one process is told what others would answer")
@pytest.mark.parametrize(("name", "value", "told"), [
    ("images", "train " + "3c4d" * 9, "images than"), ("options", "1" * 64, "options than"),
    ("PyTorch", "2.10.0", "PyTorch (2.10.0, 2.14.1) than"),
])  # fmt: skip
def test_processes_that_would_not_do_the_same_do_not_begin(other, name, value, told):
    other(WORDS)
    Agreement(WORDS).on_fit_start(trainer(), None)
    other(WORDS | {name: value})
    with pytest.raises(DisagreementError, match="process 1 has other ") as caught:
        Agreement(WORDS).on_fit_start(trainer(), None)
    assert caught.value.code == 8 and told in str(caught.value)


@pytest.mark.faults("X6", "X7", simulated="what would be compared is computed in one process")
def test_what_is_compared_follows_from_the_data_and_the_options(colours, tmp_path, draw_classes):
    def words(**changes):
        source = changes.pop("source", colours)
        return deciding(make_plan(Recipe(data=DataConfig(source=str(source)), **changes)))

    first = words()
    assert words(out="elsewhere", wandb="off") == first
    assert words(seed=1)["options"] != first["options"]
    fewer = draw_classes(tmp_path / "colours", ("blue", "green", "red"), 13)
    assert words(source=fewer)["images"] != first["images"] and words(source=fewer)["options"] == first["options"]


@pytest.mark.faults("X10", simulated="one process is told what others would answer")
def test_weights_that_differ_are_found_before_a_validation(other):
    network = torch.nn.Linear(2, 2)
    sums = [float(weight.detach().double().sum()) for weight in network.parameters()]
    other(sums)
    Agreement(WORDS).on_validation_start(trainer(), network)
    other([sums[0], sums[1] + 1e-7])
    with pytest.raises(DisagreementError, match="weights of process 1 are not those of process 0 after step 7"):
        Agreement(WORDS).on_validation_start(trainer(), network)


@pytest.mark.faults("X3", "X5", simulated="PyTorch's errors are raised in one process")
@pytest.mark.parametrize(("error", "children"), [
    (RuntimeError("[/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"), ()),
    (RuntimeError("[/src/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 600000ms for recv"), ()),
    (torch.distributed.DistNetworkError("the server has gone"), ()),
    (Stop(15), (None, 3)),  # Lightning sends us SIGTERM when a child of ours has failed
])  # fmt: skip
def test_the_loss_of_another_process_is_one_error(error, children):
    with pytest.raises(ProcessesError, match="has ended, or cannot be reached") as caught, together(trainer(*children)):
        raise error
    assert caught.value.code == 8


@pytest.mark.parametrize(("error", "children"), [(RuntimeError("a bug"), (None,)), (Stop(15), (None, 0))])
def test_other_errors_stay_what_they_are(error, children):
    with pytest.raises(type(error)) as caught, together(trainer(*children)):
        raise error
    assert caught.value is error


@pytest.mark.faults("X11", simulated="variables of the environment are set, nothing is started")
@pytest.mark.parametrize(("variables", "first"), [
    ({}, True),
    ({"RANK": "0", "LOCAL_RANK": "0"}, True), ({"RANK": "2", "LOCAL_RANK": "0", "NODE_RANK": "0"}, False),
    ({"LOCAL_RANK": "1"}, False), ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
    ({"SLURM_PROCID": "0"}, True), ({"SLURM_PROCID": "3"}, False), ({"SLURM_PROCID": "0", "LOCAL_RANK": "1"}, False),
])  # fmt: skip
def test_one_process_speaks_whoever_started_them(monkeypatch, variables, first):
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_first() == first


@pytest.mark.faults("X2", simulated="the source is searched for the word")
def test_metrics_are_never_added_up_by_lightning():
    """`self.log(..., sync_dist=True)` floors counts: torchmetrics adds the processes' states."""
    files = list((Path(processes.__file__).parents[1]).rglob("*.py"))
    assert len(files) > 50 and not [path for path in files if "sync_dist" in path.read_text(encoding="utf-8")]
