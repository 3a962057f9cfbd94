"""Class weights and adjustments are those of the papers; contradictions and empty classes are refused."""

import numpy as np
import pytest

from vit.data.core.samples import Samples, Source
from vit.errors import DataError, UsageError
from vit.training.losses import ClassBalance, class_balance
from vit.training.recipes.recipe import OptimConfig

NAMES = ("cat", "dog", "owl")
COUNTS = np.array([5000, 500, 50])


def source(counts=COUNTS):
    labels = np.repeat(np.arange(len(counts)), counts)
    return Source("toy", NAMES, {"train": Samples([str(i) for i in range(len(labels))], labels)})


def options(sampling="natural", **optim):
    return OptimConfig(**optim), sampling


def test_auto_is_scikit_learn_s_balanced():
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.repeat(np.arange(3), COUNTS)
    theirs = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(class_balance(*options(class_weights="auto"), source()).weights, theirs)


def test_effective_is_the_formula_of_the_paper():
    """Cui et al. 2019, equation 2, with beta 0.9999: the ratio of two weights does not depend on their scale."""
    weights = class_balance(*options(class_weights="effective"), source()).weights
    effective = (1 - 0.9999 ** COUNTS.astype(float)) / (1 - 0.9999)
    np.testing.assert_allclose(weights / weights[0], effective[0] / effective)


@pytest.mark.parametrize("sampling", ["natural", "balanced", "sqrt"])
@pytest.mark.parametrize("weights", ["auto", "effective", {"owl": 3.0}])
def test_the_mean_weight_of_drawn_images_is_1(sampling, weights):
    balance = ClassBalance(NAMES, COUNTS, sampling, weights)
    assert balance.shares @ balance.weights == pytest.approx(1)


def test_classes_without_a_weight_of_their_own_weigh_1():
    weights = class_balance(*options(class_weights={"owl": 3.0, "dog": 0.5}), source()).weights
    np.testing.assert_allclose(weights / weights[0], [1, 0.5, 3])


def test_logits_are_adjusted_by_the_logarithm_of_the_shares():
    balance = class_balance(*options(logit_adjustment=1.5), source())
    np.testing.assert_allclose(balance.adjustment, 1.5 * np.log(COUNTS / COUNTS.sum()))
    assert balance.weights is None and class_balance(*options(), source()).adjustment is None


@pytest.mark.faults("K14")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (options(class_weights={"owls": 2.0}), ["'owls'", "'cat', 'dog', 'owl'"]),
        (options("balanced", class_weights="auto"), ["--data.sampling balanced", "--optim.class_weights auto"]),
        (options("sqrt", logit_adjustment=1.0), ["--data.sampling sqrt", "--optim.logit_adjustment 1"]),
        (options(class_weights="effective", logit_adjustment=1.0), ["effective", "--optim.logit_adjustment 1"]),
    ],
)
def test_unknown_classes_and_double_corrections_are_refused(given, words):
    with pytest.raises(UsageError) as caught:
        class_balance(*given, source())
    assert all(word in str(caught.value) for word in words) and caught.value.fix


@pytest.mark.faults("D27")
@pytest.mark.parametrize(
    "given", [options("balanced"), options("sqrt"), options(class_weights="auto"), options(logit_adjustment=1.0)]
)
def test_a_class_without_training_images_cannot_be_corrected(given):
    empty = source(np.array([5, 0, 2]))
    with pytest.raises(DataError, match="'dog' has no training images"):
        class_balance(*given, empty)
    class_balance(OptimConfig(), "natural", empty)


def test_your_weights_go_with_every_draw():
    assert class_balance(*options("balanced", class_weights={"owl": 3.0}), source()).weights[2] > 1
