"""float16's loss scaling that comes to nothing leaves steps out without a word: it ends the training."""

import re
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision

from tests.runs import run_folder
from vit.checkpoints.run import RunDirectory
from vit.errors import DivergedError
from vit.models.spec import create_network
from vit.training import loop
from vit.training.callbacks.checks import NonFinite
from vit.training.loop import Classifier
from vit.training.optim import make_optimizer
from vit.training.recipes.recipe import OptimConfig

ONE_BLOCK = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1)


def at(scale, batch, step=9):
    scaler = SimpleNamespace(get_scale=lambda: scale)
    return SimpleNamespace(
        precision_plugin=SimpleNamespace(scaler=scaler, precision="16-mixed"),
        fit_loop=SimpleNamespace(total_batch_idx=batch), global_step=step,
        optimizers=[SimpleNamespace(param_groups=[{"lr": 0.01}])], is_last_batch=False,
    )  # fmt: skip


@pytest.mark.faults("N3", simulated="the loss scale is given")
def test_a_step_that_the_scaler_leaves_out_is_counted_once():
    finite = NonFinite(torch.nn.Linear(1, 1), skip=False)
    finite.on_train_start(at(2.0**16, 0, step=0), None)
    scales = ((2.0**16, 0), (2.0**15, 1), (2.0**15, 1), (2.0**15, 2), (2.0**16, 3), (2.0**15, 4))
    for batch, (scale, step) in enumerate(scales):
        finite.on_train_batch_end(at(scale, batch, step), None, None, None, batch)
    assert (finite.skipped, finite.skipped_step) == (2, 3)
    finite.on_train_end(at(2.0**15, 9, step=4), None)


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
    make, configure = loop.Trainer, Classifier.configure_optimizers

    def in_float16(plugins, precision, **settings):
        return make(plugins=[*plugins, MixedPrecision("16-mixed", "cpu", scaler)], **settings)

    def overflowing(classifier):
        for weight in classifier.parameters():
            weight.register_hook(lambda gradient: torch.full_like(gradient, float("inf")))
        return configure(classifier)

    monkeypatch.setattr(loop, "Trainer", in_float16)
    monkeypatch.setattr(Classifier, "configure_optimizers", overflowing)
    options = (*ONE_BLOCK, "--epochs", 11, "--batch_size", 6, "--augment", "none")
    command = ("train", colors, *options, "--optim.optimizer", "sgd", "--wandb", "off", "--out", tmp_path)
    answer = vit(*command, "--epochs", 2)
    assert answer.code == 6 and re.search("all 1[0-9] steps were skipped: nothing was learned", answer.err), answer.err

    vit(*command).failed(6, "gradients do not fit into float16 at any scale, after step ")
    assert scaler.get_scale() < 2.0**-24


@pytest.mark.faults("N3", simulated="the first scale is high")
def test_steps_that_float16_leaves_out_are_in_the_result(vit, colors, tmp_path, monkeypatch):
    make = loop.Trainer

    def in_float16(plugins, precision, **settings):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**28)  # too high at first
        return make(plugins=[*plugins, MixedPrecision("16-mixed", "cpu", scaler)], **settings)

    monkeypatch.setattr(loop, "Trainer", in_float16)
    options = (*ONE_BLOCK, "--epochs", 8, "--batch_size", 6, "--augment", "none")
    vit("train", colors, *options, "--optim.optimizer", "sgd", "--wandb", "off", "--out", tmp_path).ok()
    result = RunDirectory(run_folder(tmp_path)).read_result()
    assert 0 < result.skipped_steps < result.steps
