"""A network applied to images: the one place that chooses device and precision outside training."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from vit.data.batch import Batch
from vit.data.preprocess import Preprocess
from vit.errors import DataError, UsageError, nearest
from vit.inference.metrics import ScoredImages
from vit.launch import rank_and_world_size
from vit.models.network import Network

CPU_PIXELS = 32 * 224 * 224  # of a pass on a CPU: the activations of more leave its caches, for a fifth more time


def choose_device(name: str = "auto") -> torch.device:
    """The device of this process: the named one, or an accelerator, or the CPU.

    Of several GPUs that it sees, a process takes the one of its rank on this machine.

    Raises:
        UsageError: there is no such device.
    """
    if name != "auto":
        return _named_device(name)
    if torch.cuda.is_available():
        return _own_gpu()
    return torch.device("mps") if torch.backends.mps.is_available() else torch.device("cpu")


def _named_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"there is no device {name!r}", nearest(name, ("auto", "cpu", "cuda", "mps"))) from error
    backend = getattr(torch, device.type, None)
    if backend is None or not hasattr(backend, "is_available") or not backend.is_available():
        raise UsageError(f"PyTorch sees no device {name!r} here", "give cpu or auto")
    return _own_gpu() if name == "cuda" else device


def _own_gpu() -> torch.device:
    rank = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
    return torch.device("cuda", rank % torch.cuda.device_count())  # a launcher may show each process one GPU alone


def choose_precision(precision: str, device: torch.device) -> str:
    """ "auto" becomes "bf16-mixed" where the hardware computes in bfloat16, else "32-true"."""
    if precision != "auto":
        return precision
    return "bf16-mixed" if has_bf16(device) else "32-true"


def has_bf16(device: torch.device) -> bool:
    """Whether the hardware itself computes in bfloat16 (emulation is slower than float32)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return False


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which a network runs at a precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")


@contextmanager
def distributed() -> Iterator[int]:
    """Join the processes that torchrun started, if it did; gives this process's rank."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0
        return
    dist.init_process_group("gloo")  # only counts and results are exchanged, never tensors of a GPU
    try:
        yield dist.get_rank()
        dist.barrier()
    finally:
        dist.destroy_process_group()


class Engine:
    """A network on a device, ready to say probabilities: images (B, 3, S, S) uint8 -> (B, C) float32."""

    def __init__(
        self, network: Network, preprocess: Preprocess, device: torch.device, precision: str, temperature: float = 1.0
    ) -> None:
        self.network = network.to(device).to(memory_format=network.memory_format).eval()
        self.preprocess = preprocess
        self.device = device
        self.precision = choose_precision(precision, device)
        self.temperature = temperature
        self._most = max(1, CPU_PIXELS // preprocess.image_size**2) if device.type == "cpu" else None

    @torch.inference_mode()
    def logits(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> logits (B, C) float32."""
        return torch.cat([self._pass(part) for part in images.split(self._most or len(images))])

    def _pass(self, images: Tensor) -> Tensor:
        normalized = self.preprocess.normalize(images.to(self.device, non_blocking=True))
        with autocast(self.precision, self.device):
            return self.network(normalized.contiguous(memory_format=self.network.memory_format)).float()

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32 on the CPU."""
        return (self.logits(images) / self.temperature).softmax(dim=1).cpu()


class Classifies(Protocol):
    """Whatever says probabilities of prepared images: an `Engine`, or an exported file."""

    temperature: float

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) uint8 -> probabilities (B, C) float32 on the CPU."""


def score(engine: Classifies, batches: Iterable[Batch]) -> ScoredImages:
    """Score every valid image of all processes, each once, in the order of the list; every process gets all rows.

    Raises:
        DataError: none of the images can be read.
    """
    rank, processes = rank_and_world_size()
    paths: list[str] = []
    labels: list[Tensor] = []
    probabilities: list[Tensor] = []
    places: list[int] = []  # in the list: process r scores images r, r + n, r + 2n, ...
    left_out: dict[str, str] = {}
    seen = 0
    for batch in batches:
        valid = batch.valid.cpu()
        probabilities.append(engine.probabilities(batch.image)[valid])
        labels.append(batch.label[batch.valid].cpu())
        kept = valid.nonzero().flatten().tolist()
        paths += [batch.path[row] for row in kept]
        places += [(seen + row) * processes + rank for row in kept]
        left_out |= {path: error for path, error in zip(batch.path, batch.error, strict=True) if error}
        seen += len(batch)
    if not labels:
        raise DataError("there are no images to score", "give images with labels")
    found = ScoredImages(
        tuple(paths), torch.cat(labels).numpy(), torch.cat(probabilities).numpy(), engine.temperature, left_out
    )
    if processes > 1:
        parts: list[tuple[ScoredImages, list[int]]] = [(found, places)] * processes
        dist.all_gather_object(parts, (found, places))
        found = _in_order(parts)
    if not found.paths:
        name, reason = next(iter(found.left_out.items()), ("", "there are none"))
        raise DataError(f"none of {len(found.left_out):,} images can be read: {name}: {reason}", "fix the files")
    return found


def _in_order(parts: list[tuple[ScoredImages, list[int]]]) -> ScoredImages:
    """What several processes scored, by the places of its rows in the list."""
    order = np.argsort(np.concatenate([np.array(places, dtype=np.int64) for _, places in parts]))
    scored = [part for part, _ in parts]
    paths = [path for part in scored for path in part.paths]
    return ScoredImages(
        tuple(paths[i] for i in order),
        np.concatenate([part.labels for part in scored])[order],
        np.concatenate([part.probabilities for part in scored])[order],
        scored[0].temperature,
        {path: reason for part in scored for path, reason in part.left_out.items()},
    )
