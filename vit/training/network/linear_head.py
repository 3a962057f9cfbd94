"""The last linear layer of a network, fitted to the features of a backbone

A fitted head is a multinomial logistic regression with an L2 penalty, or a logistic regression for each label of images
that may have several. It is fitted by L-BFGS, as in Kornblith et al. 2019, "Do Better ImageNet Models Transfer Better?"
(arXiv 1805.08974, appendix A.4).
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from vit.data.core.batch import Batch
from vit.data.core.samples import Labels, Samples
from vit.errors import UsageError
from vit.inference.engine import Engine
from vit.models.network import Network
from vit.tasks.losses import Loss, LossName
from vit.training.class_balance import ClassBalance
from vit.training.network.features import computed
from vit.training.planning.plan import Plan
from vit.weights.adapt import head_names

Labeled = tuple[Tensor, Tensor]  # features (n, D) float32, and class numbers (n,) or labels (n, K) float32


class FrozenBackbone:
    """A network without its last linear layer, until `whole` puts it back.

    Args:
        network: network of which the last linear layer is taken out.
        plan: training whose images it computes.

    Attributes:
        head: last linear layer, with its name `head_name`.
        engine: what computes features in the place of logits.

    Raises:
        UsageError: the network does not end in one linear layer.
    """

    def __init__(self, network: Network, plan: Plan) -> None:
        found = last_layer(network)
        if found is None:
            raise UsageError(
                f"{plan.spec.name} does not end in one linear layer", "leave --freeze out, or choose another --network"
            )
        self.head_name, self.head = found
        network.set_submodule(self.head_name, nn.Identity())  # now the network returns the features that its head reads
        self.network = network
        self.engine = Engine(network, plan.preprocess, plan.device, plan.precision)

    def features(self, batches: Iterable[Batch]) -> tuple[Tensor, Labels]:
        """Features (n, D) float32 of the images that can be read, on the device, and the indices (n,) of these."""
        values, kept = computed(self.engine, batches)
        return values, kept.numpy()

    def whole(self) -> Network:
        """The network with its last layer again."""
        self.network.set_submodule(self.head_name, self.head)
        return self.network


def last_layer(network: Network) -> tuple[str, nn.Linear] | None:
    """The only layer that computes logits from features, with its name; None if no linear layer does that alone."""
    heads = {name.rpartition(".")[0] for name in head_names(network)}
    if len(heads) != 1:
        return None
    name = heads.pop()
    head = network.get_submodule(name)
    return (name, head) if isinstance(head, nn.Linear) and head.bias is not None else None


def labeled(samples: Samples, features: tuple[Tensor, Labels]) -> Labeled:
    """Features (n, D), and class numbers (n,) of these images; of several labels (n, K) float32, -1 unknown.

    Args:
        samples: images, of which those at given indices (n,) have features (n, D).
    """
    values, kept = features
    return values, samples.task.targets(samples.labels[kept]).to(values.device)


MAX_ITERATIONS = 300  # of L-BFGS; tens are usual


def probe_loss(train: Samples, balance: ClassBalance, name: LossName) -> Loss:
    """The loss of a linear probe: without label smoothing, because nothing is augmented."""
    return train.task.loss(train.labels, name, 0.0, weights=balance.weights, adjustment=balance.adjustment)


class HeadFit:
    """Fits a linear head with one penalty after another; each fit starts from the one before.

    Args:
        train: features and labels of the training images.
        validation: those of the validation images.
        num_classes: number of classes or labels.
        loss: loss of the training.
    """

    def __init__(self, train: Labeled, validation: Labeled, num_classes: int, loss: Loss) -> None:
        features, self._labels = train
        val_features, self._val_labels = validation
        # one image has no sample deviation: its features have deviation 0, as features that are equal in all images
        std = features.std(dim=0, correction=min(1, len(features) - 1))
        self._mean, self._std = features.mean(dim=0), std.clamp_min(1e-6)
        self._features = (features - self._mean) / self._std
        self._val_features = (val_features - self._mean) / self._std
        self._loss = loss.to(features.device)
        self._linear = nn.Linear(features.shape[1], num_classes, device=features.device)
        nn.init.zeros_(self._linear.weight)
        nn.init.zeros_(self._linear.bias)

    def fit(self, penalty: float) -> tuple[float, int]:
        """Minimize the training loss + penalty / 2 |W|^2, where features have mean 0 and deviation 1.

        Returns:
            the training loss, and the number of iterations.
        """
        return minimize(self._linear, self._features, self._labels, penalty, self._loss)

    @torch.inference_mode()
    def metrics(self) -> dict[str, float]:
        """The validation metrics of the last fit, by the names that `Classifier` logs."""
        logits, labels = self._linear(self._val_features), self._val_labels
        metrics = self._loss.metrics(logits.shape[1]).to(logits.device)
        values = metrics(self._loss.probabilities(logits), labels.long())
        values["loss"] = self._loss.validation_losses(logits, labels).mean()
        return {f"val/{name}": float(value) for name, value in values.items()}

    @torch.no_grad()
    def put_into(self, head: nn.Linear) -> None:
        """Give a head the fitted weights, changed so that it reads features as they are."""
        weight = self._linear.weight / self._std
        head.weight.copy_(weight)
        head.bias.copy_(self._linear.bias - weight @ self._mean)


def minimize(
    head: nn.Linear, features: Tensor, labels: Tensor, penalty: float, training_loss: Loss
) -> tuple[float, int]:
    """Minimize the training loss + penalty / 2 |W|^2 over a head's weights.

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
