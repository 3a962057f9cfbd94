"""Memory of each process of a training on 1, 2 and 4 processes of a CPU, with whole (DDP) and spread weights (FSDP).

    python benchmarks/sharded_memory.py [--processes 1,2,4] [--turns 3] [--depth 8]

The network is ViT-B/16 of `depth` blocks (57 million parameters by default). It trains in float32 with AdamW and
clipping, on pictures of 64 pixels, 8 in a step. So activations are small. Weights are spread as
`vit train --strategy fsdp` does.

Three numbers of a process after some steps, in MiB:

- kept: weights, gradients and the optimizer's state that it holds.
- at rest: its memory (Pss) after the last step, once malloc has given freed memory back to the system. Pss counts
  memory that processes share in equal parts, so that the numbers add up. It includes Python, torch and their libraries.
- highest: its highest Pss after any forward pass, backward pass or step, with freed memory that malloc keeps.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import spawn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from vit.memory import give_back_freed_memory, keep_freed_memory
from vit.models.spec import NetworkSpec
from vit.models.vision_transformer import VisionTransformer
from vit.training.distributed.sharding import shard

NETWORK, IMAGE_SIZE, BATCH, STEPS = "vit_base_patch16_224", 64, 8, 5
MIB = 2**20


@dataclass(frozen=True)
class Memory:
    """Memory of a process in MiB, as the text above says."""

    kept: float
    at_rest: float
    highest: float


def main() -> None:
    """Measure every number of processes in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2,4", help="numbers of processes")
    parser.add_argument("--turns", type=int, default=3, help="trainings of each kind")
    parser.add_argument("--depth", type=int, default=8, help="number of blocks")
    given = parser.parse_args()
    numbers = [int(number) for number in given.processes.split(",")]
    kinds = [(number, strategy) for number in numbers for strategy in (("ddp",) if number == 1 else ("ddp", "fsdp"))]
    found: dict[tuple[int, str], list[Memory]] = {kind: [] for kind in kinds}
    for _ in range(given.turns):
        for number, strategy in kinds:
            new = measured(number, strategy, given.depth)
            print(f"{number} processes, {strategy}: {new}", file=sys.stderr, flush=True)
            found[number, strategy] += new
    print("| processes | weights | kept, MiB | at rest, MiB | highest, MiB | n |\n|---|---|---|---|---|---|")
    for (number, strategy), memories in found.items():
        cells = [shown(values) for values in zip(*map(astuple, memories), strict=True)]
        words = "spread (FSDP)" if strategy == "fsdp" else "whole"
        print(f"| {number} | {words} | {' | '.join(cells)} | {len(memories)} |")


def shown(values: Iterable[float]) -> str:
    """Median and range."""
    found = sorted(values)
    return f"{statistics.median(found):,.0f} ({found[0]:,.0f} to {found[-1]:,.0f})"


def measured(number: int, strategy: str, depth: int) -> list[Memory]:
    """The memory of each process of one training.

    Args:
        number: number of processes.
        depth: number of blocks.
    """
    with tempfile.TemporaryDirectory() as folder:
        spawn(train, (number, strategy, depth, folder), nprocs=number)
        return [torch.load(Path(folder) / str(rank), weights_only=False) for rank in range(number)]


def train(rank: int, number: int, strategy: str, depth: int, folder: str) -> None:
    """One process: some steps, then its memory in a file of the folder."""
    keep_freed_memory()  # as `vit train` does
    torch.set_num_threads(1)
    store = Path(folder, "store").absolute().as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=number)
    network = NetworkSpec.named(NETWORK, 2).build(IMAGE_SIZE)
    assert isinstance(network, VisionTransformer)
    network.blocks = network.blocks[:depth]
    module: nn.Module = network
    if strategy == "fsdp":
        shard(network, init_device_mesh("cpu", (number,), mesh_dim_names=("data_parallel",)))
    elif number > 1:
        module = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    images, labels = torch.randn(BATCH // number, 3, IMAGE_SIZE, IMAGE_SIZE), torch.zeros(BATCH // number).long()
    readings = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(module(images), labels)
        readings.append(pss())
        loss.backward()
        readings.append(pss())
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        readings.append(pss())
    dist.barrier()
    give_back_freed_memory()
    memory = Memory(kept(network, optimizer) / MIB, pss() / MIB, max(readings) / MIB)
    dist.barrier()  # no process ends before all have read: they share libraries
    torch.save(memory, Path(folder) / str(rank))
    dist.destroy_process_group()


def kept(network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of this process's weights, gradients and state of the optimizer."""
    weights = list(network.parameters())
    tensors = [*weights, *(weight.grad for weight in weights if weight.grad is not None)]
    tensors += [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    own = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    return sum(tensor.numel() * tensor.element_size() for tensor in own)


def pss() -> int:
    """Proportional memory of this process in bytes."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
