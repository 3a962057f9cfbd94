"""Sides timed in turn, A B A B ..., so that other work hardly changes their ratio; and what was measured, as JSON.

Two ways to take turns. `compare` is for whole programs: for each turn the script starts again with `--side NAME`, and
then calls `answer` with the images per second that it measured. `interleave` is for functions in one process.

Both leave a `Measurement`, which is printed, and written to the file that the environment's BENCH_JSON names.
`all_rows.py` sets this variable.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "torch", "torchvision", "lightning", "timm", "transformers", "vit-pytorch", "openvino", "onnxruntime", "pillow",
    "numpy",
)  # fmt: skip
NOT_INSTALLED = "not installed"
RESULT_VARIABLE = "BENCH_JSON"
OURS = "vit"
SLOW = 10.0  # seconds of a call, such as a batch in bfloat16 on a CPU that emulates it


@dataclass(frozen=True)
class Work:
    """What an image costs, for MFU.

    Attributes:
        flops: floating-point operations of an image; three forward passes for a training step.
        precision: precision whose matrix peak counts: "bf16-mixed" or "32-true".
    """

    flops: float
    precision: str

    @classmethod
    def of(cls, network: str, num_classes: int, image_size: int, is_training: bool) -> "Work":
        """The work of a network of the catalog, in the precision that `vit` chooses here."""
        from vit.inference.devices import choose_device, choose_precision
        from vit.models.spec import NetworkSpec
        from vit.training.running.result import PASSES

        cost = NetworkSpec.named(network, num_classes).cost(image_size)
        passes = PASSES if is_training else 1
        return cls(passes * cost.flops, choose_precision("auto", choose_device()))


def measured_peak(precision: str) -> float:
    """The matrix peak of this machine in FLOP/s, measured now."""
    from vit.inference.devices import choose_device, matrix_peak

    return matrix_peak.__wrapped__(choose_device(), precision)


@dataclass(frozen=True)
class Measurement:
    """What sides did in turn.

    Attributes:
        what: the work, in words.
        speeds: images (or runs) per second of each side in each turn, ours first.
        absent: why a side was not measured, by its name.
        unit: what is counted: images or runs.
        work: work of an image of our side, or None.
        peak: matrix peak of this machine in FLOP/s, where there is `work`.
        machine: processor and number of cores.
        versions: Python and packages.
        day: date of the measurement.
    """

    what: str
    speeds: dict[str, list[float]]
    absent: dict[str, str] = field(default_factory=dict)
    unit: str = "images"
    work: Work | None = None
    peak: float | None = None
    machine: str = field(default_factory=lambda: f"{processor()}, {len(os.sched_getaffinity(0))} cores")
    versions: dict[str, str] = field(default_factory=lambda: versions())
    day: str = field(default_factory=lambda: date.today().isoformat())

    @property
    def mfu(self) -> float | None:
        """Median FLOP/s of our side over the matrix peak."""
        if self.work is None or not self.peak:
            return None
        return self.work.flops * statistics.median(next(iter(self.speeds.values()))) / self.peak

    def ratios(self, ours: str, theirs: str) -> list[float]:
        """How many times as fast `ours` was in each turn."""
        return [own / other for own, other in zip(self.speeds[ours], self.speeds[theirs], strict=True)]

    def show(self) -> None:
        """Print everything, and write it as JSON where `all_rows.py` asked for it."""
        print(f"{self.machine}, {self.day}")
        print(", ".join(f"{name} {number}" for name, number in self.versions.items()))
        print(f"{self.what}; {self.unit}/s:")
        for side, values in self.speeds.items():
            print(f"{side:<28} {spread(values, ',.3g' if max(values) < 10 else ',.0f')} {self.unit}/s")
        for side, why in self.absent.items():
            print(f"{side:<28} {why}")
        ours, *theirs = self.speeds
        for side in theirs:
            ratios = self.ratios(ours, side)
            print(f"RATIO {ours} / {side}: {spread(ratios, '.2f')}, n = {len(ratios)}")
        if self.mfu is not None:
            print(f"MFU {100 * self.mfu:.1f} % of {(self.peak or 0) / 1e9:,.0f} GFLOP/s", flush=True)
        if os.environ.get(RESULT_VARIABLE):
            Path(os.environ[RESULT_VARIABLE]).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Measurement":
        """What `show` wrote."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**plain, "work": plain["work"] and Work(**plain["work"])})


def answer(images_per_second: float) -> None:
    """What a side says, as the last line of its output."""
    print(json.dumps({"images_per_second": images_per_second}), flush=True)


def compare(
    ours: str, theirs: list[str], pairs: int, what: str, *more: str, work: Callable[[], Work] | None = None
) -> None:
    """Run every side `pairs` times in turn, with this process's own arguments and `more`; show speeds and ratios.

    Args:
        work: gives what an image of our side costs; called after the turns, because it imports torch.
    """
    speeds = take_turns({side: partial(_run, side, more) for side in (ours, *theirs)}, pairs)
    of_image = work() if work else None
    peak = measured_peak(of_image.precision) if of_image else None
    Measurement(f"{what}, {pairs} runs of each side in turn", speeds, work=of_image, peak=peak).show()


def take_turns(sides: Mapping[str, Callable[[], float]], turns: int) -> dict[str, list[float]]:
    """What each side returns in each turn. No side always follows the same other one."""
    values: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(turns):
        order = list(values) if turn % 2 == 0 else list(values)[::-1]
        for side in order:
            values[side].append(sides[side]())
        print(f"  {turn + 1}: " + ", ".join(f"{side} {found[-1]:,.4g}" for side, found in values.items()), flush=True)
    return values


def interleave(
    sides: Mapping[str, Callable[[], object]], images: int, turns: int, seconds: float
) -> dict[str, list[float]]:
    """Images per second of functions that take turns in this process.

    Args:
        sides: functions that each compute `images` images; all are called before the first turn to warm up.
        turns: number of turns of each side.
        seconds: length of a turn.
    """
    timed = {side: partial(speed, call, images, calls_in(call, seconds)) for side, call in sides.items()}
    return take_turns(timed, turns)


def without_slow(sides: Mapping[str, Callable[[], object]], absent: dict[str, str]) -> dict[str, Callable[[], object]]:
    """The sides without those whose second call takes over 10 s, which get their reason in `absent`. Ours stays."""
    kept = dict(sides)
    for side, call in sides.items():
        call()
        started = now()
        call()
        if side != OURS and (seconds := now() - started) > SLOW:
            absent[side] = f"left out: a call takes {seconds:.0f} s"
            del kept[side]
    return kept


def speed(call: Callable[[], object], images: int, calls: int) -> float:
    """Images per second of `calls` calls in a row, after one that brings its data back into the caches."""
    call()
    started = now()
    for _ in range(calls):
        call()
    return calls * images / (now() - started)


def now() -> float:
    """The clock in seconds, after a GPU has finished its work."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def calls_in(call: Callable[[], object], seconds: float) -> int:
    """How many calls take about `seconds`. Warms up, too."""
    call()
    call()
    started = now()
    call()
    return max(1, round(seconds / (now() - started)))


def spread(values: list[float], style: str) -> str:
    """Median, smallest and largest."""
    return f"{statistics.median(values):{style}} (min {min(values):{style}}, max {max(values):{style}})"


def processor() -> str:
    """The model name of the CPU."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python and of all packages that are compared."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = NOT_INSTALLED
    return found


def _run(side: str, more: tuple[str, ...]) -> float:
    command = [sys.executable, *sys.argv, *more, "--side", side]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["images_per_second"])
