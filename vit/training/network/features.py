"""Features of a frozen backbone, each image computed once, and the last linear layer fitted to them

The features of an image depend on the backbone and on the content of the image. They do not depend on its split, on the
head, or on the other images. A study of linear probes therefore computes each image once for each backbone.

A fitted head is a multinomial logistic regression with an L2 penalty, or a logistic regression for each label of images
that may have several. It is fitted by L-BFGS, as in Kornblith et al. 2019, "Do Better ImageNet Models Transfer Better?"
(arXiv 1805.08974, appendix A.4).
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vit.atomic_files import atomic_write
from vit.checkpoints.locking import alone
from vit.data.core.batch import Batch
from vit.data.core.samples import Labels, Samples
from vit.data.loading.loader import labeled_images
from vit.errors import UsageError
from vit.inference.engine import Engine
from vit.layout import FeaturesLayout
from vit.models.network import Network
from vit.tasks.losses import Loss, LossName
from vit.tasks.task import LossOptions
from vit.training.losses import ClassBalance
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import PENALTIES
from vit.weights.adapt import head_names
from vit.weights.open import weights_hash

Compute = Callable[[Samples], tuple[Tensor, Labels]]
Labeled = tuple[Tensor, Tensor]  # features (n, D) float32, and class numbers (n,) or labels (n, K) float32
MAX_ITERATIONS = 300  # of L-BFGS; tens are usual
_HEX = 32  # characters of a content hash


@dataclass(frozen=True)
class StoredFeatures:
    """Features of images, found by the content of the image."""

    place: dict[str, int]  # {content hash: row of `values`}
    values: Tensor  # (n, D) float32
    seconds: float  # time of reading and computing all of them

    @property
    def seconds_per_image(self) -> float:
        """Time of reading and computing an image. NaN without images."""
        return self.seconds / len(self.values) if len(self.values) else float("nan")

    @classmethod
    def read(cls, path: Path) -> "StoredFeatures":
        """The features in a file; none where there is no such file, or where it is damaged: they are computed again."""
        try:
            held = load_file(path)
            hashes, values, seconds = held["hashes"].numpy(), held["features"], float(held["seconds"])
            if values.ndim != 2 or hashes.shape != (len(values), _HEX // 2) or not torch.isfinite(values).all():
                raise ValueError("shapes differ")
        except (OSError, KeyError, ValueError, SafetensorError):
            return cls({}, torch.zeros(0, 0), 0.0)
        return cls({row.tobytes().hex(): place for place, row in enumerate(hashes)}, values, seconds)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        hashes = np.array([list(bytes.fromhex(name)) for name in self.place], dtype=np.uint8)
        held = {"hashes": torch.from_numpy(hashes), "features": self.values, "seconds": torch.tensor(self.seconds)}
        with atomic_write(path) as partial:
            save_file(held, partial)


class SharedFeatures:
    """A folder with the features of one or several backbones, a file for each, which several processes fill.

    It knows {path: content hash} of all images; "" of an image that could not be read.
    """

    def __init__(self, folder: Path, hashes: Mapping[str, str]) -> None:
        self.folder, self.hashes = folder, hashes
        self._weights_hash = cache(weights_hash)  # reads the whole file

    def files(self, plan: Plan) -> FeaturesLayout:
        """The files of a plan's backbone on this machine, named by hashes of everything that decides the features."""
        machine = _hash([plan.precision, plan.device.type, torch.__version__])
        return FeaturesLayout(self.folder, self._backbone_hash(plan), machine)

    def all_files(self, plan: Plan) -> list[FeaturesLayout]:
        """The files of a plan's backbone, of every kind of machine that has computed some of its features."""
        return FeaturesLayout.of_backbone(self.folder, self._backbone_hash(plan))

    def _backbone_hash(self, plan: Plan) -> str:
        start = plan.recipe.model.init_from
        weights = None if start is None else self._weights_hash(start)
        return _hash([weights, plan.spec.to_plain(), plan.preprocess.to_dict()])

    def of(self, plan: Plan, samples: Samples, compute: Compute) -> tuple[Tensor, Labels]:
        """Features of images (m, D), and the indices (m,) of these images. Unreadable images have no features."""
        files, names = self.files(plan), [self.hashes[name] for name in samples.paths]
        self.folder.mkdir(parents=True, exist_ok=True)
        with alone(files.lock_path):
            stored = StoredFeatures.read(files.values_path)
            missing = {name: index for index, name in enumerate(names) if name and name not in stored.place}
            if missing:
                began, indices, first = time.perf_counter(), list(missing.values()), len(stored.place)
                values, read = compute(samples.select(indices))
                values = torch.cat((stored.values, values.cpu())) if first else values.cpu()
                place = stored.place | {names[indices[index]]: first + row for row, index in enumerate(read.tolist())}
                seconds = stored.seconds + time.perf_counter() - began
                stored = StoredFeatures(place, values.float().contiguous(), seconds)
                stored.write(files.values_path)
        readable = np.array([index for index, name in enumerate(names) if name in stored.place], dtype=np.int64)
        return stored.values[[stored.place[names[index]] for index in readable]], readable


