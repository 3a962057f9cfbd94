"""Test-time augmentation: what several views of an image bring and cost, on the test images of runs.

Both ways to average are measured: logits (what `--tta` does) and probabilities. Each way has a temperature of its own,
fitted on the validation images of the run. The difference of accuracies has the 95 % interval of paired images
(Wald's, from the images on which two ways disagree).

    python benchmarks/tta.py RUN [RUN ...] [--root FOLDER] [--most 3000]
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.run import RunDirectory
from vit.commands.recipe_options import read_recipe
from vit.data.loader import labeled_images
from vit.data.samples import Samples
from vit.errors import UsageError
from vit.inference.calibration import fit_temperature
from vit.inference.metric_set import calibration_error
from vit.inference.predictor import load
from vit.inference.scored_images import ScoredImages
from vit.inference.tta import TTA_NAMES, AugmentedEngine, Tta
from vit.training.run_images import images_of_run

SMALLEST = torch.finfo(torch.float32).smallest_normal


def views_of(path: Path, tta: Tta | None, samples: Samples) -> tuple[list[Tensor], Tensor, float]:
    """Probabilities (n, C) of each view at temperature 1, labels (n,), and seconds of computation without decoding."""
    engine = load(path, engine="torch", tta=tta).engine
    augmented = engine if isinstance(engine, AugmentedEngine) else None
    single = augmented.engine if augmented else engine
    single.temperature = 1.0
    batches = list(labeled_images(samples, engine.preprocess))
    began = time.process_time()
    found = [
        [single.probabilities(view) for view in (augmented.views(batch.image) if augmented else (batch.image,))]
        for batch in batches
    ]
    seconds = time.process_time() - began
    labels = torch.cat([batch.label for batch in batches])
    return [torch.cat(list(view)) for view in zip(*found, strict=True)], labels, seconds


def averages(views: list[Tensor]) -> dict[str, Tensor]:
    """{way to average: probabilities (n, C)}."""
    stacked = torch.stack(views)
    logits = stacked.clamp_min(SMALLEST).log().mean(dim=0)
    return {"logits": logits.softmax(dim=1), "probabilities": stacked.mean(dim=0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--root")
    parser.add_argument("--most", type=int, default=3000, help="images of a split")
    options = parser.parse_args()
    print("| run | views | mean of | accuracy | difference (paired) | log-loss | calibration error | time |")
    print("|---|---|---|---|---|---|---|---|")
    for path in options.runs:
        run = RunDirectory.open(path)
        source = images_of_run(run, read_recipe(run.config_path), options.root)
        chosen = {
            split: samples.select(np.sort(np.random.default_rng(0).permutation(len(samples))[: options.most]))
            for split, samples in source.splits.items()
        }
        reference, seconds_of_one = None, 0.0
        for tta in (None, *TTA_NAMES):
            try:
                fit, fit_labels, _ = views_of(run.path, tta, chosen["validation"])
            except UsageError:  # crops of a network that sees whole pictures
                continue
            test, labels, seconds = views_of(run.path, tta, chosen["test"])
            names, numbers = ("",) * len(labels), labels.numpy()
            for way, probabilities in averages(test).items():
                if tta is None and way == "probabilities":
                    continue
                fitted = fit_temperature(
                    ScoredImages(("",) * len(fit_labels), fit_labels.numpy(), averages(fit)[way].numpy())
                )
                scored = ScoredImages(names, numbers, probabilities.numpy()).at(fitted.value)
                correct = scored.correct.astype(np.float64)
                reference, seconds_of_one = (correct, seconds) if reference is None else (reference, seconds_of_one)
                change = correct - reference
                half = 1.96 * change.std() / len(change) ** 0.5
                difference = "" if tta is None else f"{100 * change.mean():+.2f} ± {100 * half:.2f}"
                print(f"| {path.name} ({len(labels):,}) | {tta or 'one'} | {way if tta else ''} | "
                      f"{100 * correct.mean():.2f} | {difference} | {scored.losses.mean():.4f} | "
                      f"{100 * calibration_error(scored.correct, scored.confidences).value:.2f} | "
                      f"{seconds / seconds_of_one:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
