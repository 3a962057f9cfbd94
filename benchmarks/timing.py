"""Programs timed in turn, A B A B ..., each in a process of its own, so that other work hardly changes the ratio.

A script calls `compare` with the names of its sides. For each turn the script starts again with `--side NAME`, and then
calls `answer` with the images per second that it measured.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("torch", "torchvision", "lightning", "timm", "pillow", "numpy")


def answer(images_per_second: float) -> None:
    """What a side says, as the last line of its output."""
    print(json.dumps({"images_per_second": images_per_second}), flush=True)


def compare(ours: str, theirs: list[str], pairs: int, what: str, *more: str) -> None:
    """Run every side `pairs` times in turn, with this process's own arguments and `more`; print speeds and ratios."""
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores")
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in PACKAGES))
    print(f"{what}, {pairs} runs of each side in turn; images/s:")
    speeds: dict[str, list[float]] = {side: [] for side in (ours, *theirs)}
    for turn in range(pairs):
        order = list(speeds) if turn % 2 == 0 else list(speeds)[::-1]  # no side always follows the same other one
        for side in order:
            speeds[side].append(_run(side, more))
        print(f"  {turn + 1}: " + ", ".join(f"{side} {values[-1]:,.0f}" for side, values in speeds.items()), flush=True)
    for side, values in speeds.items():
        print(f"{side:<28} {spread(values, ',.0f')} images/s")
    for side in theirs:
        ratios = [own / other for own, other in zip(speeds[ours], speeds[side], strict=True)]
        print(f"RATIO {ours} / {side}: {spread(ratios, '.2f')}, n = {pairs}", flush=True)


def spread(values: list[float], style: str) -> str:
    """Median, smallest and largest."""
    return f"{statistics.median(values):{style}} (min {min(values):{style}}, max {max(values):{style}})"


def processor() -> str:
    """The model name of the CPU."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _run(side: str, more: tuple[str, ...]) -> float:
    command = [sys.executable, *sys.argv, *more, "--side", side]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["images_per_second"])
