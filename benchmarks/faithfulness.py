"""Do explanations beat chance? Deletion and insertion of every method on many photographs, beside random orders.

    python benchmarks/faithfulness.py --model CKPT --photos FOLDER --output rows.csv

Every method explains the class that the model predicts for a photograph. Deletion removes patches in the order of the
map and in random orders. Insertion shows patches in these orders (vit/explain/faithfulness.py). The photograph's mean
color replaces removed patches, or with `--background blur` the photograph strongly blurred.

Rows are written as they are computed, and `--summary rows.csv` prints the summary again. Labels are not used, so any
photographs will do that resemble the model's training images.
"""

import argparse
import platform
import statistics
import time
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from timing import processor

COLUMNS = ("path", "label", "probability", "background", "method", "deletion", "insertion", "random")
PACKAGES = ("torch", "grad-cam")


def measure(model: str, photos: str, limit: int, background: str, steps: int, output: Path) -> None:
    import torch

    import vit
    from vit.csv_files import new_table
    from vit.data.decode import read_image
    from vit.explain.faithfulness import blurred, faithfulness, grid_size_for, mean_color
    from vit.explain.methods import choose_methods
    from vit.inference.engine import Engine
    from vit.inference.files import list_files

    fill = {"mean": mean_color, "blur": blurred}[background]
    predictor = vit.load(model, engine="torch")
    assert isinstance(predictor.engine, Engine)
    network = predictor.engine.network
    methods = choose_methods("all", network)
    grid_size = grid_size_for(network.image_size, getattr(network.config, "grid_size", None))
    started = time.monotonic()
    with new_table(output, COLUMNS, digits=6, mode="x") as table:
        for place, path in enumerate(list_files([photos], recursive=True).paths[:limit]):
            image = predictor.preprocess(read_image(path))
            probability, number = predictor.engine.probabilities(image[None])[0].max(dim=0)
            normalized = predictor.preprocess.normalize(image[None]).to(predictor.engine.device)
            class_names = torch.tensor([int(number)], device=normalized.device)
            maps = {name: method(network, normalized, class_names)[0].cpu() for name, method in methods.items()}
            fades = fill(image)

            def explained(images: torch.Tensor, number: int = int(number)) -> torch.Tensor:
                return predictor.engine.probabilities(images)[:, number]

            found = faithfulness(explained, image, fades, maps, grid_size, steps, seed=place)
            for method, one in found.items():
                areas = (one.deletion, one.insertion, one.random)
                table.row([path, predictor.class_names[int(number)], float(probability), background, method, *areas])
            table.flush()
            print(f"{place + 1} photos, {time.monotonic() - started:.0f} s", flush=True)


def summarize(path: Path) -> None:
    from scipy.stats import t

    from vit.csv_files import records

    print(f"{processor()}; Python {platform.python_version()}, " + ", ".join(f"{p} {version(p)}" for p in PACKAGES))
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in records(path):
        groups[row["background"], row["method"]].append(row)
    columns = ["background", "method", "n", "deletion", "random minus deletion", "better on"]
    columns += ["insertion", "insertion minus random", "better on"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for (background, method), rows in groups.items():
        cells = [background, method, str(len(rows))]
        for kind, sign in (("deletion", -1), ("insertion", 1)):
            values = [float(row[kind]) for row in rows]
            gains = [sign * (float(row[kind]) - float(row["random"])) for row in rows]
            half = t.ppf(0.975, len(gains) - 1) * statistics.stdev(gains) / len(gains) ** 0.5
            mean = statistics.fmean(gains)
            cells += [f"{statistics.fmean(values):.3f}", f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"]
            cells.append(f"{sum(gain > 0 for gain in gains)}")
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a run folder or a checkpoint")
    parser.add_argument("--photos", help="folder of images")
    parser.add_argument("--images", type=int, default=250, help="photos at most; default 250")
    parser.add_argument("--steps", type=int, default=10, help="parts that an image is taken away in; default 10")
    parser.add_argument("--background", choices=("mean", "blur"), default="mean", help="default: mean")
    parser.add_argument("--output", type=Path, default=Path("faithfulness.csv"), help="a file that does not exist yet")
    parser.add_argument("--summary", type=Path, help="print the summary of such a file, and measure nothing")
    arguments = parser.parse_args()
    if arguments.summary is None:
        if not arguments.model or not arguments.photos:
            parser.error("--model and --photos are needed")
        measure(
            arguments.model,
            arguments.photos,
            arguments.images,
            arguments.background,
            arguments.steps,
            arguments.output,
        )
    summarize(arguments.summary or arguments.output)


if __name__ == "__main__":
    main()
