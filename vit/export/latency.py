"""How long a prediction takes with each engine that is installed, and size and speed of an export"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import checkpoint_of
from vit.console import Reporter, count_of
from vit.errors import UsageError
from vit.export.exporting import export_format
from vit.export.format import Classify
from vit.inference.deployment import LoadedModel
from vit.inference.devices import choose_precision
from vit.inference.engine import trained_engine
from vit.inference.predictor import Predictor
from vit.inference.predictor import load as load_predictor

BATCHES = (1, 32)
PASSES, LEAST = 200, 100  # of a measurement; of a 99th percentile
SECONDS = 20.0  # after which a measurement ends, however few passes it has
FIRST = 3  # passes that allocate and compile, and are not counted
OTHERS = ("onnx", "openvino")  # formats whose libraries also compute a checkpoint
ROUNDS, MOST_IMAGES = 3, 32  # timed passes of an export beside its checkpoint, and images of a pass
FLOPS_PER_PASS = 5e10  # of such a pass: 20 images of ViT-Ti

Build = Callable[[], Classify]  # loads a network with as many threads as torch has now


@dataclass(frozen=True)
class Latency:
    """The latency of an engine: seconds from prepared images in memory to probabilities, without decoding."""

    engine: str  # what computes, and in which precision
    threads: int  # number of threads of the CPU; 0 on a GPU
    batch_size: int  # number of images of a pass
    passes: int  # number of measured passes
    p50: float  # median of their seconds
    p99: float | None  # 99th percentile of their seconds; None where there are too few


def latencies(builds: Mapping[str, Build], shape: tuple[int, int]) -> Iterator[Latency]:
    """The latency of each engine on images of `shape` (channels, side), with one thread and with all.

    `builds` is {name of the engine: what loads it}. A name that starts with "cuda" or "mps" is that of a GPU.
    """
    every = torch.get_num_threads()
    try:
        for name, build in builds.items():
            is_gpu = name.startswith(("cuda", "mps"))
            for threads in [every] if is_gpu else sorted({1, every}):
                torch.set_num_threads(threads)
                classify = build()
                for batch_size in BATCHES:
                    seconds = _seconds(classify, _noise(batch_size, *shape))
                    p99 = float(np.percentile(seconds, 99)) if len(seconds) >= LEAST else None
                    shown = 0 if is_gpu else threads
                    yield Latency(name, shown, batch_size, len(seconds), float(np.median(seconds)), p99)
    finally:
        torch.set_num_threads(every)


def _noise(count: int, channels: int, side: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=generator)


def _seconds(classify: Classify, images: Tensor) -> list[float]:
    seconds, began = list[float](), time.perf_counter()
    with torch.inference_mode():
        for count in range(FIRST + PASSES):
            start = time.perf_counter()
            classify(images).cpu()  # waits for a GPU
            end = time.perf_counter()
            if count >= FIRST:
                seconds.append(end - start)
            if seconds and end - began > SECONDS:
                break
    return seconds


def _show(reporter: Reporter, builds: Mapping[str, Build], shape: tuple[int, int]) -> list[Latency]:
    """Measure all engines, and show them in one table."""
    measured = list(latencies(builds, shape))
    rows = []
    for row in measured:
        p99 = "" if row.p99 is None else f"{1000 * row.p99:,.2f}"
        times = f"{1000 * row.p50:,.2f}", p99, f"{row.batch_size / row.p50:,.1f}"
        rows.append((row.engine, str(row.threads or ""), str(row.batch_size), *times))
    reporter.line()
    reporter.table(("engine", "threads", "batch", "p50 ms", "p99 ms", "images/s"), rows)
    few = f"; no p99 from fewer than {LEAST} passes in {SECONDS:.0f} s" * any(row.p99 is None for row in measured)
    reporter.line(f"up to {PASSES} passes from prepared pixels to probabilities, on this machine as busy as it is{few}")
    return measured


def _by_torch(trained: LoadedModel, device: torch.device, precision: str) -> Classify:
    return trained_engine(trained, device, precision).probabilities


def show_latencies_of(
    reporter: Reporter, trained: LoadedModel, device: str, precision: str, more: Mapping[str, Build] | None = None
) -> list[Latency]:
    """Measure torch on a device and on the CPU, and installed libraries of exported graphs, on a checkpoint.

    `more` engines replace those of the same name.
    """
    builds: dict[str, Build] = {}
    for on in dict.fromkeys((device, "cpu")):
        where = torch.device(on)
        name = f"{on}, " * (on != "cpu") + f"torch {choose_precision(precision, where)}"
        builds[name] = partial(_by_torch, trained, where, precision)
    with TemporaryDirectory() as folder:
        for name in OTHERS:
            kind = export_format(name)
            try:
                kind.check_installed(name)
                kind.write(trained, Path(folder) / f"graph{kind.ending}")
            except UsageError as error:
                reporter.line(f"{name} is not measured: {error.problem}")
                continue
            builds[f"{name} 32-true"] = partial(kind.read, trained, Path(folder) / f"graph{kind.ending}")
        shape = (trained.description.preprocess.channels, trained.network.image_size)
        return _show(reporter, {**builds, **(more or {})}, shape)


def show_latencies_of_model(reporter: Reporter, model: Path, predictor: Predictor) -> list[Latency]:
    """Measure a checkpoint with all engines, or an exported file with its own; device and precision of `predictor`."""
    engine, preprocess = predictor.engine, predictor.preprocess
    if not predictor.is_exported:
        trained = LoadedModel(*load(checkpoint_of(model)))
        return show_latencies_of(reporter, trained, engine.device.type, engine.precision)
    precision = "auto" if engine.precision == "int8" else engine.precision  # int8 is in the file, and not asked for
    again = lambda: load_predictor(model, precision=precision, unfinished=True).engine.probabilities  # noqa: E731
    shape = preprocess.channels, preprocess.image_size
    return _show(reporter, {f"{engine.name} {engine.precision}": again}, shape)


def show_size_and_speed(reporter: Reporter, trained: LoadedModel, name: str, path: Path, exported: Classify) -> None:
    """Show one table for all formats: the export beside its checkpoint.

    Both compute random images in turns. Of `ROUNDS` passes after the first one, the fastest counts.
    """
    files = [item for item in path.rglob("*") if item.is_file()] if path.is_dir() else [path]
    weights = sum(value.nbytes for value in trained.network.state_dict().values())
    sizes = f"{weights / 1e6:.1f} MB of weights", f"{sum(file.stat().st_size for file in files) / 1e6:.1f} MB"
    reporter.line()
    side = trained.network.image_size
    count = max(1, min(MOST_IMAGES, int(FLOPS_PER_PASS / trained.description.spec.cost(side).flops)))
    images = _noise(count, trained.description.preprocess.channels, side)
    both = _by_torch(trained, torch.device("cpu"), "32-true"), exported
    seconds = [float("inf"), float("inf")]
    with torch.inference_mode():
        for _ in range(1 + ROUNDS):  # the first pass allocates and compiles, and is never the fastest
            for place, classify in enumerate(both):
                start = time.perf_counter()
                classify(images)
                seconds[place] = min(seconds[place], time.perf_counter() - start)
    checkpoint, export = seconds
    times = [(f"{count / checkpoint:,.1f}", "1.0"), (f"{count / export:,.1f}", f"{checkpoint / export:.1f}")]
    rows = zip(("checkpoint", name), sizes, times, strict=True)
    reporter.table(("", "size", "images/s", "times as fast"), [(word, size, *fast) for word, size, fast in rows])
    threads = count_of(torch.get_num_threads(), "thread")
    reporter.line(f"CPU, {threads}, batches of {count}; of this machine, as busy as it is")
