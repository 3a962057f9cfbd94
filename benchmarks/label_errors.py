"""Wrong labels: how many flipped labels are found again, and how many of the named ones are wrong.

    python benchmarks/label_errors.py digits
    python benchmarks/label_errors.py fashion_mnist --root FOLDER --images 6000
    python benchmarks/label_errors.py FOLDER --init_from WEIGHTS --images 3000     (features of a frozen network)

Labels are flipped to another class, uniformly, by a seed. Five folds of a logistic regression on the features give
probabilities for images that it has not seen, as `vit crossval --freeze backbone` does. Without --init_from the
features are the first 100 principal components of the pixels. `find_label_errors` then ranks the images. For each rate
the table shows the mean over the seeds, and the least and the largest value:

    at k          fraction of wrong labels among the first k images, with k the number of flipped labels: precision and
                  recall are equal there. Sorted by the probability of the label (the program's ranking), or by margin.
    suspects      precision and recall of the images that `vit data check --labels` names
    confident     those that are confidently of another class: entries of the confident joint beside its diagonal
    mistakes      those whose most probable class is not their label

With cleanlab installed, a line beside it shows what `cleanlab.filter.find_label_issues` names, with its defaults, from
the same probabilities.
"""

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from vit.csv_files import new_table
from vit.data.folds import fold_numbers, pooled
from vit.data.samples import Labels, Samples, Source
from vit.data.sources import open_source
from vit.study.label_errors import find_label_errors

FOLDS = 5
COMPONENTS = 100
PENALTY = (
    0.01  # C of scikit-learn, for standardized features: weak enough for clean labels, strong enough for 20 % noise
)
Floats = npt.NDArray[np.float64]
Scores = dict[str, float]


