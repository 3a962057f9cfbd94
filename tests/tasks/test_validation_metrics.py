"""Validation metrics are scikit-learn's, also where a class has no images."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, recall_score

from tests.processes import free_port
from tests.runs import run_folder
from tests.tables import rows
from vit.data.loading.loader import EVALUATION_BATCH_SIZE
from vit.extras.pretrain.pretrainer import BANK, QUERIES, NeighborAccuracy
from vit.tasks.losses import MultilabelLoss, TrainingLoss


def labels_loss():
    return MultilabelLoss("bce", 0.0, np.zeros(3), 1.0)


@given(st.integers(2, 7), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
def test_they_are_scikit_learn_s(num_classes, pairs):
    labels, predictions = (np.array(column) % num_classes for column in zip(*pairs, strict=True))
    probabilities = torch.full((len(labels), num_classes), 0.01)
    probabilities[torch.arange(len(labels)), torch.from_numpy(predictions)] = 0.9
    metrics = TrainingLoss(0.0).metrics(num_classes)
    for part in torch.arange(len(labels)).split(7):  # as batches come
        metrics.update(probabilities[part] / probabilities[part].sum(1, keepdim=True), torch.from_numpy(labels)[part])
    found = {name: float(value) for name, value in metrics.compute().items()}
    seen = np.unique(labels)
    assert found["acc1"] == pytest.approx((labels == predictions).mean())
    assert found["balanced_acc"] == pytest.approx(
        recall_score(labels, predictions, labels=seen, average="macro", zero_division=0)
    )
    assert found["macro_f1"] == pytest.approx(f1_score(labels, predictions, average="macro", zero_division=0))
    assert ("acc5" in found) == (num_classes > 5)


@pytest.mark.parametrize("first", [0, 9], ids=["all right", "all wrong"])
def test_a_first_batch_of_one_class_does_not_tie_metrics_together(first):
    """Class 0 is always the answer, and 1 to 4 follow: five of ten classes are among the first five, one is right."""
    answer = torch.arange(10, 0, -1.0).softmax(0)
    metrics = TrainingLoss(0.0).metrics(10)
    for label in [first, *(label for label in range(10) if label != first)]:
        metrics.update(answer.expand(4, 10), torch.full((4,), label))
    found = {name: float(value) for name, value in metrics.compute().items()}
    assert found["acc1"] == found["balanced_acc"] == pytest.approx(0.1) and found["acc5"] == pytest.approx(0.5)
    assert found["macro_f1"] == pytest.approx((2 * 4 / 44) / 10)


def test_a_training_whose_first_batch_of_validation_is_one_class_reports_its_own_metrics(vit, draw_classes, tmp_path):
    """Validation images are sorted by class, and a network that saw little but the first class gives it to all."""
    data = draw_classes(tmp_path / "data" / "train", "a", 90).parent
    draw_classes(data / "train", "bcdefghij", 1)
    draw_classes(data / "val", "a", EVALUATION_BATCH_SIZE, side=8)
    draw_classes(data / "val", "bcdefghij", 4, side=8)
    words = ("train", data, "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 1)
    words += ("--batch_size", 9, "--wandb", "off")
    vit(*words, "--out", tmp_path).ok()
    last = {name: float(value) for name, value in rows(run_folder(tmp_path) / "metrics.csv")[-1].items() if value}
    assert last["val/acc1"] == pytest.approx(EVALUATION_BATCH_SIZE / (EVALUATION_BATCH_SIZE + 36))
    assert last["val/balanced_acc"] == pytest.approx(0.1)


@pytest.mark.parametrize("seed", range(5))
def test_those_of_several_labels_are_scikit_learn_s_over_known_labels(seed):
    generator = np.random.default_rng(seed)
    labels = (generator.random((12, 4)) < (0.0, 0.1, 0.4, 0.8)).astype(np.int64)  # the first label is of no image
    labels[generator.random(labels.shape) < 0.2] = -1
    labels[0], labels[1, 1:] = -1, 1  # nothing is known of the first image
    probabilities = generator.random(labels.shape).round(2).astype(np.float32)
    metrics = labels_loss().metrics(4)
    for part in torch.arange(12).split(5):
        metrics.update(torch.from_numpy(probabilities)[part], torch.from_numpy(labels)[part])
    found = {name: float(value) for name, value in metrics.compute().items()}
    known, guess = labels >= 0, probabilities > 0.5
    of_label = [(labels[known[:, k], k], guess[known[:, k], k], probabilities[known[:, k], k]) for k in range(4)]
    aps = [average_precision_score(true, scores) for true, _, scores in of_label if true.any()]
    f1s = [f1_score(true, given) for true, given, _ in of_label if true.any() or given.any()]
    exact = ((labels == guess) | ~known).all(axis=1)[known.any(axis=1)]
    assert found["map"] == pytest.approx(np.mean(aps)) and found["macro_f1"] == pytest.approx(np.mean(f1s))
    assert found["micro_f1"] == pytest.approx(f1_score(labels[known], guess[known]))
    assert found["exact_match"] == pytest.approx(exact.mean())


def _joined(rank, port, answers):
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    labels, neighbors = labels_loss().metrics(3), NeighborAccuracy()
    own = slice(0, 1 - rank)  # the second process has no image
    if rank == 0:
        labels.update(torch.tensor([[0.9, 0.2, 0.4]]), torch.tensor([[1, 0, 1]]))
    neighbors.update(torch.eye(4)[rank::2], torch.arange(4)[rank::2], BANK)
    neighbors.update(torch.eye(4)[:1][own], torch.tensor([0])[own], QUERIES)
    answers.put([float(value) for value in (*labels.compute().values(), neighbors.compute())])
    dist.destroy_process_group()


@pytest.mark.faults("X1")
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_a_process_without_images_agrees(monkeypatch):
    """torchmetrics sends another shape and type for an empty list, which ends or hangs all processes."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    alone = labels_loss().metrics(3)
    alone.update(torch.tensor([[0.9, 0.2, 0.4]]), torch.tensor([[1, 0, 1]]))
    answers = mp.get_context("forkserver").SimpleQueue()
    mp.start_processes(_joined, (free_port(), answers), nprocs=2, start_method="forkserver")
    first, second = answers.get(), answers.get()
    assert first == second and first[:-1] == [float(value) for value in alone.compute().values()]
