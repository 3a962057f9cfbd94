"""What a command computes before it works, as CPU time, which other programs hardly change: whole processes, in turn.

`vit predict`, `evaluate`, `explain`, `compare` and `report` run to their end, on runs of digits and one picture.
`vit train digits` and `vit study digits` run to the first step, when metrics.csv has its first row, and are ended then.
The imports that such a command cannot do without are measured beside them. Needs Linux.

    python benchmarks/startup.py
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from rows import PREDICTS, SCORES, TRAINS
from timing import Measurement, take_turns

TINY = ("--optim.steps", "4", "--batch_size", "8", "--wandb", "off", "--data.train_images", "50")
POLL_SECONDS = 0.005
MOST_SECONDS = 300.0


def vit(*words: object) -> list[str]:
    """The command line of a `vit` command."""
    return [sys.executable, "-m", "vit", *map(str, words)]


def whole(command: Sequence[str], folder: Path) -> float:
    """Runs per second of CPU time of a command from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return 1 / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def cpu_seconds(session: int) -> float:
    """CPU time that the living processes of a session, and the children that they have waited for, have taken."""
    ticks = 1  # the clock may not have ticked
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def to_first_step(words: Sequence[str], folder: Path) -> float:
    """Starts per second of CPU time of a training or study, to the first row of metrics.csv, over all its processes."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        started, output = time.perf_counter(), subprocess.DEVNULL
        process = subprocess.Popen(vit(*words), cwd=name, stdout=output, stderr=output, start_new_session=True)
        try:
            while not any(_has_row(path) for path in Path(name).rglob("metrics.csv")):
                if process.poll() is not None or time.perf_counter() - started > MOST_SECONDS:
                    raise SystemExit(f"vit {' '.join(words)} made no step")
                time.sleep(POLL_SECONDS)
            return 1 / cpu_seconds(process.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _has_row(path: Path) -> bool:
    try:
        return path.read_bytes().count(b"\n") > 1
    except FileNotFoundError:
        return False


def prepare(folder: Path) -> tuple[Path, Path]:
    """Two runs of digits with result and report."""
    for seed in (0, 1):
        whole(vit("train", "digits", *TINY, "--seed", seed, "--name", f"run{seed}"), folder)
    first, second = sorted(path.parent for path in folder.rglob("result.json"))
    return first, second


def write_picture(path: Path) -> None:
    """A photograph's size of noise as a JPEG file."""
    import numpy as np
    from PIL import Image

    Image.fromarray(np.random.default_rng(0).integers(0, 256, (400, 533, 3), dtype=np.uint8)).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="turns of each side; default 5")
    parser.add_argument("--only", nargs="*", help="sides to time, such as 'vit predict'; default: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_picture(folder / "picture.jpg")
        run, other = prepare(folder)
        commands = {
            "vit predict": vit("predict", run, "picture.jpg"),
            "vit evaluate": vit("evaluate", run),
            "vit explain": vit("explain", run, "picture.jpg", "--method", "rollout"),
            "vit compare": vit("compare", run, other),
            "vit report": vit("report", run),
            **{code: [sys.executable, "-c", code] for code in (PREDICTS, SCORES, TRAINS)},
        }
        sides = {side: partial(whole, command, folder) for side, command in commands.items()}
        sides["vit train"] = partial(to_first_step, ("train", "digits", "--wandb", "off"), folder)
        sides["vit study"] = partial(
            to_first_step,
            ("study", "digits", "--networks", "digits", "--sizes", "100", "--seeds", "1", "--wandb", "off"),
            folder,
        )
        chosen = {side: call for side, call in sides.items() if not arguments.only or side in arguments.only}
        for call in chosen.values():
            call()  # the files of every library are in the page cache then
        speeds = take_turns(chosen, arguments.turns)
    Measurement(
        f"Starts of commands, CPU time, {os.cpu_count()} cores, files in the page cache", speeds, unit="runs"
    ).show()


if __name__ == "__main__":
    main()
