"""The LightningDataModule: a source, split and counted, becomes loaders for this process."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch.distributed as dist
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from vit.data.augment import Augment, BatchAugment, ImageAugment
from vit.data.batch import Batch
from vit.data.dataset import ImageDataset
from vit.data.preprocess import Preprocess
from vit.data.sampler import EvaluationSampler, Key, TrainSampler
from vit.data.samples import Source
from vit.data.threads import available_cores
from vit.data.workers import START, begin_worker
from vit.errors import DataError

Cache = Literal["auto", "memory", "none"]

AUTO_CACHE_BYTES = 2 * 2**30


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are fetched; none of it changes what is in them.

    Attributes:
        batch_size: images of an optimizer step, over all processes.
        accumulate: batches of the loader in which a step's images come.
        num_workers: processes that decode; None: as many as the machine's cores allow, 0 for images in memory.
        cache: "memory" keeps decoded images; "none" reads files every epoch; "auto" decides by their size.
        evaluation_batch_size: images per step and process in evaluation.
        batches: training batches between validations; None: a pass over the images.
    """

    batch_size: int
    num_workers: int | None = None
    cache: Cache = "auto"
    evaluation_batch_size: int = 128
    batches: int | None = None
    accumulate: int = 1


@dataclass
class _KeyBatches(Sampler[list[Key]]):
    """Lets DataLoader take our samplers as its batch sampler."""

    batches: TrainSampler | EvaluationSampler = field(repr=False)

    def __iter__(self) -> Iterator[list[Key]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def _whole(batch: Batch) -> Batch:
    """The dataset yields whole batches already; module-level so that workers can import it."""
    return batch


@dataclass
class _Fetched(Dataset[Batch | DataError]):
    """A dataset whose errors leave a worker process as values: torch would hand over their text alone."""

    dataset: ImageDataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, keys: list[Key]) -> Batch | DataError:
        try:
            batch = self.dataset.__getitems__(keys)
        except DataError as error:
            return error
        if get_worker_info() is not None:
            batch.share_memory()  # a failure in the thread that sends batches would not be heard, and waited for
        return batch


class _Loader(DataLoader[Batch]):
    """Raises the errors that `_Fetched` hands over."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        for batch in super().__iter__():
            if isinstance(batch, DataError):
                raise batch
            yield batch


class ImageDataModule(LightningDataModule):
    """Loaders over the splits of a source.

    Lightning calls `train_dataloader` and `val_dataloader`; `consumed`, the number of batches that training has
    finished, is all the state that the order of images has.

    Args:
        augment: how training images are varied; None: they are seen as in evaluation.
    """

    def __init__(
        self, source: Source, preprocess: Preprocess, augment: Augment | None, options: LoaderOptions, seed: int
    ) -> None:
        super().__init__()
        self.source = source
        self.preprocess = preprocess
        self.options = options
        self.seed = seed
        self.image_augment = None if augment is None else ImageAugment(augment, preprocess)
        self.in_memory = self._decide_cache()
        self.batch_augment = BatchAugment(augment or Augment(), len(source.class_names))
        self.consumed = 0
        self._train_sampler: TrainSampler | None = None
        self._datasets: dict[str, ImageDataset] = {}

    def train_dataloader(self) -> DataLoader[Batch]:
        rank, world_size = rank_and_world_size()
        length = len(self.source.splits["train"])
        if length < self.options.batch_size:
            raise DataError(
                f"batch_size {self.options.batch_size} > {length} training images",
                f"give --batch_size {max(1, length // 4)} or less, or add images",
            )
        accumulate = self.options.accumulate
        self._train_sampler = TrainSampler(
            length,
            self.options.batch_size // accumulate,
            self.seed,
            rank,
            world_size,
            self.options.batches,
            accumulate,
        )
        self._train_sampler.consumed = self.consumed
        return self._loader("train", self._train_sampler)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self.evaluation_loader("validation")

    def evaluation_loader(self, split: str) -> DataLoader[Batch]:
        """Every image of a split once, in order, over all processes."""
        rank, world_size = rank_and_world_size()
        batch_size = self.options.evaluation_batch_size
        return self._loader(split, EvaluationSampler(len(self.source.splits[split]), batch_size, rank, world_size))

    def finished_batch(self) -> None:
        """Count one finished training batch; the next epoch's order starts from this count."""
        self.consumed += 1
        if self._train_sampler is not None:
            self._train_sampler.consumed = self.consumed

    def state_dict(self) -> dict[str, Any]:
        return {"consumed": self.consumed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.consumed = int(state_dict["consumed"])

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Normalize, and augment while training: uint8 -> float images, (B,) -> (B,) or (B, C) labels."""
        if self.trainer is None or not self.trainer.training:
            return replace(batch, image=self.preprocess.normalize(batch.image))
        return self.augmented(batch)

    def augmented(self, batch: Batch) -> Batch:
        """A training batch as the network sees it."""
        keys = batch.key.numpy().astype(np.int64)
        images: Tensor = self.preprocess.normalize(self.batch_augment.move(batch.image, keys))
        images, labels = self.batch_augment.mix(images, batch.label, keys)
        return replace(batch, image=images, label=labels)

    def dataset(self, split: str) -> ImageDataset:
        """The dataset of a split, made (and decoded, if it is kept in memory) once."""
        if split not in self._datasets:
            augment = self.image_augment if split == "train" else None
            samples = self.source.splits[split]
            self._datasets[split] = ImageDataset(samples, self.preprocess, augment, self.seed, self.in_memory)
        return self._datasets[split]

    def _loader(self, split: str, sampler: TrainSampler | EvaluationSampler) -> DataLoader[Batch]:
        dataset = self.dataset(split)
        workers = self._workers(dataset)
        return _Loader(
            _Fetched(dataset),  # type: ignore[arg-type]
            batch_sampler=_KeyBatches(sampler),
            collate_fn=_whole,  # type: ignore[arg-type]
            num_workers=workers,
            persistent_workers=workers > 0 and split == "train",
            worker_init_fn=begin_worker if workers else None,
            multiprocessing_context=START if workers else None,
        )

    def _workers(self, dataset: ImageDataset) -> int:
        if self.options.num_workers is not None:
            return self.options.num_workers
        if dataset.is_stacked:
            return 0
        _, world_size = rank_and_world_size()
        return min(8, max(1, available_cores() // world_size))

    def _decide_cache(self) -> bool:
        if self.options.cache != "auto":
            return self.options.cache == "memory"
        exact = 3 * self.preprocess.image_size**2
        sizes = dict.fromkeys(self.source.splits, exact)
        if self.image_augment is not None and self.image_augment.augment.crops:
            sizes["train"] = 3 * self.image_augment.working_side**2 * 4 // 3  # of photographs, which are 4:3
        return sum(len(self.source.splits[split]) * size for split, size in sizes.items()) <= AUTO_CACHE_BYTES


def rank_and_world_size() -> tuple[int, int]:
    """(rank, number of processes) of this process."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1
