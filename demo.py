"""What `make demo` runs: train, measure, predict, and ask whether more images would help, on scanned digits.

The digits come with the installation. Every step is a `vit` command, shown before it runs. Only the image files are
this script's.
"""

import os
import shlex
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

from vit.__main__ import main
from vit.console import Reporter
from vit.data.core.samples import Samples
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits

NETWORKS = {"ViT": "digits", "CNN": "digits_cnn"}


def run(*arguments: str) -> None:
    """Show a command and run it; the demo ends with its exit code if it fails."""
    print(f"\n$ vit {shlex.join(arguments)}", flush=True)
    code = main(list(arguments))
    if code:
        sys.exit(code)


def newest_run(out: Path) -> Path:
    """The run folder that was made last."""
    return max(out.glob("*/*/*/result.json"), key=lambda path: path.stat().st_mtime).parent


def write_scans(samples: Samples, class_names: tuple[str, ...], folder: Path) -> None:
    """Held-out scans as PNG files of 64 pixels, their true digit in the name."""
    folder.mkdir(parents=True)
    assert samples.arrays is not None
    for name, label, pixels in zip(samples.paths, samples.labels, samples.arrays, strict=True):
        picture = Image.fromarray(np.asarray(pixels)).resize((64, 64), Image.Resampling.NEAREST)
        picture.save(folder / f"{class_names[label]}_{Path(name).name}.png")


def demo(out: Path) -> None:
    """Train a ViT and a CNN, compare them, predict, and let a study answer whether more images would help."""
    started = time.monotonic()
    runs: dict[str, Path] = {}
    for name, recipe in NETWORKS.items():
        run("train", "--config", recipe, "--out", str(out / "runs"), "--wandb", "off")
        runs[name] = newest_run(out / "runs")
    run("compare", *map(str, runs.values()))
    source = with_all_splits(open_source("digits"), 0.1, 0.2, seed=0)
    write_scans(source.splits["test"], source.class_names, out / "scans")
    predictions = out / "predictions.csv"
    run("predict", str(runs["ViT"]), str(out / "scans"), "--output", str(predictions), "--gallery")
    study = out / "study"
    grid = ("--sizes", "100,350,all", "--seeds", "2", "--budget", "steps:400")
    run("study", "digits", "--networks", ",".join(NETWORKS.values()), *grid, "--out", str(study), "--wandb", "off")
    reporter = Reporter()
    reporter.line(f"\nDone in {time.monotonic() - started:.0f} s on {os.cpu_count()} cores. Look at")
    reporter.facts(
        [
            ("report of the ViT", str(runs["ViT"] / "report.html")),
            ("predictions", str(predictions.with_suffix(".html"))),
            ("study", str(study / "digits" / "report.html")),
        ]
    )
    reporter.next_command("vit train YOUR_FOLDER_OF_CLASS_FOLDERS")


if __name__ == "__main__":
    demo(Path("demo_output") / time.strftime("%Y%m%d-%H%M%S"))
