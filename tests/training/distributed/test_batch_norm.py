"""Batch norm of several GPUs is PyTorch's; on several CPUs it is refused."""

import pytest
import torch

from vit.models.network import has_batch_norm
from vit.models.spec import create_network
from vit.training.distributed.devices import synchronized


def test_which_networks_have_it():
    with torch.device("meta"):
        assert has_batch_norm(create_network("resnet10_small", 3))
        assert not has_batch_norm(create_network("vit_nano_patch2_8", 3))


@pytest.mark.parametrize("name", ["resnet10_small", "mobilenetv3_small_050"])  # the latter's norms hold activations
def test_gpus_share_pytorchs_own(name):
    with torch.device("meta"):
        network = synchronized(create_network(name, 3, image_size=32), torch.device("cuda"))
    norms = [layer for layer in network.modules() if "BatchNorm" in type(layer).__name__]
    assert norms and all(isinstance(layer, torch.nn.SyncBatchNorm) for layer in norms)


def test_several_cpus_are_refused_before_the_first_step(vit):
    answer = vit("train", "--config", "digits_cnn", "--wandb", "off", "--trainer.accelerator", "cpu", "--devices", 2)
    assert answer.code == 2
    assert "batch norm" in answer.err and "--devices 1" in answer.err
