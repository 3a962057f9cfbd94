"""How long few images should train: test accuracy of fine-tuning for several numbers of optimizer steps.

    python benchmarks/lengths.py run ROWS.jsonl FOLDER... --weights WEIGHTS [--images 60 150] [--steps 64 200]
    python benchmarks/lengths.py table ROWS.jsonl

A FOLDER holds pool/CLASS and test/CLASS. Each seed draws n images with equal classes from the pool for training, and
max(10, n / 7) for validation, which choose the checkpoint. All lengths of a seed see the same images. Rows that the
file has already are left out, so that a run that was stopped goes on.
"""

import argparse
import json
import logging
import random
import shutil
import statistics
import tempfile
import time
from itertools import product
from pathlib import Path

from vit.checkpoints.run import RunDirectory
from vit.commands.training.train_options import read_values
from vit.training.fit import fit
from vit.training.planning.plan import plan_of

Row = dict[str, float | int | str]
_KEY = ("data", "weights", "images", "seed", "image_size", "steps", "options")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("rows", type=Path)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--weights", type=Path, nargs="+")
    parser.add_argument("--images", type=int, nargs="+", default=[60, 250, 1000])
    parser.add_argument("--steps", type=int, nargs="+", default=[64, 128, 256, 512, 1000])
    parser.add_argument("--image_size", type=int, default=96)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--options", default="{}", help="further options of the recipe, as JSON")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.rows.read_text().splitlines()] if given.rows.exists() else []
    if given.action == "table":
        show(rows)
        return
    logging.disable(logging.WARNING)
    done = {tuple(row[name] for name in _KEY) for row in rows}
    seeds = range(given.first_seed, given.seeds)
    for seed, images, folder, weights, steps in product(seeds, given.images, given.folders, given.weights, given.steps):
        key = (folder.name, weights.name.split("_")[0], images, seed, given.image_size, steps, given.options)
        if key in done:
            continue
        row = dict(zip(_KEY, key, strict=True)) | train(
            folder, weights, images, seed, given.image_size, steps, given.options
        )
        with given.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")


def train(folder: Path, weights: Path, images: int, seed: int, image_size: int, steps: int, options: str) -> Row:
    """One training, without its run folder."""
    out = Path(tempfile.mkdtemp(prefix="lengths"))
    try:
        given = {
            "data": str(draw(folder, images, seed, out / "images.csv")), "init_from": str(weights),
            "image_size": image_size, "optim.steps": steps, "data.num_workers": 0, "seed": seed,
            **json.loads(options),
        }  # fmt: skip
        begin, busy = time.perf_counter(), time.process_time()
        plan = plan_of(read_values(given.pop("data"), None, None, given).layers.recipe())
        (out / "run").mkdir()
        result = fit(plan, RunDirectory(out / "run")).result
        busy, seconds = time.process_time() - busy, time.perf_counter() - begin
        return {
            "batch_size": plan.batch_size, "best": result.best_epoch, "rounds": plan.rounds,
            "accuracy": result.metrics["acc1"]["value"], "nll": result.metrics["nll"]["value"],
            "validation": result.validation["val/acc1"], "correct": result.correct["test"],
            "seconds": round(seconds), "cpu": round(busy),
        }  # fmt: skip
    finally:
        shutil.rmtree(out)


def draw(folder: Path, images: int, seed: int, table: Path) -> Path:
    """A table of training images with equal classes, validation images, and all test images."""
    draws = random.Random(seed)
    pools = {kind.name: sorted(kind.iterdir()) for kind in sorted((folder / "pool").iterdir())}
    for files in pools.values():
        draws.shuffle(files)
    names = list(pools)
    rows, wanted = [], {"train": images, "validation": max(10, images // 7)}
    for split, count in wanted.items():
        order = draws.sample(names, len(names))
        for i in range(count):
            name = next(n for n in (order[i % len(order) :] + order) if pools[n])
            rows.append((pools[name].pop(), name, split))
    rows += [(file, kind.name, "test") for kind in (folder / "test").iterdir() for file in sorted(kind.iterdir())]
    table.write_text("path,label,split\n" + "".join(f"{p.resolve()},{name},{split}\n" for p, name, split in rows))
    return table


def show(rows: list[Row]) -> None:
    """Test accuracy in %: mean over the seeds, number of seeds and their standard deviation, a column a length."""
    lengths = sorted({int(row["steps"]) for row in rows})
    print("| images | network | training images | size | options | " + " | ".join(f"{n} steps" for n in lengths) + " |")
    print("|---" * (5 + len(lengths)) + "|")
    shown = ("data", "weights", "images", "image_size", "options")
    for key in sorted({tuple(row[name] for name in shown) for row in rows}):
        cells = []
        for steps in lengths:
            found = [
                100 * float(row["accuracy"])
                for row in rows
                if (*(row[name] for name in shown), row["steps"]) == (*key, steps)
            ]
            spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
            cells.append(f"{statistics.mean(found):.1f}{spread} ({len(found)})" if found else "")
        print("| " + " | ".join([*map(str, key), *cells]) + " |")


if __name__ == "__main__":
    main()
