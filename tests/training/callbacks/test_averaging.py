"""The moving average of the weights lies on the device of the training."""

from types import SimpleNamespace

import torch

from vit.models.spec import create_network
from vit.training.callbacks.averaging import Averaging
from vit.training.callbacks.non_finite import NonFinite
from vit.training.classifier import Classifier
from vit.training.recipes.recipe import OptimConfig
from vit.training.training_loss import TrainingLoss


def test_the_averaged_weights_lie_where_the_network_will_be():
    """When the average is made, the network is still on the CPU; the device "meta" plays a GPU."""
    network = create_network("vit_nano_patch2_8", 3, depth=1)
    classifier = Classifier(network, OptimConfig(), total_steps=10, seed=0, loss=TrainingLoss(0.0))
    averaging = Averaging(0.9, NonFinite(network, skip=False))
    averaging.setup(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta"))), classifier, "fit")
    assert {weight.device.type for weight in averaging._average_model.parameters()} == {"meta"}
    assert {weight.device.type for weight in classifier.parameters()} == {"cpu"}