def chosen(samples: Samples, num_images: int | None) -> Samples:
    """As many images of every class, chosen by seed 0; all where no number is given."""
    if num_images is None:
        return samples
    generator, classes = np.random.default_rng(0), np.unique(samples.labels)
    rows = [
        generator.permutation(np.flatnonzero(samples.labels == one))[: num_images // len(classes)] for one in classes
    ]
    return samples.select(np.sort(np.concatenate(rows)))


def pixels(samples: Samples) -> Floats:
    """(n, 100) principal components of the pixels."""
    assert samples.arrays is not None, "files need --init_from"
    flat = np.stack([np.asarray(array, dtype=np.float64).ravel() for array in samples.arrays])
    return np.asarray(PCA(min(COMPONENTS, flat.shape[1]), random_state=0).fit_transform(flat / 255))


def features(samples: Samples, found: Source, weights: str) -> Floats:
    """(n, D) features of a frozen network."""
    import torch
    from torch import nn

    from vit.inference.engine import Engine
    from vit.training.initial_network import initial_network
    from vit.training.planning.plan import make_plan
    from vit.training.recipes.image_options import DataConfig
    from vit.training.recipes.recipe import ModelConfig, Recipe, TrainerConfig
    from vit.weights.adapt import head_names

    few = samples.select(range(20))
    source = replace(found, splits={"train": samples, "validation": few, "test": few})
    model = ModelConfig(init_from=weights, freeze="backbone")
    recipe = Recipe(DataConfig(num_workers=0), model, trainer=TrainerConfig(precision="32-true"))
    plan = make_plan(recipe, source)
    network = initial_network(plan, False, print).network
    (name,) = {name.rpartition(".")[0] for name in head_names(network)}
    network.set_submodule(name, nn.Identity())
    engine = Engine(network, plan.preprocess, plan.device, plan.precision)
    batches = plan.data_module().evaluation_loader("train")
    return torch.cat([engine.logits(batch.image).clone() for batch in batches]).double().cpu().numpy()


def flipped(labels: Labels, rate: float, num_classes: int, seed: int) -> Labels:
    """The labels, of which a fraction is changed to another class, uniformly."""
    generator, noisy = np.random.default_rng(seed), labels.copy()
    rows = generator.permutation(len(labels))[: round(rate * len(labels))]
    noisy[rows] = (noisy[rows] + generator.integers(1, num_classes, len(rows))) % num_classes
    return noisy


def out_of_fold(inputs: Floats, samples: Samples, class_names: tuple[str, ...], seed: int) -> Floats:
    """(n, C) probabilities from folds without the image."""
    folds = fold_numbers(samples, class_names, FOLDS, seed)
    probabilities = np.zeros((len(samples), len(class_names)))
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        scaler = StandardScaler().fit(inputs[train])
        head = LogisticRegression(C=PENALTY, max_iter=200).fit(scaler.transform(inputs[train]), samples.labels[train])
        probabilities[test] = head.predict_proba(scaler.transform(inputs[test]))
    return probabilities


def scores(labels: Labels, probabilities: Floats, is_wrong: npt.NDArray[np.bool_]) -> Scores:
    """What each ranking and each list finds of the wrong labels."""
    found, count = find_label_errors(labels, probabilities), int(is_wrong.sum())
    rows = np.arange(len(labels))
    margin = found.confidence - probabilities[rows, found.suggested]
    result = {
        "accuracy": float((probabilities.argmax(1) == labels)[~is_wrong].mean()),
        "at k, probability": float(is_wrong[found.ranking[:count]].mean()),
        "at k, margin": float(is_wrong[np.argsort(margin, kind="stable")[:count]].mean()),
        "estimated rate": found.noise,
    }
    thresholds = np.array([found.confidence[labels == one].mean() for one in range(probabilities.shape[1])])
    above = np.where(probabilities >= thresholds, probabilities, -1.0)
    confident = np.flatnonzero((above.max(1) >= 0) & (above.argmax(1) != labels))
    lists = {"suspects": found.suspects, "confident": confident, "mistakes": np.flatnonzero(margin < 0)}
    if find_spec("cleanlab"):
        from cleanlab.filter import find_label_issues  # type: ignore[import-not-found]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lists["cleanlab"] = np.flatnonzero(find_label_issues(labels, probabilities, n_jobs=1))
    for name, one in lists.items():
        result[f"{name}: precision"] = float(is_wrong[one].mean()) if len(one) else 1.0
        result[f"{name}: recall"] = float(is_wrong[one].sum() / count)
    return result


def write_ranking(path: Path, samples: Samples, class_names: tuple[str, ...], probabilities: Floats) -> None:
    """Write the suspects of labels as they are."""
    found = find_label_errors(samples.labels, probabilities)
    accuracy = float((probabilities.argmax(1) == samples.labels).mean())
    print(f"{len(samples):,} images, accuracy {100 * accuracy:.1f} %, {found.num_suspects} suspects")
    with new_table(path, ("rank", "path", "label", "suggested", "confidence"), mode="x") as table:
        for rank, image in enumerate(found.suspects.tolist(), 1):
            names = (class_names[samples.labels[image]], class_names[found.suggested[image]])
            table.row((rank, samples.paths[image], *names, float(found.confidence[image])))


def main(words: Sequence[str] | None = None) -> None:
    """Measure one data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--root")
    parser.add_argument("--images", type=int, help="number of images, equally many of every class")
    parser.add_argument("--init_from", help="weights of a network that computes the features")
    parser.add_argument("--keep", type=Path, help="file that keeps the features between calls")
    parser.add_argument("--as_they_are", type=Path, help="flip nothing, and write the ranked labels to this CSV")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.05, 0.1, 0.2])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(words)
    found = open_source(options.data, options.root)
    samples = chosen(pooled(found), options.images)
    if options.keep is not None and options.keep.exists():
        kept = np.load(options.keep)
        inputs, places = kept["features"], {path: place for place, path in enumerate(pooled(found).paths)}
        samples = pooled(found).select([places[path] for path in kept["paths"].tolist()])
    else:
        inputs = pixels(samples) if options.init_from is None else features(samples, found, options.init_from)
        if options.keep is not None:
            np.savez(options.keep, features=inputs, paths=np.array(samples.paths))
    if options.as_they_are is not None:
        write_ranking(
            options.as_they_are, samples, found.class_names, out_of_fold(inputs, samples, found.class_names, 0)
        )
        return
    print(f"{found.name}: {len(samples):,} images, {len(found.class_names)} classes, {options.seeds} seeds")
    for rate in options.rates:
        rows = []
        for seed in range(options.seeds):
            noisy = replace(samples, labels=flipped(samples.labels, rate, len(found.class_names), seed))
            probabilities = out_of_fold(inputs, noisy, found.class_names, seed)
            rows.append(scores(noisy.labels, probabilities, noisy.labels != samples.labels))
        print(f"{100 * rate:g} % flipped")
        for name in rows[0]:
            values = [100 * row[name] for row in rows]
            print(f"  {name:<22} {np.mean(values):6.1f}  ({min(values):.1f} to {max(values):.1f})", flush=True)


if __name__ == "__main__":
    main()
