"""What scaling.py measures: each function is one part, and gives plain numbers."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

Numbers = dict[str, Any]
FILES = (1_000, 10_000, 100_000)
NAMES, CLASSES = 1_000_000, 1_000
ORIGINALS = 25  # files with many names each; a file system allows 65,000 names of one file
BATCHES = (2, 4, 8, 16, 32, 64, 128, 256)
RESOLUTIONS = (64, 96, 128, 192, 256, 320, 384, 448)  # patches of 16 pixels: 16 to 784 tokens
DEPTHS, WIDTHS = (2, 4, 8, 12, 16), (64, 128, 192, 256, 384)
TOKENS = 3136  # of a batch, where the resolution varies
CELLS = (2, 8)


def predict(count: int) -> Numbers:
    """`vit predict` of many small JPEG files by a very small network: seconds, and the peak of its memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder / "model.ckpt")
        link_pictures(folder / "pictures", [f"{number:07}.jpg" for number in range(count)])
        seconds, memory = run([sys.executable, "-m", "vit", "predict", "model.ckpt", "pictures"], folder)
        rows = (folder / "predictions.csv").read_bytes().count(b"\n") - 1
        assert rows == count, f"{rows} rows of {count} files"
    return {"files": count, "seconds": seconds, "peak_bytes": memory}


def run(command: Sequence[str], folder: Path) -> tuple[float, int]:
    """Seconds of a process, and the peak of its resident memory in bytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def write_checkpoint(path: Path) -> None:
    """A network for pictures of 8 pixels with random weights; another process imports torch for it."""
    code = """
import sys, torch
from vit.checkpoints.format import Description, checkpoint_content
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec
about = Description(tuple("abcd"), NetworkSpec.named("vit_nano_patch2_8", 4), Preprocess(8))
torch.save(checkpoint_content(about, about.build().state_dict()), sys.argv[1])
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def link_pictures(folder: Path, names: Sequence[str]) -> None:
    """Files with these names, which are hard links of a few small JPEG files."""
    import numpy as np
    from PIL import Image

    originals = folder.with_name(f"{folder.name} originals")
    originals.mkdir(parents=True)
    for number in range(ORIGINALS):
        pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(originals / f"{number}.jpg")
    for parent in sorted({Path(name).parent for name in names}):
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        os.link(originals / f"{number % ORIGINALS}.jpg", folder / name)


def training(what: str, turns: int = 5, seconds: float = 0.5) -> Numbers:
    """Milliseconds of a training step per image, for networks or batches of several sizes that take turns."""
    import torch
    from timing import calls_in, speed, take_turns

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    points: list[Numbers] = []
    calls: dict[str, Callable[[], float]] = {}
    for value, (name, size, batch, options) in _networks(what).items():
        step, flops = training_step(name, size, batch, options)
        calls[str(value)] = partial(speed, step, batch, calls_in(step, seconds))
        points.append({"value": value, "batch": batch, "flops": flops})
    speeds = take_turns(calls, turns)
    for point in points:
        times = [1000 / found for found in speeds[str(point["value"])]]
        point.update(milliseconds=median(times), low=min(times), high=max(times), turns=turns)
    return {"what": what, "points": points}


