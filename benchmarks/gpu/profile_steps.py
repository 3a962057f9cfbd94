"""Where the time of a step of CIFAR-10's ViT goes: GPU busy, launches, and host time by function, over 20 steps.

    python benchmarks/gpu/profile_steps.py          (on a GPU; --tiny: any device, few images)

torch.profiler counts what the device and its launches do, and cProfile what Python does, in steps of their own, because
each slows the other.
"""

import argparse
import cProfile
import json
import os
import pstats
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from peers import NANO, PIXELS_32, Size
from timing import RESULT_VARIABLE, now
from torch.profiler import ProfilerActivity, profile
from training_step import Measured, draw_images, our_plan

from vit.checkpoints.run import RunDirectory
from vit.training.fit import fit
from vit.training.observers import Listener

STEPS = 20
WARMUP = 10
SHOWN = 15  # functions


class Profiler(Listener):
    """Times 20 steps, profiles the next 20 by torch.profiler, and 20 more by cProfile."""

    def __init__(self) -> None:
        cuda = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        self.torch = profile(activities=[ProfilerActivity.CPU, *cuda])
        self.python = cProfile.Profile()
        self.seconds = [0.0, 0.0]
        self._started = 0.0

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """Start and stop the clocks."""
        part, in_part = divmod(done - WARMUP, STEPS)
        if in_part or part < 0:
            return
        if part == 1:
            self.seconds[0] = (now() - self._started) / STEPS
            self.torch.start()
        elif part == 2:
            now()
            self.torch.stop()
            self.python.enable()
        elif part == 3:
            self.python.disable()
            self.seconds[1] = (time.perf_counter() - self._started) / STEPS
            raise Measured
        self._started = now()

    def row(self, row: dict[str, float], step: int) -> None:
        """Rows of metrics.csv do not matter here."""


def report(profiler: Profiler, size: Size) -> list[str]:
    """What was seen, as lines of a page."""
    events = profiler.torch.events()
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    busy = sum(event.device_time for event in kernels) / 1e6 / STEPS
    launches = sum(event.name.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch")) for event in events) / STEPS
    operations = (
        sum(
            event.device_type.name == "CPU"
            and event.name.startswith("aten::")
            and not (event.cpu_parent and event.cpu_parent.name.startswith("aten::"))
            for event in events
        )
        / STEPS
    )
    share = f"{busy / profiler.seconds[0]:.0%} of the time" if kernels else "not measured (no GPU)"
    text = [
        f"{STEPS} steps of {size.name} with {size.batch} images: {1e3 * profiler.seconds[0]:.1f} ms a step, GPU busy "
        f"{share}, {launches:,.0f} launches and {operations:,.0f} operations of PyTorch a step.",
        "",
        "| function, by its own host time | ms a step | calls a step |",
        "|---|---|---|",
    ]
    stats = pstats.Stats(profiler.python)
    rows = sorted(stats.stats.items(), key=lambda item: item[1][2], reverse=True)  # type: ignore[attr-defined]
    for (file, _, name), (_, calls, own, _, _) in rows[:SHOWN]:
        place = "" if file in ("~", "") else f"{Path(file).parent.name}/{Path(file).name} "
        text.append(f"| {place}{name.replace('|', '/')} | {1e3 * own / STEPS:.2f} | {calls / STEPS:,.0f} |")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small network, for a CPU")
    size = NANO if parser.parse_args().tiny else Size(**{**vars(PIXELS_32), "batch": 1024})
    profiler = Profiler()
    with tempfile.TemporaryDirectory() as name:
        draw_images(Path(name, "images"), size)
        Path(name, "run").mkdir()
        with suppress(Measured):
            fit(our_plan(Path(name, "images"), size), RunDirectory(Path(name, "run")), [profiler])
    lines = report(profiler, size)
    print("\n".join(lines))
    if os.environ.get(RESULT_VARIABLE):
        Path(os.environ[RESULT_VARIABLE]).write_text(json.dumps({"lines": lines}), encoding="utf-8")


if __name__ == "__main__":
    main()
