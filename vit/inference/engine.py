"""A network applied to images: probabilities of batches, and scores of all images of a split"""

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from vit.checkpoints.label_rules import LabelRules
from vit.data.core.batch import Batch
from vit.data.pixels.preprocess import Preprocess, to_device
from vit.errors import DataError
from vit.inference.deployment import LoadedModel, prepared, probabilities_of
from vit.inference.devices import autocast, choose_precision, full_float32
from vit.inference.scores.scored_images import Floats, Scored, ScoredImages, ScoredLabels
from vit.launch import of_all_processes, rank_and_world_size
from vit.models.heads import classifier_names, with_features
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer

CPU_PIXELS = 16 * 224 * 224  # of a pass of a CNN on a CPU: activations of more pixels cost 20 % more time
CPU_BYTES = 16 * 2**20  # of the widest activation of a ViT in a pass on a CPU: more than 32 MiB cost 25 to 60 %


@contextmanager
def distributed() -> Iterator[int]:
    """While entered: the processes that torchrun started are connected. Gives the rank of this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0
        return
    dist.init_process_group("gloo")  # processes exchange counts and results, never tensors of a GPU
    try:
        yield dist.get_rank()
        dist.barrier()
    finally:
        dist.destroy_process_group()


class Engine:
    """A network on a device: images (B, 3, S, S) uint8 -> probabilities (B, C) float32.

    It computes with what `prepared` makes of the network here. `network` stays as it is.
    """

    name = "torch"

    def __init__(
        self,
        network: Network,
        preprocess: Preprocess,
        device: torch.device,
        precision: str,
        temperature: float = 1.0,
        rules: LabelRules | None = None,
    ) -> None:
        self.network = network.to(device).laid_out_for(device).eval()
        self.preprocess, self.device, self.temperature, self.rules = preprocess, device, temperature, rules
        self.precision = choose_precision(precision, device)
        self._computed = prepared(self.network, device, self.precision)
        self._with_features: nn.Module | None = None
        self._max_images = images_of_a_pass(network, self.precision) if device.type == "cpu" else None

    def logits(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> logits (B, C) float32."""
        return self._output(self._computed, images)

    @torch.inference_mode()
    def _output(self, module: nn.Module, images: Tensor) -> Tensor:
        outputs = []
        for part in images.split(self._max_images or len(images)):
            normalized = self.preprocess.normalize(to_device(part, self.device))
            with autocast(self.precision, self.device), full_float32(self.precision, self.device):
                outputs.append(module(normalized).float())
        return torch.cat(outputs)

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32 on the CPU."""
        return probabilities_of(self.logits(images), self.temperature, self.rules).cpu()

    def keep_features(self) -> bool:
        """Make `probabilities_and_features` possible.

        False where the last layer of the network is not known, or is not the last that computes: some of timm's
        networks index it, or add to its logits. One image tells.
        """
        names = classifier_names(self.network)
        if names and self._with_features is None:
            made = with_features(self._computed, names)
            if isinstance(self.network, VisionTransformer) or self._agrees(made):
                self._with_features = made
        return self._with_features is not None

    def _agrees(self, with_features: nn.Module) -> bool:
        """Whether a network with features gives the logits of this one, and features (B, D) beside them."""
        side, count = self.network.image_size, self.network.num_classes
        image = torch.zeros(1, self.preprocess.channels, side, side, dtype=torch.uint8)
        logits = self.logits(image)
        # timm's networks may do anything with a last layer, and raise errors of many types; torch.fx prints them.
        with suppress(Exception), redirect_stderr(io.StringIO()):
            output = self._output(with_features, image)
            same = output.ndim == 2 and torch.allclose(output[:, :count], logits, rtol=0.01, atol=0.01, equal_nan=True)
            return same and output.shape[1] > count
        return False

    def logits_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """One pass: images (B, 3, S, S) uint8 -> logits (B, C) and features that the last layer reads (B, D), float32.

        Call `keep_features` first.
        """
        assert self._with_features is not None
        logits, features = self._output(self._with_features, images).tensor_split([self.network.num_classes], dim=1)
        return logits, features

    def probabilities_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """As `logits_and_features`, with probabilities (B, C) in place of logits, on the CPU."""
        logits, features = self.logits_and_features(images)
        return probabilities_of(logits, self.temperature, self.rules).cpu(), features.cpu()


def trained_engine(trained: LoadedModel, device: torch.device, precision: str) -> Engine:
    """The engine of a checkpoint, with its calibration."""
    about = trained.description
    return Engine(trained.network, about.preprocess, device, precision, about.temperature, about.multilabel)


def images_of_a_pass(network: Network, precision: str) -> int:
    """The number of images that a CPU computes at once. Larger batches are split."""
    if not isinstance(network, VisionTransformer):
        return max(1, CPU_PIXELS // network.image_size**2)
    config = network.config
    channels = max(config.mlp_dim, 3 * config.embed_dim)
    tokens = config.num_patches + config.num_prefix_tokens
    return max(1, CPU_BYTES // (channels * tokens * (2 if precision == "bf16-mixed" else 4)))


class Classifies(Protocol):
    """Whatever computes probabilities of prepared images: an `Engine`, or an exported file."""

    device: torch.device
    temperature: float
    rules: LabelRules | None

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32 on the CPU."""


