"""`ImageDataModule`: the splits of a source as loaders for this process."""

import os
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from vit.data.core.batch import Batch
from vit.data.core.samples import Source
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.loader import AUTO_CACHE_BYTES, EVALUATION_BATCH_SIZE, Loader, batch_loader, evaluation_loader
from vit.data.loading.sampler import Sampling, TrainSampler, train_order
from vit.data.loading.threads import available_cores
from vit.data.pixels.augment import Augment, BatchAugment, ImageAugment
from vit.data.pixels.preprocess import Preprocess
from vit.errors import DataError
from vit.launch import rank_and_world_size
from vit.memory import memory_limit

Cache = Literal["auto", "memory", "none"]


def auto_cache_bytes(processes: int) -> int:
    """Bytes of decoded images that each of the processes of a training keeps with the cache "auto".

    2 GiB; beside a GPU up to a quarter of the memory, which processes divide among them, and so do cells of a study,
    which have a part of the cores each. A GPU trains on more images than the cores decode, and a CPU does not.
    """
    if not torch.cuda.is_available() or not hasattr(os, "sysconf"):
        return AUTO_CACHE_BYTES
    shares = processes if processes > 1 else max(1, available_cores() // torch.get_num_threads())
    return max(AUTO_CACHE_BYTES, memory_limit() // (4 * shares))


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are fetched. Apart from the batch sizes and the sampling, no option changes their content."""

    batch_size: int  # images of an optimizer step, over all processes
    num_workers: int | None = None  # processes that decode and recolor; None: chosen by cores, images and device
    # "memory" keeps decoded images, "none" reads files in every epoch, "auto" keeps images of up to `cache_bytes`
    cache: Cache = "auto"
    cache_bytes: int = AUTO_CACHE_BYTES
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE  # images of an evaluation batch of one process
    batches: int | None = None  # training batches between validations; None: one pass over the images
    accumulate: int = 1  # number of training batches that make one optimizer step
    sampling: Sampling = "natural"  # how often an epoch draws the images of each class


class ImageDataModule(LightningDataModule):
    """Loaders over the splits of a source. Without augmentation, training sees images as evaluation does.

    The seed is that of the order of training images and of their augmentation.
    """

    def __init__(
        self, source: Source, preprocess: Preprocess, augment: Augment | None, options: LoaderOptions, seed: int
    ) -> None:
        super().__init__()
        self.source, self.preprocess, self.augment = source, preprocess, augment
        self.options, self.seed = options, seed
        self.image_augment = None if augment is None else ImageAugment(augment, preprocess)
        self.batch_augment = BatchAugment(augment or Augment(), len(source.class_names))
        self.consumed = 0  # training batches that are finished; the order of images needs no other state
        self._train_sampler: TrainSampler | None = None
        self._train_loader: Loader | None = None
        self._datasets: dict[str, ImageDataset] = {}

    def renewed(self, options: LoaderOptions) -> Self:
        """Loaders of the same images from the first batch on, with the images that memory holds already."""
        fresh = copy(self)
        fresh.options, fresh.consumed, fresh.trainer = options, 0, None
        fresh._train_sampler = fresh._train_loader = None
        return fresh

    def train_dataloader(self) -> DataLoader[Batch]:
        train, options = self.source.splits["train"], self.options
        if len(train) < options.batch_size:
            fix = f"give --batch_size {max(1, len(train) // 4)} or less, or add images"
            raise DataError(f"batch_size {options.batch_size} > {len(train):,} training images", fix)
        order = train_order(train, self.seed, options.batch_size, options.sampling)
        micro_batch, place = options.batch_size // options.accumulate, rank_and_world_size()
        self._train_sampler = TrainSampler(order, micro_batch, *place, options.batches, options.accumulate)
        self._train_sampler.consumed = self.consumed
        self._train_loader = batch_loader(self.dataset("train"), self._train_sampler, options.num_workers, True)
        return self._train_loader

    @property
    def waited(self) -> float:
        """Seconds that the training has waited for its batches so far; without workers, that it has made them in."""
        return 0.0 if self._train_loader is None else self._train_loader.waited

    def val_dataloader(self) -> DataLoader[Batch]:
        return self.evaluation_loader("validation")

    def evaluation_loader(self, split: str) -> DataLoader[Batch]:
        """Every image of a split once, in order, divided over all processes."""
        return evaluation_loader(self.dataset(split), self.options.evaluation_batch_size, self.options.num_workers)

    def finished_batch(self) -> None:
        """Count one finished training batch. The next epoch continues the order of images from this count."""
        self.consumed += 1
        if self._train_sampler is not None:
            self._train_sampler.consumed = self.consumed

    def state_dict(self) -> dict[str, int]:
        return {"consumed": self.consumed}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.consumed = int(state_dict["consumed"])

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Normalize, and augment in training: images uint8 -> float, labels (B,) -> (B,) or (B, C)."""
        if self.trainer is None or not self.trainer.training:
            return replace(batch, image=self.preprocess.normalize(batch.image))
        return self.augmented(batch)

    def augmented(self, batch: Batch) -> Batch:
        """A training batch, augmented and normalized for the network."""
        draw_seeds = batch.draw_seed.numpy().astype(np.int64)
        images: Tensor = self.preprocess.normalize(self.batch_augment.warp(batch.image, draw_seeds))
        images, labels = self.batch_augment.mix(images, batch.label, draw_seeds)
        return replace(batch, image=images, label=labels)

    def dataset(self, split: str) -> ImageDataset:
        """The dataset of a split. The first call makes it, and decodes all images if memory keeps them."""
        if split not in self._datasets:
            augment = self.image_augment if split == "train" else None
            samples = self.source.splits[split]
            self._datasets[split] = ImageDataset(samples, self.preprocess, augment, self.seed, self.in_memory)
        return self._datasets[split]

    @property
    def in_memory(self) -> bool:
        """Whether all images are kept in memory."""
        is_small = self.image_bytes <= self.options.cache_bytes
        return self.options.cache == "memory" or (self.options.cache == "auto" and is_small)

    @property
    def image_bytes(self) -> int:
        """Bytes of all images in memory."""
        areas = dict.fromkeys(self.source.splits, self.preprocess.image_size**2)
        if self.image_augment is not None and self.image_augment.augment.crops:
            areas["train"] = self.image_augment.working_side**2 * 4 // 3  # of photographs of 4:3
        return self.preprocess.channels * sum(len(self.source.splits[split]) * area for split, area in areas.items())