def _networks(what: str) -> dict[int, tuple[str, int, int, dict[str, object]]]:
    """Value on the axis -> network, image size, batch size and options."""
    small, large = "vit_tiny_cifar", "vit_tiny_patch16_224"
    networks: dict[str, dict[int, tuple[str, int, int, dict[str, object]]]] = {
        "batch": {batch: (small, 32, batch, {}) for batch in BATCHES},
        "resolution": {side: (large, side, max(1, TOKENS // (side // 16) ** 2), {}) for side in RESOLUTIONS},
        "depth": {depth: (small, 32, 64, {"depth": depth}) for depth in DEPTHS},
        "width": {width: (small, 32, 64, {"embed_dim": width, "num_heads": width // 64}) for width in WIDTHS},
    }
    return networks[what]


def training_step(name: str, size: int, batch: int, options: dict[str, object]) -> tuple[Callable[[], Any], int]:
    """A step with AdamW on images that stay in memory, and the FLOPs of an image."""
    import torch
    import torch.nn.functional as F

    from vit.inference.devices import autocast, choose_device, choose_precision
    from vit.models.spec import NetworkSpec
    from vit.training.optim import make_optimizer
    from vit.training.recipes.recipe import OptimConfig
    from vit.training.running.result import PASSES

    device = choose_device()
    precision = choose_precision("auto", device)
    spec = NetworkSpec.named(name, 10, options)
    network = spec.build(size).to(device).train()
    optimizer = make_optimizer(network, OptimConfig())
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.arange(batch, device=device) % 10

    def step() -> torch.Tensor:
        with autocast(precision, device):
            logits = network(images)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, PASSES * spec.cost(size).flops


def study(turns: int = 3, steps: int = 20) -> Numbers:
    """Seconds of a cell of `vit study` beyond its training: two studies of different sizes, one cell at a time."""
    extra, whole = [], []
    for _ in range(turns):
        walls, trained = [], 0.0
        for cells in CELLS:
            with tempfile.TemporaryDirectory() as name:
                words = (
                    "study",
                    "digits",
                    "--networks",
                    "digits",
                    "--sizes",
                    "100",
                    "--seeds",
                    str(cells),
                    "--jobs",
                    "1",
                )
                budget = ("--budget", f"steps:{steps}", "--wandb", "off")
                walls.append(run([sys.executable, "-m", "vit", *words, *budget], Path(name))[0])
                trained = mean(_trainings(Path(name)))
        per_cell = (walls[1] - walls[0]) / (CELLS[1] - CELLS[0])
        whole.append(per_cell)
        extra.append(per_cell - trained)
    return {"cell_seconds": whole, "beyond_training_seconds": extra, "cells": list(CELLS), "steps": steps}


def _trainings(folder: Path) -> list[float]:
    """Seconds of each cell's training, as its result.json says."""
    import json

    return [json.loads(path.read_text())["seconds"] for path in folder.rglob("result.json")]


def names(count: int = NAMES) -> Numbers:
    """Listing, splitting, writing and comparing a million files: seconds, and bytes of memory per name."""
    from vit.data.sources.sources import open_source

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "pictures")
        link_pictures(folder, [f"class {number % CLASSES:04}/photo_{number:07}.jpg" for number in range(count)])
        found: Numbers = {"names": count, "classes": CLASSES}
        with _measured(found, "list", count):
            source = open_source(str(folder))
        _split_and_check(source, Path(name), found, count)
    return found


def _split_and_check(source: Any, folder: Path, found: Numbers, count: int) -> None:
    import numpy as np

    from vit.data.checks.duplicates import exact_matches
    from vit.data.checks.scan import FACTS, ImageList, ScannedImages
    from vit.data.splits.split import read_splits, with_all_splits, write_splits

    with _measured(found, "split", count):
        source = with_all_splits(source, 0.1, 0.2, seed=0)
    with _measured(found, "fingerprint", count):
        for samples in source.splits.values():
            samples.fingerprint()
    with _measured(found, "write splits.csv", count):
        contents = {split: list(samples.paths) for split, samples in source.splits.items()}
        write_splits(source, folder / "splits.csv", contents)
    with _measured(found, "read splits.csv", count):
        read_splits(folder / "splits.csv")
    images, scanned = ImageList(source), ScannedImages(np.zeros(count, FACTS))
    scanned.facts["sides"] = 32
    hashes = np.random.default_rng(0).integers(0, 2**63, (count, 2), dtype=np.uint64)
    scanned.facts["pixel_hash"] = hashes.view("V16")[:, 0]
    with _measured(found, "find equal images", count):
        list(exact_matches(scanned.groups(), images.split_numbers, images.labels))


@contextmanager
def _measured(found: Numbers, what: str, count: int) -> Iterator[None]:
    """Keep seconds, and the growth of this process per name."""
    before, started = resident(), time.perf_counter()
    yield
    found[what] = {"seconds": time.perf_counter() - started, "bytes_per_name": (resident() - before) / count}


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not say it."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


PARTS: dict[str, Callable[[], Numbers]] = {
    **{f"predict_{count}": partial(predict, count) for count in FILES},
    **{f"training_{what}": partial(training, what) for what in ("batch", "resolution", "depth", "width")},
    "study": study,
    "names": names,
}
