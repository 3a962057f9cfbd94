"""The moving average of the weights lies on the device of the training."""

from types import SimpleNamespace

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from vit.models.spec import create_network
from vit.tasks.losses import TrainingLoss
from vit.training.callbacks.averaging import Averaging
from vit.training.callbacks.checks import NonFinite
from vit.training.loop import Classifier
from vit.training.recipes.recipe import OptimConfig


def test_the_averaged_weights_lie_where_the_network_will_be():
    """When the average is made, the network is still on the CPU; the device "meta" plays a GPU."""
    network = create_network("vit_nano_patch2_8", 3, depth=1)
    classifier = Classifier(network, OptimConfig(), total_steps=10, seed=0, loss=TrainingLoss(0.0))
    averaging = Averaging(0.9, NonFinite(network, skip=False))
    averaging.setup(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta"))), classifier, "fit")
    assert {weight.device.type for weight in averaging._average_model.parameters()} == {"meta"}
    assert {weight.device.type for weight in classifier.parameters()} == {"cpu"}


def test_the_average_is_pytorchs():
    """Weights and running statistics are averaged; whole numbers, as Swin's places in a table have, stay the same."""
    torch.manual_seed(0)
    network = create_network("resnet10_small", 3, widths=(4, 4, 4, 4))
    network.register_buffer("places", torch.arange(2401))
    classifier = Classifier(network, OptimConfig(), total_steps=10, seed=0, loss=TrainingLoss(0.0))
    averaging = Averaging(0.9, NonFinite(network, skip=False))
    averaging.setup(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu"))), classifier, "fit")
    ours = averaging._average_model
    expected = AveragedModel(classifier, avg_fn=get_ema_avg_fn(0.9), use_buffers=True)
    for step in range(1, 5):
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn_like(weight))
        network.train()(torch.randn(4, 3, 32, 32))
        ours.update_parameters(classifier)
        expected.update_parameters(classifier)
        assert int(ours.n_averaged) == step and ours.n_averaged.device.type == "cpu"
        for (name, one), (_, other) in zip(
            ours.module.state_dict().items(), expected.module.state_dict().items(), strict=True
        ):
            whole = None if other.is_floating_point() else classifier.state_dict()[name]
            torch.testing.assert_close(one, other if whole is None else whole, msg=name)
    assert not torch.equal(next(ours.module.network.parameters()), next(network.parameters()))
