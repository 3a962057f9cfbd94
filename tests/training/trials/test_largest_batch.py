"""The largest batch that fits: memory of a device is simulated by an error like PyTorch's."""

from dataclasses import replace

import pytest
import torch

from vit.commands.training.train import run_trials
from vit.commands.training.train_options import read_words
from vit.console import Reporter
from vit.errors import ResourceError
from vit.training.loop import Classifier
from vit.training.planning.plan import plan_of

OPTIONS = ("--network", "vit_nano_patch2_8", "--precision", "32-true", "--batch_size", "auto", "--epochs", "2",
           "--init_from", "none")  # fmt: skip


@pytest.fixture
def searched(monkeypatch, tmp_path):
    """The batch size that a search finds where so many images of a micro-batch fit."""

    def search(fitting, *options):
        step = Classifier.training_step

        def limited(classifier, batch, place):
            if len(batch.image) > fitting:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return step(classifier, batch, place)

        monkeypatch.setattr(Classifier, "training_step", limited)
        plan = plan_of(read_words(["digits", *OPTIONS, *options, "--out", str(tmp_path)]).layers.recipe())
        open_choice = replace(plan.recipe, optim=replace(plan.recipe.optim, batch_size="auto"))
        found = run_trials(replace(plan, recipe=open_choice), 0.0, reporter=Reporter(quiet=True))[0]
        assert found.recipe.optim.batch_size == found.batch_size and not list(tmp_path.iterdir())
        again = plan_of(found.recipe)  # as a resumed run makes it from config.yaml
        assert (again.recipe, again.total_steps, again.rounds) == (found.recipe, found.total_steps, found.rounds)
        return found.batch_size

    return search


@pytest.mark.parametrize(("fitting", "batch_size"), [(9, 8), (10_000, 128)])
def test_the_largest_power_of_two_that_fits_and_leaves_steps(searched, fitting, batch_size):
    assert searched(fitting) == batch_size  # 1,259 training images: at most 157 in a batch


def test_micro_batches_and_pairs_divide_it(searched):
    assert searched(9, "--optim.accumulate", "3", "--augment", "strong") == 24


@pytest.mark.slow
def test_an_image_that_does_not_fit_is_an_error(searched):
    with pytest.raises(ResourceError, match=r"out of memory with 1 images of 8 pixels.*smaller --image_size"):
        searched(0)


def test_on_a_cpu_auto_is_the_automatic_batch_size():
    auto, automatic = (
        read_words(["digits", *OPTIONS, "--batch_size", word]).layers.recipe() for word in ("auto", "null")
    )
    assert plan_of(auto).recipe == plan_of(automatic).recipe
