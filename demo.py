"""What `make demo` runs: train, compare, predict, on scanned digits that come with the installation.

Every step is a `vit` command, shown before it runs; only the table at the end and the image files are this script's.
"""

import json
import os
import shlex
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

from vit.__main__ import main
from vit.console import Reporter
from vit.data.samples import Samples
from vit.data.sources import open_source
from vit.data.split import with_all_splits

SEEDS = (0, 1, 2)
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
    """Train both networks with every seed, evaluate, predict, and show where to look."""
    started = time.monotonic()
    runs: dict[str, list[Path]] = {name: [] for name in NETWORKS}
    for name, recipe in NETWORKS.items():
        for seed in SEEDS:
            run("train", "--config", recipe, "--seed", str(seed), "--out", str(out / "runs"), "--wandb", "off")
            runs[name].append(newest_run(out / "runs"))
    for name in NETWORKS:
        run("evaluate", str(runs[name][0]))
    source = with_all_splits(open_source("digits"), 0.1, 0.2, seed=0)
    write_scans(source.splits["test"], source.class_names, out / "scans")
    run(
        "predict",
        str(runs["ViT"][0]),
        str(out / "scans"),
        "--output",
        str(out / "predictions.csv"),
        "--gallery",
    )

    reporter = Reporter()
    rows = []
    for name, folders in runs.items():
        results = [json.loads((folder / "result.json").read_text()) for folder in folders]
        accuracies = [100 * result["metrics"]["acc1"]["value"] for result in results]
        rows.append(
            (
                name,
                results[0]["network"]["name"],
                f"{results[0]['parameters']:,}",
                f"{statistics.mean(accuracies):.2f} ± {statistics.stdev(accuracies):.2f}",
                ", ".join(f"{accuracy:.2f}" for accuracy in accuracies),
                f"{statistics.mean(result['seconds'] for result in results):.0f}",
            )
        )
    reporter.line(
        f"\nTest accuracy on {len(source.splits['test'])} held-out scans, "
        f"mean ± standard deviation over {len(SEEDS)} seeds"
    )
    reporter.table(("", "network", "parameters", "accuracy (%)", "each seed", "seconds"), rows)
    reporter.line(f"\nDone in {time.monotonic() - started:.0f} s on {os.cpu_count()} cores. Look at")
    reporter.facts(
        [
            ("predictions", str(out / "predictions.csv")),
            ("page", str(out / "predictions.html")),
            ("report", str(runs["ViT"][0] / "report.html")),
        ]
    )
    reporter.next_command("vit train YOUR_FOLDER_OF_CLASS_FOLDERS")


if __name__ == "__main__":
    demo(Path("demo_output") / time.strftime("%Y%m%d-%H%M%S"))
