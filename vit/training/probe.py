"""A linear probe: computes the features of a frozen backbone once, and fits a linear head to them

The head is a multinomial logistic regression with an L2 penalty, or a logistic regression for each label of images that
may have several. It is fitted by L-BFGS, as in Kornblith et al. 2019, "Do
Better ImageNet Models Transfer Better?" (arXiv 1805.08974, appendix A.4). The penalties are logarithmically spaced, as
in that paper. The probe keeps the head with the smallest validation loss, or the highest value of `optim.best_metric`.

Each penalty is an "epoch" of metrics.csv. The strongest penalty comes first. Each fit starts from the previous one.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.run import RunDirectory
from vit.csv_files import new_table
from vit.data.batch import Batch
from vit.data.module import ImageDataModule
from vit.errors import UsageError
from vit.inference.engine import Engine
from vit.models.network import Network
from vit.training.callbacks.listener import Listener
from vit.training.callbacks.metrics_csv import columns_of
from vit.training.choose_loss import Loss, choose_loss
from vit.training.initial_network import describe
from vit.training.multilabel_loss import MultilabelLoss
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.training.result import TrainingStats
from vit.training.validation_metrics import validation_metrics
from vit.weights.adapt import head_names

MAX_ITERATIONS = 300  # of L-BFGS; tens are usual


def probe(
    network: Network, data: ImageDataModule, plan: Plan, run: RunDirectory, listeners: Sequence[Listener]
) -> TrainingStats:
    """Fit the head of a network, and write best.ckpt and metrics.csv.

    Args:
        network: network with the weights to start from. Its last linear layer gets new weights.

    Raises:
        UsageError: the network does not end in one linear layer.
    """
    began = time.perf_counter()
    name, head = _head(network, plan.spec.name)
    network.set_submodule(name, nn.Identity())  # now the network returns the features that its head reads
    engine = Engine(network, plan.preprocess, plan.device, plan.precision)
    features, labels = _features(engine, data.evaluation_loader("train"))
    images_per_second = len(labels) / (time.perf_counter() - began)
    val_features, val_labels = _features(engine, data.evaluation_loader("validation"))
    network.set_submodule(name, head)

    mean, std = features.mean(dim=0), features.std(dim=0).clamp_min(1e-6)
    features, val_features = (features - mean) / std, (val_features - mean) / std
    fitted = nn.Linear(features.shape[1], network.num_classes, device=features.device)
    nn.init.zeros_(fitted.weight)
    nn.init.zeros_(fitted.bias)
    train, loss_name = plan.source.splits["train"], plan.recipe.optim.multilabel_loss
    training_loss = choose_loss(train, plan.class_balance, loss_name, label_smoothing=0.0).to(features.device)
    metric = f"val/{plan.recipe.optim.best_metric}"
    sign = -1.0 if metric == "val/loss" else 1.0
    best, steps = float("-inf"), 0
    columns = columns_of(plan.source.is_multilabel)
    with new_table(run.metrics_path, columns) as table:
        for number, penalty in enumerate(PENALTIES):
            loss, iterations = _fit_head(fitted, features, labels, penalty, training_loss)
            steps += iterations
            metrics = _metrics(fitted, val_features, val_labels, training_loss)
            row = {"epoch": number, "step": steps, "train/loss": loss, **metrics}
            row |= {"train/images_per_second": images_per_second, "seconds": time.perf_counter() - began}
            table.row(row.get(name) for name in columns)
            for listener in listeners:
                listener.row(row, steps)
            if sign * metrics[metric] > best:
                best = sign * metrics[metric]
                _set_head(head, fitted, mean, std)
                _save(network, replace(describe(plan), metrics={**metrics, "epoch": number}), run)
    num_unreadable = len(plan.source.splits["train"]) - len(labels)
    return TrainingStats(time.perf_counter() - began, images_per_second, steps, unreadable_images=num_unreadable)


def _head(network: Network, network_name: str) -> tuple[str, nn.Linear]:
    """The only layer that computes logits from features, with its name."""
    heads = {name.rpartition(".")[0] for name in head_names(network)}
    if len(heads) == 1:
        name = heads.pop()
        head = network.get_submodule(name)
        if isinstance(head, nn.Linear) and head.bias is not None:
            return name, head
    raise UsageError(
        f"{network_name} does not end in one linear layer", "leave --freeze out, or choose another --network"
    )


def _features(engine: Engine, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features that the head reads (n, D) float32, and labels as a batch has them, on the device of the engine."""
    features, labels = [], []
    for batch in batches:
        features.append(engine.logits(batch.image)[batch.valid].clone())  # a clone, because autograd will need it
        labels.append(batch.label[batch.valid])
    return torch.cat(features), torch.cat(labels).to(engine.device)


def _fit_head(
    head: nn.Linear, features: Tensor, labels: Tensor, penalty: float, training_loss: Loss
) -> tuple[float, int]:
    """Minimize the training loss + penalty / 2 |W|^2.

    Returns:
        the training loss, and the number of iterations.
    """
    optimizer = torch.optim.LBFGS(
        head.parameters(),
        max_iter=MAX_ITERATIONS,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = training_loss(head(features), labels) + penalty / 2 * head.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.inference_mode():
        loss = float(training_loss(head(features), labels))
    return loss, int(optimizer.state[head.weight]["n_iter"])


@torch.inference_mode()
def _metrics(head: nn.Linear, features: Tensor, labels: Tensor, loss: Loss) -> dict[str, float]:
    """The validation metrics, by the names that `Classifier` logs."""
    logits = head(features)
    metrics = validation_metrics(logits.shape[1], isinstance(loss, MultilabelLoss)).to(logits.device)
    values = metrics(loss.probabilities(logits), labels.long())
    values["loss"] = loss.validation_losses(logits, labels).mean()
    return {f"val/{name}": float(value) for name, value in values.items()}


@torch.no_grad()
def _set_head(head: nn.Linear, fitted: nn.Linear, mean: Tensor, std: Tensor) -> None:
    """Give a head the weights fitted on standardized features, changed so that it reads features as they are."""
    weight = fitted.weight / std
    head.weight.copy_(weight)
    head.bias.copy_(fitted.bias - weight @ mean)


def _save(network: Network, description: Description, run: RunDirectory) -> None:
    write_checkpoint(checkpoint_content(description, network.state_dict()), run.best_path)