NoveltyOf = Callable[[Tensor], Floats]  # features (B, D) -> (B,)


def score(engine: Classifies, batches: Iterable[Batch], novelty_of: NoveltyOf | None = None) -> Scored:
    """Score every valid image of all processes once, in the order of the list. Every process gets all scores.

    ScoredLabels if the engine has rules of labels, else ScoredImages, with novelty where `novelty_of` makes it of the
    features of an `Engine` that keeps them. DataError where none of the images can be read.
    """
    rank, processes = rank_and_world_size()
    paths, labels, probabilities, novelty = list[str](), list[Tensor](), list[Tensor](), list[Floats]()
    places: list[int] = []  # in the list of images: process r of n scores images r, r + n, r + 2n, ...
    left_out: dict[str, str] = {}
    seen = 0
    for batch in batches:
        valid = batch.valid.cpu()
        if novelty_of is None or not isinstance(engine, Engine):
            probabilities.append(engine.probabilities(batch.image)[valid])
        else:
            of_batch, features = engine.probabilities_and_features(batch.image)
            probabilities.append(of_batch[valid])
            novelty.append(novelty_of(features[valid]))
        labels.append(batch.label[batch.valid].cpu())
        rows = valid.nonzero().flatten().tolist()
        paths += [batch.path[row] for row in rows]
        places += [(seen + row) * processes + rank for row in rows]
        left_out |= {path: error for path, error in zip(batch.path, batch.error, strict=True) if error}
        seen += len(batch)
    if not labels:
        raise DataError("there are no images to score", "give images with labels")
    names, truth, outputs = tuple(paths), torch.cat(labels).numpy(), torch.cat(probabilities).numpy()
    scored: Scored
    if engine.rules is None:
        unlike = np.concatenate(novelty) if novelty else None
        scored = ScoredImages(names, truth, outputs, left_out, unlike, temperature=engine.temperature)
    else:
        temperatures = tuple(engine.rules.temperatures.tolist())
        scored = ScoredLabels(names, truth.astype(np.int8), outputs, left_out, temperatures=temperatures)
    if processes > 1:
        scored = _in_order(of_all_processes((scored, places)))
    if not scored.paths:
        name, reason = next(iter(scored.left_out.items()), ("", "there are none"))
        raise DataError(f"none of {len(scored.left_out):,} images can be read: {name}: {reason}", "fix the files")
    return scored


def _in_order(parts: list[tuple[Scored, list[int]]]) -> Scored:
    """The scores of several processes, each with the places of its images in the list."""
    order = np.argsort(np.concatenate([np.array(places, dtype=np.int64) for _, places in parts]))
    scored = [part for part, _ in parts]
    paths = [path for part in scored for path in part.paths]
    novelty = [part.novelty for part in scored if part.novelty is not None]  # None where a process has no images
    return replace(
        scored[0],
        paths=tuple(paths[place] for place in order),
        labels=np.concatenate([part.labels for part in scored])[order],
        probabilities=np.concatenate([part.probabilities for part in scored])[order],
        left_out={path: reason for part in scored for path, reason in part.left_out.items()},
        novelty=np.concatenate(novelty)[order] if novelty else None,
    )


def features_of(engine: Engine, batches: Iterable[Batch]) -> Tensor:
    """Features (n, D) of the valid images of all processes, on the CPU. Every process gets all features."""
    features = [engine.logits_and_features(batch.image)[1].cpu()[batch.valid.cpu()] for batch in batches]
    return torch.cat([part for of_process in of_all_processes(features) for part in of_process])
