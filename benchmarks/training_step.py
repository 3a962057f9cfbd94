"""Training steps, ours against other libraries, in turn in one process.

Ours: `vit.training.fit.fit` as `vit train` runs it, with its loader, from images in memory. A listener stops the clock
after the last step of a turn and lets the other sides take theirs. There is no augmentation, clipping or averaging.

Theirs: networks of the same size with random weights on one batch that stays in memory, without a loader. A step is
forward in bfloat16 autocast where ours is, cross-entropy with label smoothing 0.1, backward, and fused AdamW.
"timm compiled" is torch.compile of the network.

    python benchmarks/training_step.py --size ti16          (or 32px, resnet18; s16, b16, resnet50 for a GPU)
"""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import yaml
from inference import COMPILE_SECONDS, DEVICE, PRECISION, TooSlow, at_most, options
from peers import SIZES, Size, networks
from PIL import Image
from timing import NOT_INSTALLED, Measurement, Work, calls_in, measured_peak, now, speed, take_turns, without_slow
from torch import Tensor, nn

from vit.checkpoints.run import RunDirectory
from vit.commands.training.train_options import read_values
from vit.inference.devices import autocast
from vit.training.fit import fit
from vit.training.observers import Listener
from vit.training.planning.plan import Plan, plan_of

Side = Callable[[], object]
BATCHES = 4  # of images on the disk; all of them are in memory after the first steps
MORE_IMAGES = 2 * 10  # for validation
WARMUP_STEPS = BATCHES + 3


class Measured(Exception):  # noqa: N818  not an error
    """Every side had its turns; leaves our training from inside."""


class Turns(Listener):
    """Counts our steps, and lets the others take their turns between two of our steps."""

    def __init__(self, others: dict[str, Side], images: int, turns: int, seconds: float) -> None:
        self.others, self.images, self.turns, self.seconds = others, images, turns, seconds
        self.speeds: dict[str, list[float]] = {side: [] for side in ("vit", *others)}
        self._steps = self._in_turn = 0
        self._started = 0.0

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        if done < WARMUP_STEPS:
            self._started = now()
        elif done == WARMUP_STEPS:
            self._steps = max(1, round(self.seconds / (now() - self._started)))
            self.calls = {side: calls_in(call, self.seconds) for side, call in self.others.items()}
            self._in_turn = -1  # the first step of a turn brings our data back into the caches
        else:
            self._in_turn += 1
            if self._in_turn == 0:
                self._started = now()
            elif self._in_turn == self._steps:
                self.speeds["vit"].append(self._steps * self.images / (now() - self._started))
                self._let_others()

    def _let_others(self) -> None:
        """The other sides take a turn, every second time in the opposite order."""
        order = list(self.others)[:: 1 if len(self.speeds["vit"]) % 2 else -1]
        for side, values in take_turns({side: partial(self._turn, side) for side in order}, 1).items():
            self.speeds[side] += values
        self._in_turn = -1
        if len(self.speeds["vit"]) == self.turns:
            raise Measured

    def row(self, row: dict[str, float], step: int) -> None:
        """Rows of metrics.csv do not matter here."""
        return

    def _turn(self, side: str) -> float:
        return speed(self.others[side], self.images, self.calls[side])


def draw_images(folder: Path, size: Size) -> None:
    """PNG files of noise in class folders, with validation images beside them."""
    count = {"train": BATCHES * size.batch, "validation": MORE_IMAGES}
    for split, number in count.items():
        for index in range(number):
            path = folder / split / f"class {index % size.num_classes}" / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = torch.randint(0, 256, (size.image_size, size.image_size, 3), dtype=torch.uint8)
            Image.fromarray(pixels.numpy()).save(path, compress_level=1)


def our_plan(folder: Path, size: Size, given: Sequence[str] = ()) -> Plan:
    """A training of many steps with nothing beside the step."""
    options = {
        "network": size.name, "image_size": size.image_size, "init_from": "none", "augment": "none", "wandb": "off",
        "optim.steps": 100_000, "batch_size": size.batch, "optim.clip_norm": 0, "data.test": 0, "data.cache": "memory",
    }  # fmt: skip
    options |= {name: yaml.safe_load(value) for name, _, value in (word.partition("=") for word in given)}
    return plan_of(read_values(folder, (), None, options).layers.recipe())


def peer_step(network: nn.Module, size: Size, channels_last: bool = False) -> Side:
    """One training step of a network on images that stay in memory."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network = network.to(DEVICE).to(memory_format=layout).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    images = torch.randn(size.batch, 3, size.image_size, size.image_size, device=DEVICE).to(memory_format=layout)
    labels = torch.arange(size.batch, device=DEVICE) % size.num_classes

    def step() -> Tensor:
        with autocast(PRECISION, DEVICE):
            logits = network(images)
        loss = F.cross_entropy(logits.float(), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def sides(size: Size, with_compiled: bool, wanted: Sequence[str] = ()) -> tuple[dict[str, Side], dict[str, str]]:
    """A step of each peer, and why others are missing, each by its side."""
    found, absent = networks(size, wanted)
    calls: dict[str, Side] = {side: peer_step(network, size) for side, network in found.items()}
    if "timm" not in found:
        return calls, {**absent, "timm compiled": NOT_INSTALLED}
    if not size.patch_size:
        calls["timm channels-last"] = peer_step(networks(size, ["timm"])[0]["timm"], size, channels_last=True)
    if not with_compiled:
        return calls, {**absent, "timm compiled": "left out"}
    compiled: Any = torch.compile(networks(size, ["timm"])[0]["timm"])
    try:
        with at_most(COMPILE_SECONDS):
            call = peer_step(compiled, size)
            call()
        calls["timm compiled"] = call
    except TooSlow:
        absent["timm compiled"] = f"compiles for more than {COMPILE_SECONDS} s"
    return calls, absent


def main() -> None:
    arguments = options(__doc__, seconds=1.5)
    size = SIZES[arguments.size]
    size = replace(size, batch=arguments.batch or size.batch)
    calls, absent = sides(size, not arguments.no_compile, arguments.peers)
    work = Work.of(size.name, size.num_classes, size.image_size, is_training=True)
    peak = measured_peak(work.precision)
    turns = Turns(without_slow(calls, absent), size.batch, arguments.turns, arguments.seconds)
    with tempfile.TemporaryDirectory() as name:
        draw_images(Path(name, "images"), size)
        Path(name, "run").mkdir()
        with suppress(Measured):
            fit(our_plan(Path(name, "images"), size, arguments.ours), RunDirectory(Path(name, "run")), [turns])
    peak = max(peak, measured_peak(work.precision))
    what = f"Training steps of {size.name}, {size.image_size} pixels, batches of {size.batch}, {work.precision}"
    Measurement(what, turns.speeds, absent, work=work, peak=peak).show()


if __name__ == "__main__":
    main()
