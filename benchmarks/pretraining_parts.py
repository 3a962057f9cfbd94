"""What `pretraining.py` is made of: batches, a plain training loop, FLOPs of a step, features, linear probes

The loop has the objectives, the optimizer, the schedule and the augmentation of `vit pretrain` and `vit train`. It
leaves out checkpoints, validation and pages, so that the processor's time goes to the cells.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from vit.data.augment import Augment
from vit.data.batch import Batch
from vit.data.decode import read_image
from vit.data.loader import labeled_images
from vit.data.module import ImageDataModule, LoaderOptions
from vit.data.preprocess import Preprocess
from vit.data.samples import Samples, Source
from vit.extras.pretrain.objective import Objective
from vit.inference.devices import autocast, choose_precision
from vit.models.network import Network
from vit.training.optim import make_optimizer, make_schedule
from vit.training.recipes.recipe import OptimConfig

CPU = torch.device("cpu")
PRECISION = choose_precision("auto", CPU)
SMOOTHING = 0.1  # of labels in supervised training, as in `vit train`
NEIGHBORS = 5
PENALTIES = (0.001, 0.01, 0.1, 1.0)  # C of the linear probe; validation images choose one

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
LossOf = Callable[[Batch], Tensor]


def in_memory(samples: Samples) -> Samples:
    """The same images, decoded once for all cells."""
    pixels = [read_image(samples.file(place)).permute(1, 2, 0).numpy() for place in range(len(samples))]
    return Samples(samples.paths, samples.labels, arrays=pixels)


def packed(wrong: Bools) -> str:
    """Answers as text: their number, and their bits in hexadecimal digits."""
    return f"{len(wrong)}:{np.packbits(wrong).tobytes().hex()}"


def supervised_loss(network: Network) -> LossOf:
    """Cross-entropy of the images' labels."""
    return lambda batch: F.cross_entropy(network(batch.image).float(), batch.label, label_smoothing=SMOOTHING)


def objective_loss(objective: Objective) -> LossOf:
    """The loss of an objective. The batch's label is the number of each image."""

    def loss_of(batch: Batch) -> Tensor:
        loss: Tensor = objective(batch.image, batch.label, batch.draw_seed)
        return loss

    return loss_of


def batches(samples: Samples, preprocess: Preprocess, augment: Augment, size: int, seed: int) -> Iterator[Batch]:
    """Augmented training batches without end, in the order that `vit train` has with this seed."""
    source = Source("benchmark", ("all",), {"train": samples})
    options = LoaderOptions(size, num_workers=0, cache="memory", batches=1_000_000)
    data = ImageDataModule(source, preprocess, augment, options, seed)
    return map(data.augmented, data.train_dataloader())


def numbered(samples: Samples) -> Samples:
    """The samples with the number of each image as its label."""
    return replace(samples, labels=np.arange(len(samples)))


def step_flops(loss_of: LossOf, batch: Batch) -> int:
    """FLOPs of the matrix products in one training step, forward and backward."""
    with FlopCounterMode(display=False) as counter:
        _loss(loss_of, batch).backward()
    return counter.get_total_flops()


def train(
    trained: Network | Objective, loss_of: LossOf, drawn: Iterable[Batch], num_steps: int, config: OptimConfig
) -> list[float]:
    """Train for a number of steps at the precision that `vit train` has on this machine; the loss of each step.

    An objective may ask that its backbone rests in the first steps, while its new head learns.
    """
    trained.train()
    optimizer = make_optimizer(trained, config)
    schedule = make_schedule(optimizer, config, num_steps)
    resting = round(getattr(trained, "resting_fraction", 0.0) * num_steps)
    losses: list[float] = []
    for step, batch in enumerate(islice(drawn, num_steps)):
        optimizer.zero_grad()
        loss = _loss(loss_of, batch)
        loss.backward()
        if step < resting and isinstance(trained, Objective):
            trained.network.zero_grad()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), config.clip_norm)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    if not np.isfinite(losses).all():
        raise RuntimeError("a loss is not finite")
    return losses


def _loss(loss_of: LossOf, batch: Batch) -> Tensor:
    with autocast(PRECISION, CPU):
        return loss_of(batch)


@torch.inference_mode()
def outputs(network: nn.Module, samples: Samples, preprocess: Preprocess) -> Floats:
    """What a network gives for each image, as evaluation sees it: logits, or features of a network without classes."""
    network.eval()
    found = []
    for batch in labeled_images(samples, preprocess):
        if not batch.valid.all():
            raise RuntimeError(f"an image of {batch.path} cannot be read")
        with autocast(PRECISION, CPU):
            found.append(network(preprocess.normalize(batch.image)).float())
    return torch.cat(found).numpy()


def neighbor_accuracy(bank: Floats, labels: npt.ArrayLike, queries: Floats, truth: npt.ArrayLike) -> float:
    """Accuracy of the five nearest images by cosine distance, as the progress figure of `vit pretrain`."""
    fitted = KNeighborsClassifier(NEIGHBORS, weights="distance", metric="cosine").fit(bank, labels)
    return float((fitted.predict(queries) == truth).mean())


def probe_errors(
    bank: Floats, labels: npt.ArrayLike, validation: tuple[Floats, npt.ArrayLike], test: tuple[Floats, npt.ArrayLike]
) -> Bools:
    """Which test images a linear probe has wrong: logistic regression, its penalty chosen by validation images."""
    scaler = StandardScaler().fit(bank)
    fitted = [LogisticRegression(C=c, max_iter=500).fit(scaler.transform(bank), labels) for c in PENALTIES]
    best = max(fitted, key=lambda one: one.score(scaler.transform(validation[0]), validation[1]))
    return np.asarray(best.predict(scaler.transform(test[0])) != test[1])
