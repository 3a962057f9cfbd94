"""Layouts of convolutional networks in memory: gradients are right where oneDNN's are not."""

import copy
import os
import sys

import pytest
import torch

from tests.forked import run
from tests.processes import ROOT
from vit.models.memory_format import checkpoint_blocks
from vit.models.spec import create_network
from vit.models.timm_network import TimmConfig, TimmNetwork

GRADIENTS = """
import sys
import torch
from vit.models.memory_format import compile_in_place
from vit.models.spec import create_network
torch.manual_seed(0)
network = create_network("resnet10_small", 3, 32, widths=(4, 8, 8, 8))
exact = create_network("resnet10_small", 3, 32, widths=(4, 8, 8, 8)).double()
exact.load_state_dict(network.state_dict())
cpu = torch.device("cpu")
network.laid_out_for(cpu)
if sys.argv[1] == "compiled":
    compile_in_place(network, cpu)
images = torch.randn(32, 3, 32, 32)
for module, batch in (network, images.contiguous(memory_format=torch.channels_last)), (exact, images.double()):
    for _ in range(3):
        module.zero_grad()
        module(batch).logsumexp(1).mean().backward()
for (name, weight), other in zip(network.named_parameters(), exact.parameters()):
    torch.testing.assert_close(weight.grad.double(), other.grad, rtol=1e-3, atol=1e-5, msg=name)
"""


@pytest.mark.faults("N9")
@pytest.mark.parametrize("how", ["plain", "compiled"])
@pytest.mark.slow
def test_gradients_of_narrow_convolutions_with_a_stride(how):
    """In channels-last this process crashes on a CPU of AVX2, which a variable asks others to be."""
    variables = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = run([sys.executable, "-c", GRADIENTS, how], env=variables, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("model", "on_cpu", "on_gpu"),
    [
        ("repvgg_a0", torch.contiguous_format, torch.channels_last),
        ("mobileone_s0", torch.contiguous_format, torch.channels_last),
        ("gernet_s", torch.contiguous_format, torch.channels_last),
        ("regnetx_002", torch.channels_last, torch.channels_last),
        ("resnet18", torch.channels_last, torch.channels_last),
        ("lambda_resnet26t", torch.contiguous_format, torch.contiguous_format),
    ],
)
def test_networks_have_the_fastest_layout_that_is_right(model, on_cpu, on_gpu):
    with torch.device("meta"):
        network = TimmNetwork(TimmConfig(model=model, image_size=224, num_classes=3))
    assert network.memory_format is torch.contiguous_format
    assert network.laid_out_for(torch.device("cuda")).memory_format is on_gpu
    assert network.laid_out_for(torch.device("cpu")).memory_format is on_cpu


def test_our_cnns_are_channels_last():
    for name in ("resnet10_small", "resnet18_cifar"):
        assert create_network(name, 3, 32).laid_out_for(torch.device("cpu")).memory_format is torch.channels_last


def test_blocks_that_are_computed_again_have_equal_gradients_and_keep_little():
    options = {"depth": 4, "drop_rate": 0.1, "attn_drop_rate": 0.1, "drop_path_rate": 0.5, "pool": "mean"}
    plain = create_network("vit_nano_patch2_8", 3, 8, **options).train()
    torch.nn.init.normal_(plain.head.weight)
    again = copy.deepcopy(plain)
    checkpoint_blocks(again)
    again = copy.deepcopy(again)  # as an average of weights is made
    assert again.state_dict().keys() == plain.state_dict().keys()
    gradients, kept = [], []
    for network in (plain, again):
        torch.manual_seed(1)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda kept, sizes=sizes: sizes.append(kept.numel()) or kept, id_
        ):
            network(torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(2))).logsumexp(1).sum().backward()
        gradients.append({name: weight.grad for name, weight in network.named_parameters()})
        kept.append(sum(sizes))
    assert all(torch.equal(gradients[1][name], value) for name, value in gradients[0].items())
    assert gradients[0]["blocks.0.attn.qkv.weight"].any() and kept[1] < kept[0] / 5


def id_(value):
    return value
