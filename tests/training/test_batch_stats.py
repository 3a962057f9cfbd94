"""A fine-tuned CNN keeps the statistics of its batch norms, which would else drift from those of the weights."""

from dataclasses import replace

import pytest
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tests.conftest import ask
from tests.parity.test_processes import ROOT, torchrun
from tests.runs import run_folder
from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_layers import RecipeLayers
from vit.data.loading.loader import labeled_images
from vit.models.spec import create_network
from vit.training.planning.plan import plan_of
from vit.training.running.oom_retry import describe_parts, with_more_parts

STATS = ("running_mean", "running_var", "num_batches_tracked")
KEPT = "batch norms keep their mean and variance"


@pytest.fixture(scope="module")
def cnn(tmp_path_factory, colors):
    """The best checkpoint of a CNN with batch norms, trained on colored images."""
    out = tmp_path_factory.mktemp("cnn")
    options = ("--network", "resnet10_small", "--model.network.widths", "[4,4,4,4]", "--epochs", 4)
    return trained(colors, out, *options)


def trained(colors, out, *options):
    """The best checkpoint of a training."""
    ask("train", colors, *options, "--batch_size", 8, "--wandb", "off", "--out", out).ok()
    return RunDirectory(run_folder(out)).best_path


def finetuned(colors, cnn, out, *options):
    """The best checkpoint after a fine-tuning."""
    return trained(colors, out, "--init_from", cnn, "--epochs", 2, "--optim.best_metric", "last", *options)


def changes(before, after):
    """({names of the statistics that differ}, {names of the weights that differ}), beyond an average's rounding."""
    old, new = (load(path)[0].state_dict() for path in (before, after))
    changed = {name for name in old if not torch.allclose(old[name], new[name], rtol=1e-6, atol=1e-8)}
    stats = {name for name in changed if name.endswith(STATS)}
    return stats, changed - stats


def test_the_recipe_keeps_statistics_and_trains_everything_else(colors, cnn, tmp_path):
    stats, weights = changes(cnn, finetuned(colors, cnn, tmp_path))
    assert not stats
    assert {name for name, _ in load(cnn)[0].named_parameters()} == weights


def test_without_it_statistics_follow_the_images(colors, cnn, tmp_path):
    stats, _ = changes(cnn, finetuned(colors, cnn, tmp_path, "--freeze", "none"))
    assert stats == {name for name in load(cnn)[0].state_dict() if name.endswith(STATS)}


@pytest.mark.parametrize(("freeze", "is_same"), [(None, True), ("none", False)])
def test_a_fine_tuning_that_changes_no_weight_predicts_as_before(colors, cnn, tmp_path, freeze, is_same):
    """EfficientNet-Lite0 lost 12 points of accuracy in 3 epochs with a learning rate of 1e-9."""
    given = () if freeze is None else ("--freeze", freeze)
    after = finetuned(colors, cnn, tmp_path, "--lr", 1e-12, *given)
    plan = tuned_plan(colors, cnn)
    (batch,) = labeled_images(plan.source.splits["train"], plan.preprocess)
    images = plan.preprocess.normalize(batch.image)
    with torch.inference_mode():
        old, new = (load(path)[0].eval()(images) for path in (cnn, after))
    assert torch.allclose(old, new, atol=1e-3) == is_same


def test_batch_norms_compute_as_in_evaluation_and_dropout_does_not():
    network = create_network("mobilenetv3_small_050", 3)  # its norms hold activations
    network.keeps_batch_stats = True
    for mode in (True, False, True):
        network.train(mode)
        norms = [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
        assert norms and not any(layer.training for layer in norms)
        assert {layer.training for layer in network.modules() if layer not in norms} >= {mode}
        assert network.training == mode


def tuned_plan(colors, cnn, **model):
    options = {f"model.{name}": value for name, value in {"init_from": str(cnn), **model}.items()}
    recipe = RecipeLayers(options={"data.source": str(colors), **options}).recipe()
    return plan_of(replace(recipe, optim=replace(recipe.optim, batch_size=2)))


def test_a_micro_batch_of_one_image_has_statistics_only_where_they_are_kept(colors, cnn):
    divided = with_more_parts(tuned_plan(colors, cnn))
    assert divided is not None and divided.recipe.optim.accumulate == 2
    assert "batch norm" not in describe_parts(divided)
    assert with_more_parts(tuned_plan(colors, cnn, freeze="none")) is None


def test_the_plan_says_it_of_a_network_with_batch_norm_alone(vit, colors, cnn, digits_run, tmp_path):
    for weights, is_said in ((cnn, True), (digits_run.best, False)):
        answer = vit("train", colors, "--init_from", weights, "--dry_run", "--out", tmp_path).ok()
        assert (KEPT in " ".join(answer.out.split())) == is_said


@pytest.mark.faults("K24")
def test_random_weights_have_no_statistics_to_keep(vit, colors, tmp_path):
    answer = vit("train", colors, "--network", "resnet10_small", "--freeze", "batch_stats", "--out", tmp_path).failed(2)
    assert "--freeze batch_stats without weights to start from; give --init_from, or --freeze none" in answer.err


@pytest.mark.slow
def test_two_processes_keep_them_too(colors, cnn, tmp_path):
    options = (colors, "--init_from", cnn, "--epochs", 1, "--wandb", "off", "--out", tmp_path)
    done = torchrun(tmp_path, ROOT / "train.py", *map(str, options))
    assert done.returncode == 0, done.stderr
    stats, weights = changes(cnn, RunDirectory(run_folder(tmp_path)).best_path)
    assert not stats and weights
