"""Where a recipe trains when a launcher has started its processes; the GPUs are made up."""

import pytest
import torch

from vit.errors import UsageError
from vit.training.distributed.devices import device_and_world_size, lightning_devices, lightning_environment
from vit.training.recipes.recipe import TrainerConfig

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID")


@pytest.fixture
def launched(monkeypatch):
    """`launched(visible, local_rank, ...)`: this is a process of a launcher on a machine with GPUs that it sees."""

    def make(visible, local_rank=0, here=4, world_size=8, by_torchrun=False):
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
        values = {"RANK": local_rank, "WORLD_SIZE": world_size, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": here}
        for name, value in (values | ({"TORCHELASTIC_RUN_ID": "none"} if by_torchrun else {})).items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: visible > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)

    return make


@pytest.mark.faults("X11", simulated="variables and the number of GPUs are set by the test")
@pytest.mark.parametrize(("visible", "local_rank", "index"), [(1, 3, 0), (4, 3, 3), (4, 0, 0), (8, 2, 2)])
def test_each_process_has_one_gpu_whether_it_sees_its_own_or_all(launched, visible, local_rank, index):
    """4 tasks of srun with a GPU of their own were taken for 4 trainings of one process."""
    launched(visible, local_rank)
    device, world_size = device_and_world_size(TrainerConfig())
    assert (device, world_size) == (torch.device("cuda", index), 8)
    assert lightning_devices(TrainerConfig(), device) == ([index], 8)
    environment = lightning_environment()
    assert environment.creates_processes_externally and environment.world_size() == 8
    assert (environment.global_rank(), environment.local_rank()) == (local_rank, 0)


@pytest.mark.parametrize(("settings", "devices", "by_torchrun", "words"), [
    ((4, 0, 2), 4, False, "--devices 4, but srun started 2"), ((4, 0, 2), 4, True, "but torchrun started 2"),
    ((2, 1, 4), "auto", False, "4 processes for 2 GPUs"), ((4, 0, 1), "auto", False, "--ntasks-per-node=4"),
])  # fmt: skip
def test_a_launch_that_fits_neither_options_nor_gpus_is_refused(launched, settings, devices, by_torchrun, words):
    launched(*settings, by_torchrun=by_torchrun)
    with pytest.raises(UsageError) as caught:
        device_and_world_size(TrainerConfig(devices=devices))
    assert words in str(caught.value)


def test_without_a_launcher_the_options_count(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_NTASKS", "4")  # a shell in an allocation, at which Lightning's own look fails
    trainer = TrainerConfig(accelerator="cpu", devices=2, num_nodes=3)
    device, world_size = device_and_world_size(trainer)
    assert world_size == 6 and lightning_devices(trainer, device) == (2, 3)
    assert not lightning_environment().creates_processes_externally