def _hash(facts: list[object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


class FrozenBackbone:
    """A network without its last linear layer `head`, until `whole` puts it back. `engine` computes its features.

    UsageError: the network does not end in one linear layer.
    """

    def __init__(self, network: Network, plan: Plan) -> None:
        layer = last_layer(network)
        if layer is None:
            problem = f"{plan.spec.name} does not end in one linear layer"
            raise UsageError(problem, "leave --freeze out, or choose another --network")
        self.head_name, self.head = layer
        network.set_submodule(self.head_name, nn.Identity())  # now the network returns the features that its head reads
        self.network = network
        self.engine = Engine(network, plan.preprocess, plan.device, plan.precision)

    def features(self, batches: Iterable[Batch]) -> tuple[Tensor, Labels]:
        """Features (n, D) float32 of the images that can be read, on the device, and the indices (n,) of these."""
        features, valid = [], []
        for batch in batches:
            features.append(self.engine.logits(batch.image)[batch.valid].clone())  # because autograd will need it
            valid.append(batch.valid.cpu())
        return torch.cat(features), torch.cat(valid).nonzero().flatten().numpy()

    def features_of(self, samples: Samples) -> tuple[Tensor, Labels]:
        """The same for images that are only measured."""
        return self.features(labeled_images(samples, self.engine.preprocess))

    def whole(self) -> Network:
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
    """Features (n, D) of the images at given indices (n,), and class numbers (n,) or labels (n, K), -1 unknown."""
    values, readable = features
    return values, samples.task.targets(samples.labels[readable]).to(values.device)


def probe_loss(train: Samples, balance: ClassBalance, name: LossName) -> Loss:
    """The loss of a linear probe: without label smoothing, because nothing is augmented."""
    return train.task.loss(train.labels, LossOptions(name, 0.0, balance.weights, balance.adjustment))


class HeadFit:
    """Fits a linear head with one penalty after another; each fit starts from the one before."""

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
        """As `minimize`, where features have mean 0 and deviation 1."""
        return minimize(self._linear, self._features, self._labels, penalty, self._loss)

    @torch.inference_mode()
    def metrics(self) -> dict[str, float]:
        """The validation metrics of the last fit, by the names that `Classifier` logs."""
        logits, labels = self._linear(self._val_features), self._val_labels
        metrics = self._loss.metrics(logits.shape[1]).to(logits.device)
        values = metrics(self._loss.probabilities(logits), labels.long())
        values["loss"] = self._loss.validation_losses(logits, labels).mean()
        return {f"val/{name}": float(value) for name, value in values.items()}

    def put_best_into(self, head: nn.Linear) -> float:
        """Give a head the weights of the penalty with the lowest validation loss, which is returned."""
        lowest = float("inf")
        for penalty in PENALTIES:
            self.fit(penalty)
            if (val_loss := self.metrics()["val/loss"]) < lowest:
                lowest = val_loss
                self.put_into(head)
        return lowest

    @torch.no_grad()
    def put_into(self, head: nn.Linear) -> None:
        """Give a head the fitted weights, changed so that it reads features as they are."""
        weight = self._linear.weight / self._std
        head.weight.copy_(weight)
        head.bias.copy_(self._linear.bias - weight @ self._mean)


def minimize(
    head: nn.Linear, features: Tensor, labels: Tensor, penalty: float, training_loss: Loss
) -> tuple[float, int]:
    """Minimize the training loss + penalty / 2 |W|^2 over a head's weights: (training loss, number of iterations)."""
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
