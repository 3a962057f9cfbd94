"""Images unlike the training images: how well scores tell them from test images, on real pairs of data sets.

The known images are the test images of each run. The others are the test images of a data set, or files of a folder.
Scores: nearest neighbors among training features (Sun et al. 2022, arXiv 2204.06507), negative energy (Liu et al. 2020,
arXiv 2010.03759), maximum logit (Hendrycks et al. 2022, arXiv 1911.11132), maximum probability (Hendrycks and Gimpel
2017, arXiv 1610.02136). The networks see both kinds of images through the same preprocessing.

    python benchmarks/novelty.py RUN [RUN ...] --others fashion_mnist [--root FOLDER] [--csv FILE]

Several runs are seeds of one training. The table has the mean over runs of the AUROC, and of the fraction of other
images that pass where 95 % of the test images pass (FPR95). Intervals: 1,000 bootstrap samples of the images of the
first run, and the range over the runs.
"""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.commands.recipe_options import read_recipe
from vit.csv_files import new_table
from vit.data.loader import labeled_images
from vit.data.samples import Samples
from vit.data.sources import open_source
from vit.inference.engine import Engine
from vit.inference.files import list_files
from vit.inference.prediction import read_input
from vit.training.run_images import images_of_run

NEIGHBORS = (1, 5, 10, 50)
FEATURES = 5000
BATCH = 64

Floats = npt.NDArray[np.float64]


def outputs(engine: Engine, batches: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Logits (n, C) and normalized features (n, D)."""
    logits, features = (torch.cat(parts) for parts in zip(*map(engine.logits_and_features, batches), strict=True))
    return logits, torch.nn.functional.normalize(features, dim=1)


def batches_of(samples: Samples, engine: Engine, most: int) -> list[Tensor]:
    """Up to `most` images of a split, chosen by a fixed seed."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(samples))[:most])
    return [batch.image[batch.valid] for batch in labeled_images(samples.select(chosen), engine.preprocess)]


def other_images(data: str, root: str | None, engine: Engine, most: int) -> list[Tensor]:
    """Test images of a data set with a name or with class folders, or the files of a folder."""
    if not Path(data).is_dir() or any((Path(data) / split).is_dir() for split in ("test", "val", "validation")):
        splits = open_source(data, root).splits
        return batches_of(splits.get("test", splits["train"]), engine, most)
    read = [read_input(file, engine.preprocess) for file in list_files([data], True).paths[:most]]
    images = torch.stack([image for image in read if isinstance(image, Tensor)])
    return list(images.split(BATCH))


def scores_of(logits: Tensor, features: Tensor, bank: Tensor) -> dict[str, Floats]:
    """{score: (n,) values, larger for more novel images}."""
    nearest = torch.cat([(part @ bank.T).topk(max(NEIGHBORS), dim=1).values for part in features.split(512)])
    found = {f"neighbor {k}": 1 - nearest[:, k - 1] for k in NEIGHBORS}
    found["energy"] = -logits.logsumexp(dim=1)
    found["maximum logit"] = -logits.max(dim=1).values
    found["maximum probability"] = -logits.softmax(dim=1).max(dim=1).values
    return {name: values.double().numpy() for name, values in found.items()}


def auroc(known: Floats, others: Floats) -> float:
    """Probability that another image is more novel than a known one."""
    ranks = rankdata(np.concatenate([known, others]))[len(known) :]
    return float((ranks.sum() - len(others) * (len(others) + 1) / 2) / (len(known) * len(others)))


def fpr95(known: Floats, others: Floats) -> float:
    """Fraction of the other images that pass where 95 % of the known images pass."""
    return float((others <= np.quantile(known, 0.95)).mean())


def bootstrap(known: Floats, others: Floats, samples: int = 1000) -> tuple[float, float]:
    """The 95 % interval of the AUROC over images."""
    generator = np.random.default_rng(0)
    drawn = [auroc(generator.choice(known, len(known)), generator.choice(others, len(others))) for _ in range(samples)]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--others", required=True)
    parser.add_argument("--root", help="folder of torchvision's data sets, for --others")
    parser.add_argument("--most", type=int, default=2000, help="images of each kind")
    parser.add_argument("--features", type=int, default=FEATURES, help="training images")
    parser.add_argument("--csv", type=Path, help="new table of all values")
    options = parser.parse_args()
    measured: list[dict[str, tuple[float, float]]] = []
    intervals: dict[str, tuple[float, float]] = {}
    for path in options.runs:
        run = RunDirectory.open(path)
        network, description = load(run.best_path)
        engine = Engine(network, description.preprocess, torch.device("cpu"), description.precision)
        engine.keep_features()
        source = images_of_run(run, read_recipe(run.config_path))
        _, bank = outputs(engine, batches_of(source.splits["train"], engine, options.features))
        known = scores_of(*outputs(engine, batches_of(source.splits["test"], engine, options.most)), bank)
        others = scores_of(*outputs(engine, other_images(options.others, options.root, engine, options.most)), bank)
        measured.append({name: (auroc(known[name], others[name]), fpr95(known[name], others[name])) for name in known})
        intervals = intervals or {name: bootstrap(known[name], others[name]) for name in known}
        print(f"{path}: {len(bank):,} features of {bank.shape[1]}, {len(known['energy']):,} test images, "
              f"{len(others['energy']):,} others", flush=True)  # fmt: skip
    print("| score | AUROC | interval (images) | range (runs) | FPR95 |\n|---|---|---|---|---|")
    rows = []
    for name, (low, high) in intervals.items():
        areas, passed = (np.array([one[name][place] for one in measured]) for place in (0, 1))
        rows.append((name, areas.mean(), low, high, areas.min(), areas.max(), passed.mean()))
        print(f"| {name} | {100 * areas.mean():.2f} | {100 * low:.2f} to {100 * high:.2f} | "
              f"{100 * areas.min():.2f} to {100 * areas.max():.2f} | {100 * passed.mean():.1f} |")  # fmt: skip
    if options.csv:
        columns = ("score", "auroc", "low", "high", "lowest_run", "highest_run", "fpr95")
        with new_table(options.csv, columns, digits=5) as table:
            for row in rows:
                table.row(row)


if __name__ == "__main__":
    main()
