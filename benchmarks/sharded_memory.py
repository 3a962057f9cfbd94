"""Memory of each process of a training on 1, 2 and 4 processes of a CPU, with whole and with spread weights (FSDP).

    python benchmarks/sharded_memory.py [--processes 1,2,4] [--turns 3] [--depth 8]

Each training is `vit train --devices N`: ViT-B/16 of `depth` blocks (59 million parameters by default), pictures of 64
pixels, AdamW, float32, 8 images a step. So activations are small beside weights, gradients and the optimizer's state.

Another process reads /proc/PID/smaps_rollup ten times a second. Pss counts memory that processes share in equal parts,
so that the numbers add up. "in its steps" is the highest Pss of a process before the first checkpoint. "with
checkpoints" is the highest Pss of any process before the result is written, with the gathering of weights. The first
row is a network of a few thousand parameters: what libraries and the loader take.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

NETWORK, TINY, IMAGE_SIZE, BATCH, STEPS = "vit_base_patch16_224", "vit_nano_patch2_8", 64, 8, 15
CLASSES, HELD_OUT = 2, 4  # images of each class for validation and test
PAUSE = 0.1  # seconds between two readings
MIB = 2**20


@dataclass(frozen=True)
class Peaks:
    """Highest memory of each process of one training, in bytes, the largest first.

    Attributes:
        steps: before the first checkpoint.
        whole: until the result is written.
    """

    steps: list[int]
    whole: list[int]


def main() -> None:
    """Measure every number of processes in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2,4", help="numbers of processes")
    parser.add_argument("--turns", type=int, default=3, help="trainings of each kind")
    parser.add_argument("--depth", type=int, default=8, help="number of blocks")
    given = parser.parse_args()
    numbers = [int(number) for number in given.processes.split(",")]
    kinds = [(number, strategy) for number in numbers for strategy in (("ddp",) if number == 1 else ("ddp", "fsdp"))]
    large = ("--network", NETWORK, "--model.network.depth", str(given.depth), "--model.network.patch_size", "16")
    found: dict[str, list[Peaks]] = {}
    with tempfile.TemporaryDirectory() as folder:
        images = draw_images(Path(folder) / "images")
        for turn in range(given.turns):
            sides = {"libraries and loader": (("--network", TINY, "--devices", "1"), 1)}
            for number, strategy in kinds:
                name = f"{number} processes, {strategy}" if number > 1 else "1 process"
                sides[name] = ((*large, "--devices", str(number), "--strategy", strategy), number)
            for name, (options, number) in sides.items():
                found.setdefault(name, []).append(measured(Path(folder) / f"{turn}", images, options, number))
                print(f"turn {turn + 1}, {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    print(
        "| training | a process in its steps, MiB | all of them | a process with checkpoints, MiB |\n|---|---|---|---|"
    )
    for name, peaks in found.items():
        each = shown(value for one in peaks for value in one.steps)
        together, most = shown(sum(one.steps) for one in peaks), shown(one.whole[0] for one in peaks)
        print(f"| {name} | {each} | {together} | {most} |")


def shown(values: Iterable[int]) -> str:
    """Median and range in MiB."""
    found = sorted(value / MIB for value in values)
    return f"{statistics.median(found):,.0f} ({found[0]:,.0f} to {found[-1]:,.0f})"


def draw_images(folder: Path) -> Path:
    """PNG files of noise in class folders, enough for one epoch of `STEPS` steps."""
    generator = np.random.default_rng(0)
    for split, each in (("train", STEPS * BATCH // CLASSES), ("validation", HELD_OUT), ("test", HELD_OUT)):
        for label in range(CLASSES):
            place = folder / split / f"class {label}"
            place.mkdir(parents=True)
            for index in range(each):
                pixels = generator.integers(0, 256, (IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{index}.png")
    return folder


def measured(folder: Path, images: Path, options: Iterable[str], number: int) -> Peaks:
    """The memory of the processes of one training, while it runs.

    Args:
        folder: folder in which runs are made.
        number: number of processes.
    """
    folder.mkdir(exist_ok=True)
    command = [
        sys.executable, "-m", "vit", "train", str(images), *options, "--image_size", str(IMAGE_SIZE), "--epochs", "1",
        "--batch_size", str(BATCH), "--optim.optimizer", "adamw", "--augment", "none", "--precision", "32-true",
        "--trainer.accelerator", "cpu", "--data.num_workers", "0", "--init_from", "none", "--wandb", "off",
    ]  # fmt: skip
    out = Path(tempfile.mkdtemp(dir=folder))
    with open(out / "said.txt", "w", encoding="utf-8") as said:
        process = subprocess.Popen([*command, "--out", str(out)], stdout=said, stderr=said)
        steps: dict[int, int] = {}
        whole: dict[int, int] = {}
        while process.poll() is None:
            is_saved, is_over = any(out.glob("*/*/*/checkpoints/*")), any(out.glob("*/*/*/result.json"))
            for pid in () if is_over else family(process.pid):
                memory = pss(pid)
                whole[pid] = max(whole.get(pid, 0), memory)
                if not is_saved:
                    steps[pid] = max(steps.get(pid, 0), memory)
            time.sleep(PAUSE)
    if process.returncode:
        raise SystemExit((out / "said.txt").read_text(encoding="utf-8"))
    return Peaks(sorted(steps.values())[-number:][::-1], sorted(whole.values())[-number:][::-1])


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    try:
        children = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return found
    for child in children.split():
        found += family(int(child))
    return found


def pss(pid: int) -> int:
    """Proportional memory of a process in bytes; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
