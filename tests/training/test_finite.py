"""float16's loss scaling that comes to nothing leaves steps out without a word: it ends the training."""

from types import SimpleNamespace

import pytest
import torch

from vit.errors import DivergedError
from vit.training.finite import CHECK_BATCHES, Finite


def module(scale, batch):
    scaler = SimpleNamespace(get_scale=lambda: scale)
    trainer = SimpleNamespace(
        precision_plugin=SimpleNamespace(scaler=scaler), fit_loop=SimpleNamespace(total_batch_idx=batch), global_step=9,
        optimizers=[SimpleNamespace(param_groups=[{"lr": 0.01}])], is_last_batch=False,
    )  # fmt: skip
    return SimpleNamespace(trainer=trainer)


@pytest.mark.faults("N3", simulated="the loss scale is given, nothing is computed in float16")
@pytest.mark.parametrize("skip", [False, True])
def test_a_scale_that_comes_to_nothing(skip):
    finite = Finite(torch.nn.Linear(1, 1), skip)
    for scale, batch in ((2.0**16, CHECK_BATCHES), (2.0**-20, CHECK_BATCHES), (2.0**-30, CHECK_BATCHES + 1)):
        finite.watch(torch.tensor(1.0), None, module(scale, batch))
    with pytest.raises(DivergedError, match="float16 at any scale") as caught:
        finite.watch(torch.tensor(1.0), None, module(2.0**-30, 2 * CHECK_BATCHES))
    assert caught.value.code == 6 and "bf16-mixed" in caught.value.mend
