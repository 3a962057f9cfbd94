"""float16's loss scaling that comes to nothing leaves steps out without a word: it ends the training."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision

from vit.errors import DivergedError
from vit.models.spec import create_network
from vit.training import trainer
from vit.training.callbacks.non_finite import CHECK_BATCHES, NonFinite
from vit.training.classifier import Classifier
from vit.training.optim import make_optimizer
from vit.training.recipes.recipe import OptimConfig


def at(scale, batch):
    scaler = SimpleNamespace(get_scale=lambda: scale)
    return SimpleNamespace(
        precision_plugin=SimpleNamespace(scaler=scaler), fit_loop=SimpleNamespace(total_batch_idx=batch), global_step=9,
        optimizers=[SimpleNamespace(param_groups=[{"lr": 0.01}])], is_last_batch=False,
    )  # fmt: skip


@pytest.mark.faults("N3", simulated="the loss scale is given, nothing is computed in float16")
@pytest.mark.parametrize("skip", [False, True])
def test_a_scale_that_comes_to_nothing(skip):
    finite = NonFinite(torch.nn.Linear(1, 1), skip)
    for scale, batch in ((2.0**16, CHECK_BATCHES), (2.0**-20, CHECK_BATCHES), (2.0**-30, CHECK_BATCHES + 1)):
        finite.on_before_backward(at(scale, batch), None, torch.tensor(1.0))
    with pytest.raises(DivergedError, match="float16 at any scale") as caught:
        finite.on_before_backward(at(2.0**-30, 2 * CHECK_BATCHES), None, torch.tensor(1.0))
    assert caught.value.code == 6 and "bf16-mixed" in caught.value.fix


def test_the_error_names_the_rate_of_the_recipe_not_that_of_the_lowest_layer():
    network = create_network("vit_nano_patch2_8", 3, depth=2)
    trainer = at(1.0, 1)
    trainer.optimizers = [make_optimizer(network, OptimConfig(lr=0.5, layer_decay=0.1))]
    with pytest.raises(DivergedError, match=r"learning rate 0\.5\)"):
        NonFinite(network, skip=False).on_before_backward(trainer, None, torch.tensor(float("nan")))


@pytest.mark.faults(
    "N3", simulated="a hook makes gradients infinite; float16 and its scaler are PyTorch's own, on a CPU"
)
def test_gradients_that_overflow_float16_at_every_scale_end_the_training(vit, colors, tmp_path, monkeypatch):
    """float16 and its scaler are PyTorch's own, on a CPU, where the command line refuses float16."""
    scaler = torch.amp.GradScaler("cpu")
    make, configure = trainer._checked_trainer, Classifier.configure_optimizers

    def in_float16(plugins, precision, **settings):
        return make(plugins=[*plugins, MixedPrecision("16-mixed", "cpu", scaler)], **settings)

    def overflowing(classifier):
        for weight in classifier.parameters():
            weight.register_hook(lambda gradient: torch.full_like(gradient, float("inf")))
        return configure(classifier)

    monkeypatch.setattr(trainer, "_checked_trainer", in_float16)
    monkeypatch.setattr(Classifier, "configure_optimizers", overflowing)
    options = ("--network", "vit_nano_patch2_8", "--epochs", 11, "--batch_size", 6, "--augment", "none")
    answer = vit("train", colors, *options, "--optim.optimizer", "sgd", "--wandb", "off", "--out", tmp_path)
    assert answer.code == 6 and "gradients do not fit into float16 at any scale, after step " in answer.err, answer.err
    assert scaler.get_scale() < 2.0**-24
