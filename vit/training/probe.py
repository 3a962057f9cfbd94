"""A linear probe: the backbone stays as it is, its features are computed once, and a linear head is fitted to them.

Multinomial logistic regression with an L2 penalty, found by L-BFGS, as in Kornblith et al. 2019, "Do Better ImageNet
Models Transfer Better?" (arXiv 1805.08974, appendix A.4), whose penalties are logarithmically spaced, too. The one with
the smallest validation loss is kept. Each penalty is an "epoch" of metrics.csv; the strongest comes first, and each
starts from what the one before has found.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.result import TrainingStats
from vit.checkpoints.run import RunDirectory
from vit.csv_files import new_table
from vit.data.batch import Batch
from vit.data.module import ImageDataModule
from vit.errors import UsageError
from vit.inference.engine import Engine
from vit.models.network import Network
from vit.training.callbacks.recording import COLUMNS, Listener
from vit.training.plan import PENALTIES, Plan
from vit.weights.adapt import head_names

ITERATIONS = 300  # of L-BFGS at most; tens are usual


def probe(
    network: Network,
    description: Description,
    data: ImageDataModule,
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener],
) -> TrainingStats:
    """Fit the head of a network, and write best.ckpt and metrics.csv.

    Args:
        network: with the weights to start from; its last linear layer gets others.

    Raises:
        UsageError: the network does not end in one linear layer.
    """
    began = time.perf_counter()
    name, head = _head(network, plan.spec.name)
    network.set_submodule(name, nn.Identity())  # now the network's answer is what its head reads
    engine = Engine(network, plan.preprocess, plan.device, plan.precision)
    features, labels = _features(engine, data.evaluation_loader("train"))
    computed = time.perf_counter() - began
    val_features, val_labels = _features(engine, data.evaluation_loader("validation"))
    network.set_submodule(name, head)

    mean, std = features.mean(dim=0), features.std(dim=0).clamp_min(1e-6)
    features, val_features = (features - mean) / std, (val_features - mean) / std
    found = nn.Linear(features.shape[1], network.num_classes, device=features.device)
    nn.init.zeros_(found.weight)
    nn.init.zeros_(found.bias)
    best, steps = float("inf"), 0
    with new_table(run.metrics, COLUMNS) as table:
        for place, penalty in enumerate(PENALTIES):
            loss, iterations = _fit_head(found, features, labels, penalty)
            steps += iterations
            measured = _measured(found, val_features, val_labels)
            row = {"epoch": place, "step": steps, "train/loss": loss, **measured}
            row |= {"train/images_per_second": len(labels) / computed, "seconds": time.perf_counter() - began}
            table.row(row.get(name) for name in COLUMNS)
            for listener in listeners:
                listener.row(row, steps)
            if measured["val/loss"] < best:
                best = measured["val/loss"]
                _store(
                    network, head, found, (mean, std), run, replace(description, metrics={**measured, "epoch": place})
                )
    seconds, unreadable = time.perf_counter() - began, len(plan.source.splits["train"]) - len(labels)
    return TrainingStats(seconds, len(labels) / computed, steps, unreadable_images=unreadable)


def _head(network: Network, called: str) -> tuple[str, nn.Linear]:
    """The one layer that makes logits of features, by name."""
    heads = {name.rpartition(".")[0] for name in head_names(network)}
    if len(heads) == 1:
        name = heads.pop()
        head = network.get_submodule(name)
        if isinstance(head, nn.Linear) and head.bias is not None:
            return name, head
    raise UsageError(f"{called} does not end in one linear layer", "leave --freeze out, or choose another --network")


def _features(engine: Engine, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """What the head reads (n, D) float32, and class numbers (n,), on the engine's device."""
    features, labels = [], []
    for batch in batches:
        features.append(engine.logits(batch.image)[batch.valid].clone())  # a plain tensor: gradients flow behind it
        labels.append(batch.label[batch.valid])
    return torch.cat(features), torch.cat(labels).to(engine.device)


def _fit_head(head: nn.Linear, features: Tensor, labels: Tensor, penalty: float) -> tuple[float, int]:
    """Minimize cross-entropy + penalty / 2 |W|^2; gives the cross-entropy and the iterations that it took."""
    optimizer = torch.optim.LBFGS(
        head.parameters(),
        max_iter=ITERATIONS,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(head(features), labels) + penalty / 2 * head.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.inference_mode():
        loss = float(F.cross_entropy(head(features), labels))
    return loss, int(optimizer.state[head.weight]["n_iter"])


@torch.inference_mode()
def _measured(head: nn.Linear, features: Tensor, labels: Tensor) -> dict[str, float]:
    """The validation metrics of a training, by the names they have there."""
    logits = head(features)
    num_classes = logits.shape[1]
    probabilities = logits.softmax(dim=1)
    measured = {"val/loss": F.cross_entropy(logits, labels)}
    measured["val/acc1"] = multiclass_accuracy(probabilities, labels, num_classes, average="micro")
    if num_classes > 5:
        measured["val/acc5"] = multiclass_accuracy(probabilities, labels, num_classes, average="micro", top_k=5)
    measured["val/ece"] = multiclass_calibration_error(probabilities, labels, num_classes, n_bins=15)
    return {name: float(value) for name, value in measured.items()}


@torch.no_grad()
def _store(
    network: Network,
    head: nn.Linear,
    found: nn.Linear,
    scale: tuple[Tensor, Tensor],
    run: RunDirectory,
    description: Description,
) -> None:
    """Write the network with the head that was found, for features that are not standardized."""
    mean, std = scale
    weight = found.weight / std
    head.weight.copy_(weight)
    head.bias.copy_(found.bias - weight @ mean)
    write_checkpoint(checkpoint_content(description, network.state_dict()), run.best)
