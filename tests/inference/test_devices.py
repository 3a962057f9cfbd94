"""The device and the precision that a network runs at."""

import pytest
import torch

from vit.errors import UsageError
from vit.inference.devices import choose_device, choose_precision

TASK = {"SLURM_NTASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_STEP_ID": "0"}


def test_choices_of_the_machine():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in {"cpu", "cuda", "mps"}
    assert choose_precision("32-true", torch.device("cpu")) == "32-true"
    assert choose_precision("auto", torch.device("mps")) == "32-true"
    assert choose_precision("auto", torch.device("cpu")) in {"32-true", "bf16-mixed"}


@pytest.mark.parametrize("name", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("variables", "visible", "expected"),
    [
        ({}, 4, 0),
        ({"LOCAL_RANK": "2"}, 4, 2),
        (TASK, 4, 3),  # tasks of srun that all see the GPUs of their machine
        (TASK, 1, 0),  # tasks that see one GPU each
        ({**TASK, "LOCAL_RANK": "1"}, 4, 1),
    ],
)
def test_each_process_takes_a_gpu_of_its_own(monkeypatch, name, variables, visible, expected):
    """Whether there is a GPU is simulated; which one is chosen is not."""
    for variable in ("RANK", "LOCAL_RANK", *TASK):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    assert choose_device(name) == torch.device("cuda", expected)


@pytest.mark.parametrize(
    ("name", "words"), [("cqu", "'cpu'"), ("cuda:x", "cuda:x"), ("meta", "meta"), ("", "no device")]
)
def test_a_device_that_is_not_there(name, words):
    with pytest.raises(UsageError, match=words):
        choose_device(name)
