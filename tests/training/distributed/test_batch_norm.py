"""Batch norm of several processes computes what that of one does; the network stays what it was otherwise."""

from copy import deepcopy

import pytest
import torch
import torch.distributed as dist

from vit.models.network import has_batch_norm
from vit.models.spec import create_network
from vit.training.distributed.devices import synchronized


@pytest.fixture
def alone():
    """A group of one process, over whose images statistics are those of an ordinary batch norm."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("name", ["resnet10_small", "mobilenetv3_small_050"])  # the latter's norms hold activations
def test_one_process_computes_what_it_did(alone, name):
    torch.manual_seed(0)
    plain = create_network(name, 3, image_size=32).double()
    network = synchronized(deepcopy(plain), torch.device("cpu"))
    assert list(network.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in network.named_parameters()] == [name for name, _ in plain.named_parameters()]
    images = torch.randn(8, 3, 32, 32).double()
    answers = []
    for each in (plain, network):
        each.train()
        torch.manual_seed(1)
        answers.append(each(images))
        answers[-1].square().sum().backward()
    assert torch.allclose(*answers)
    for (name, one), other in zip(plain.named_parameters(), network.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-7), name
    for (name, one), other in zip(plain.named_buffers(), network.buffers(), strict=True):
        assert torch.allclose(one, other, atol=1e-7), name
    assert torch.allclose(plain.eval()(images), network.eval()(images))


def test_which_networks_have_it():
    with torch.device("meta"):
        assert has_batch_norm(create_network("resnet10_small", 3))
        assert not has_batch_norm(create_network("vit_nano_patch2_8", 3))


def test_other_devices_get_pytorchs_own():
    with torch.device("meta"):
        network = synchronized(create_network("resnet10_small", 3), torch.device("cuda"))
    norms = [layer for layer in network.modules() if "BatchNorm" in type(layer).__name__]
    assert norms and all(isinstance(layer, torch.nn.SyncBatchNorm) for layer in norms)
