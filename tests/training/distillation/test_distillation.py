"""Which head learns what: labels and teacher with one head, or the teacher with the distillation token's."""

import copy

import pytest
import torch

from tests.training.distillation.test_teacher_logits import batch_of
from vit.models.spec import create_network
from vit.tasks.losses import TrainingLoss
from vit.training.distillation import Distillation, TeachingLoss

TEACHER = torch.tensor([[4.0, 0, 0], [0, 4.0, 0], [0, 0, 4.0], [4.0, 0, 0]])
IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Fixed:
    """Teacher's logits that do not depend on the images."""

    def of(self, batch):
        return TEACHER


def gradients(pool, kind, weight):
    torch.manual_seed(0)
    network = create_network("vit_nano_patch2_8", 3, pool=pool)
    distillation = Distillation(Fixed(), TeachingLoss(kind, 4.0, weight))
    loss = distillation.of(network, batch_of(IMAGES), TrainingLoss(0.0))
    loss.backward()
    return network, loss


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_the_head_of_the_class_token_learns_labels_alone(kind):
    network, _ = gradients("cls_dist", kind, 1.0)  # the teacher alone
    assert not network.head.weight.grad.any()
    assert network.head_dist.weight.grad.abs().sum() > 0
    network, _ = gradients("cls_dist", kind, 1e-9)  # the labels alone
    assert network.head.weight.grad.abs().sum() > 1e-3
    assert network.head_dist.weight.grad.abs().max() < 1e-6


def test_without_the_token_the_one_head_learns_both():
    network, loss = gradients("cls", "hard", 0.5)
    logits = network(IMAGES)
    expected = [
        torch.nn.functional.cross_entropy(logits, labels) for labels in (torch.zeros(4).long(), TEACHER.argmax(1))
    ]
    torch.testing.assert_close(loss, sum(expected) / 2)
    assert network.head.weight.grad.abs().sum() > 0


def test_half_each_for_the_two_tokens_and_their_mean_predicts():
    network, _ = gradients("cls_dist", "hard", 0.5)
    with torch.no_grad():
        network.head.weight.normal_()
        network.head_dist.weight.normal_()
    distillation = Distillation(Fixed(), TeachingLoss("hard", 4.0, 0.5))
    tokens = network.encode(IMAGES)
    labeled, taught = network.head(tokens[:, 0]), network.head_dist(tokens[:, 1])
    torch.testing.assert_close(network(IMAGES), (labeled + taught) / 2)
    cross_entropy = torch.nn.functional.cross_entropy
    expected = (cross_entropy(labeled, torch.zeros(4).long()) + cross_entropy(taught, TEACHER.argmax(1))) / 2
    torch.testing.assert_close(distillation.of(network, batch_of(IMAGES), TrainingLoss(0.0)), expected)


def test_a_copy_of_the_classifier_has_the_same_teacher():
    distillation = Distillation(Fixed(), TeachingLoss("soft", 4.0, 0.9))
    assert copy.deepcopy([distillation])[0] is distillation
