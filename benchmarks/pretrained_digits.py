"""Backbones that learned the digits without labels, for each method and seed: the study digits_pretrained starts here.

    python benchmarks/pretrained_digits.py FOLDER

`vit pretrain` sees the 1,259 training images of the digits, as `vit train digits` divides them, for 1,000 steps of 64
images. The files are FOLDER/METHOD_seedN.safetensors. A file that exists stays as it is. One thread, so that the same
machine makes the same bytes again.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vit.atomic_files import atomic_write

METHODS, SEEDS, STEPS = ("mae", "diet"), 5, 1000
# The division of configs/digits.yaml, so that no test image is learned from.
LIKE_THE_STUDY = ("--data.validation", "0.1", "--data.test", "0.2")


def words_of(method: str, seed: int, out: Path) -> list[str]:
    """The command line of one pretraining."""
    words = ["pretrain", "digits", "--method", method, "--seed", str(seed), *LIKE_THE_STUDY]
    words += ["--optim.steps", str(STEPS), "--optim.batch_size", "64", "--augment.flip", "0"]
    words += ["--trainer.precision", "32-true", "--wandb", "off", "--out", str(out)]
    return words


def make(folder: Path) -> None:
    """Pretrain what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for method in METHODS:
        for seed in range(SEEDS):
            path = folder / f"{method}_seed{seed}.safetensors"
            if path.is_file():
                continue
            with tempfile.TemporaryDirectory() as place:
                words = words_of(method, seed, Path(place))
                print(f"$ vit {' '.join(words)}", flush=True)
                subprocess.run([sys.executable, "-m", "vit", *words], check=True, stdout=subprocess.DEVNULL)
                (found,) = Path(place).rglob("backbone.safetensors")
                with atomic_write(path) as partial:
                    shutil.copyfile(found, partial)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
