"""The device and the precision that a network runs at."""

import platform
import time

import pytest
import torch
from torch.nn.functional import linear

from vit.errors import UsageError
from vit.inference import devices
from vit.inference.devices import choose_device, choose_precision

CPU = torch.device("cpu")
TASK = {"SLURM_NTASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_STEP_ID": "0"}


def test_choices_of_the_machine():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in {"cpu", "cuda", "mps"}
    assert choose_precision("32-true", CPU) == "32-true"
    assert choose_precision("auto", torch.device("mps")) == "32-true"
    assert choose_precision("auto", CPU) in {"32-true", "bf16-mixed"}


@pytest.mark.parametrize(
    ("of_intel", "amx", "avx512_bf16", "expected"),
    [
        (True, True, True, "bf16-mixed"),
        (True, False, True, "32-true"),  # AMX that a virtual machine hides: measured 0.54 of the speed of float32
        (True, False, False, "32-true"),
        (False, False, True, "bf16-mixed"),
        (False, False, False, "32-true"),
    ],
)
def test_precision_of_a_cpu(monkeypatch, of_intel, amx, avx512_bf16, expected):
    """Which CPU it is is simulated; what follows is not."""
    monkeypatch.setattr(devices, "_is_of_intel", lambda: of_intel)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    assert choose_precision("auto", CPU) == expected


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the rule is for x86")
def test_the_automatic_precision_is_not_the_slow_one_here():
    """Products of this machine, in both precisions by turns. Other work slows both."""
    least = {"32-true": float("inf"), "bf16-mixed": float("inf")}
    types = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16}
    inputs = {name: (torch.randn(1024, 768).to(kind), torch.randn(768, 768).to(kind)) for name, kind in types.items()}
    for _ in range(10):
        for name, (tokens, weight) in inputs.items():
            began = time.perf_counter()
            linear(tokens, weight)
            least[name] = min(least[name], time.perf_counter() - began)
    assert least[choose_precision("auto", CPU)] < 1.4 * min(least.values()), least


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
    ("name", "words"),
    [
        ("cup", "choose one of auto, cpu, cuda, mps"),
        ("cud", "did you mean 'cuda'"),
        ("cuda:x", "cuda:x"),
        ("meta", "meta"),
        ("", "no device"),
    ],
)
def test_a_device_that_is_not_there(name, words):
    with pytest.raises(UsageError, match=words):
        choose_device(name)


@pytest.mark.parametrize(
    ("device", "precision", "expected"),
    [("cuda", "32-true", False), ("cuda", "bf16-mixed", True), ("cpu", "32-true", True)],
)
def test_float32_is_not_tf32_in_a_pass_of_float32(monkeypatch, device, precision, expected):
    """cuDNN's default has 10 bits of mantissa. A CPU leaves the setting, because several threads would change it."""
    from contextlib import nullcontext

    from torch import nn

    from vit.data.pixels.preprocess import Preprocess
    from vit.inference import engine as module
    from vit.models.spec import create_network

    seen = []
    network = create_network("vit_nano_patch2_8", 2, 8)
    network.register_forward_hook(lambda *_: seen.append(torch.backends.cudnn.allow_tf32))
    engine = module.Engine(network, Preprocess(8), CPU, precision)
    engine._computed = nn.Sequential(network)
    engine.device = torch.device(device)
    monkeypatch.setattr(module, "to_device", lambda images, _: images)
    monkeypatch.setattr(module, "autocast", lambda *_: nullcontext())
    assert torch.backends.cudnn.allow_tf32
    engine.logits(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    assert seen == [expected] and torch.backends.cudnn.allow_tf32
