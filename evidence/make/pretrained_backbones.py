"""Backbones that learned images without labels, for each method and seed: the studies below start here.

    python evidence/make/pretrained_backbones.py runs/evidence/STUDY

`vit pretrain` sees the training images as the study's recipe divides them, so that no test image is learned from. The
files are METHOD_seedN.safetensors. A file that exists stays as it is. One thread, so that the same machine makes the
same bytes again.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from vit.atomic_files import atomic_write


@dataclass(frozen=True)
class Pretraining:
    """What a study starts from.

    Attributes:
        data: data set.
        methods: methods of `vit pretrain`. "mae_diet" is MAE from random weights, and then DIET from the result.
        seeds: number of seeds.
        options: options of the command line: the division of the study's recipe, its network, and the length.
        root: environment variable with the folder of the images; "": the program has them.
        further: options of a pretraining that goes on from weights, which take precedence.
    """

    data: str
    methods: tuple[str, ...]
    seeds: int
    options: tuple[str, ...]
    root: str = ""
    further: tuple[str, ...] = ()


FASHION_MNIST = Pretraining(
    "fashion_mnist",
    ("mae",),
    3,
    (
        "--data.validation=0.05",
        "--network=vit_mini_patch4_28",
        "--model.network.pool=mean",
        "--model.preprocess.image_size=28",
        "--model.preprocess.mean=[0.286,0.286,0.286]",
        "--model.preprocess.std=[0.353,0.353,0.353]",
        "--augment.shift=0.07",
        "--optim.steps=1880",
        "--optim.batch_size=128",
    ),
    root="FASHION_MNIST_ROOT",
)
DIGITS = Pretraining(
    "digits",
    ("mae", "diet"),
    5,
    ("--data.validation=0.1", "--data.test=0.2", "--augment.flip=0", "--optim.steps=1000", "--optim.batch_size=64"),
)
PRETRAININGS = {
    "digits_pretrained": DIGITS,
    "digits_further": replace(DIGITS, seeds=3, methods=("mae", "mae_mae", "mae_diet"), further=("--optim.steps=300",)),
    # A step of MAE costs about half of a training's: 1,880 steps cost about as much as the 940 of fashion_mnist_help.
    "fashion_mnist_help": FASHION_MNIST,
    "fashion_mnist_all": FASHION_MNIST,
}


def words_of(pretraining: Pretraining, method: str, seed: int, folder: Path, out: Path) -> list[str]:
    """The command line of one pretraining."""
    start, _, last = method.rpartition("_")
    words = ["pretrain", pretraining.data, "--method", last, "--seed", str(seed), *pretraining.options]
    if start:
        words += ["--init_from", str(folder / f"{start}_seed{seed}.safetensors"), *pretraining.further]
    if pretraining.root:
        words += ["--data.root", os.environ[pretraining.root]]
    return [*words, "--trainer.precision", "32-true", "--wandb", "off", "--out", str(out)]


def make(folder: Path) -> None:
    """Pretrain what is missing for the study that the folder is named after."""
    pretraining = PRETRAININGS[folder.name]
    folder.mkdir(parents=True, exist_ok=True)
    for method in pretraining.methods:
        for seed in range(pretraining.seeds):
            path = folder / f"{method}_seed{seed}.safetensors"
            if path.is_file():
                continue
            with tempfile.TemporaryDirectory() as place:
                words = words_of(pretraining, method, seed, folder, Path(place))
                print(f"$ vit {' '.join(words)}", flush=True)
                subprocess.run([sys.executable, "-m", "vit", *words], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
                (found,) = Path(place).rglob("backbone.safetensors")
                with atomic_write(path) as partial:
                    shutil.copyfile(found, partial)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
