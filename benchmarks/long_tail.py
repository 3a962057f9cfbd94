"""Unequal classes: what each correction brings on CIFAR-10-LT and MNIST-LT, several seeds, with intervals.

The long tail is that of Cui et al. 2019 and Cao et al. 2019: class i of C keeps 5000 * factor^(-i / (C - 1)) training
images, chosen by a seed. The test images stay as they are, with equal or nearly equal classes.

    python benchmarks/long_tail.py mnist --root FOLDER                    (FOLDER/MNIST/raw)
    python benchmarks/long_tail.py FOLDER_OF_CLASS_FOLDERS --steps 2000   (CIFAR-10 as PNG files)

The trainings are an ordinary `vit study`. A second call continues it, and `vit report STUDY` shows its statistics. Each
correction is compared with "natural" on the same seeds and test images. All but the last keep the weights with the
highest balanced accuracy on validation images, which have the long tail too.
"""

import argparse
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

import vit
from vit.csv_files import new_table, records
from vit.data.draws import uniform
from vit.data.samples import Samples, Source
from vit.data.sources import open_source

MOST = 5000  # training images of the commonest class
RAREST = 3  # classes whose mean recall is shown
CORRECTIONS: dict[str, dict[str, object]] = {
    "natural": {},
    "weights auto": {"optim": {"class_weights": "auto"}},
    "weights effective": {"optim": {"class_weights": "effective"}},
    "sampling balanced": {"data": {"sampling": "balanced"}},
    "sampling sqrt": {"data": {"sampling": "sqrt"}},
    "logit adjustment": {"optim": {"logit_adjustment": 1.0}},
    "natural, by loss": {"optim": {"best_metric": "loss"}},
}


def recipe(correction: dict[str, object], side: int) -> dict[str, dict[str, object]]:
    """A ResNet of 0.32 million parameters: ResNet-32, that papers use here, has 0.46 million."""
    network = {"name": "resnet10_small", "layers": [1, 1, 1, 1], "widths": [16, 32, 64, 128]}
    base: dict[str, dict[str, object]] = {
        "data": {},
        "model": {"network": network, "preprocess": {"image_size": side}},
        "optim": {
            "optimizer": "sgd", "lr": 0.1, "batch_size": 64, "weight_decay": 0.0005, "label_smoothing": 0.0,
            "best_metric": "balanced_acc",
        },
        "augment": {"name": "light", "flip": 0.5 if side == 32 else 0.0},
    }  # fmt: skip
    return {section: {**values, **correction.get(section, {})} for section, values in base.items()}  # type: ignore[dict-item]


def tail(source: Source, factor: float, seed: int) -> Samples:
    """The training images of a long tail, chosen by a seed."""
    train, num_classes = source.splits["train"], len(source.class_names)
    kept = []
    for label in range(num_classes):
        rows = np.flatnonzero(train.labels == label)
        order = np.argsort(uniform(1, seed, label, np.arange(len(rows)))[:, 0], kind="stable")
        kept.append(rows[order[: int(MOST * factor ** (-label / (num_classes - 1)))]])
    return train.select(np.sort(np.concatenate(kept)))


def write_table(source: Source, train: Samples, folder: Path) -> tuple[Path, int]:
    """A CSV of the long tail and all test images, and their side; images that are not files become PNG files."""
    table, side = folder / "images.csv", 0
    with new_table(table, ("path", "label", "split")) as rows:
        for split, samples in (("train", train), ("test", source.splits["test"])):
            for index, label in enumerate(samples.labels.tolist()):
                if samples.arrays is None:
                    path = samples.file(index).absolute()
                else:
                    path = (folder / split / f"{samples.paths[index]}.png").absolute()
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if not path.exists():
                        Image.fromarray(np.asarray(samples.arrays[index])).save(path)
                if not side:
                    with Image.open(path) as picture:
                        side = picture.width
                rows.row((str(path), source.class_names[label], split))
    return table, side


def show(study: Path, class_names: tuple[str, ...]) -> None:
    """Accuracy over all classes and over the rarest ones, for each correction."""
    rarest = set(class_names[-RAREST:])
    found: dict[str, list[tuple[float, float]]] = {}
    for cell in sorted(study.glob("cells/*/*/*")):
        if not (cell / "result.json").is_file():
            continue
        table = records(cell / "predictions" / "test.csv")
        rows = [(row["label"], row["label"] == row["predicted"]) for row in table]
        recalls = {name: np.mean([right for label, right in rows if label == name]) for name in class_names}
        name = cell.parent.parent.name
        both = (float(np.mean(list(recalls.values()))), float(np.mean([recalls[name] for name in rarest])))
        found.setdefault(name, []).append(both)
    print(f"balanced accuracy (%), and of it the {RAREST} rarest classes: mean over seeds, and each seed")
    for name, values in found.items():
        every, rare = (100 * np.array(column) for column in zip(*values, strict=True))
        print(f"{name:20} {every.mean():6.2f} {np.round(every, 2)}   {rare.mean():6.2f} {np.round(rare, 2)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="mnist, cifar10, or a folder")
    parser.add_argument("--root", help="folder of torchvision's data sets")
    parser.add_argument("--factor", type=float, default=100.0, help="images of the commonest class by the rarest's")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--only", default="|".join(CORRECTIONS), help="corrections, separated by |")
    parser.add_argument("--out", type=Path, default=Path("studies/long_tail"))
    given = parser.parse_args()
    source = open_source(given.data, given.root)
    folder = given.out / f"{source.name}_lt{given.factor:g}"
    folder.mkdir(parents=True, exist_ok=True)
    table, side = write_table(source, tail(source, given.factor, seed=0), folder)
    networks = {}
    for name, correction in CORRECTIONS.items():
        if name in given.only.split("|"):
            networks[name] = str(folder / f"{name.replace(', ', '_').replace(' ', '_')}.yaml")
            Path(networks[name]).write_text(yaml.safe_dump(recipe(correction, side)))
    study = vit.study(
        table, networks=networks, sizes=["all"], seeds=given.seeds, budget=f"steps:{given.steps}", jobs=given.jobs,
        out=str(folder), name=f"steps{given.steps}", wandb="off",
    )  # fmt: skip
    show(study, source.class_names)


if __name__ == "__main__":
    main()
