"""`vit train` beside other tools, each with its defaults: the same images, splits and weights.

    python benchmarks/defaults.py ROWS.jsonl FOLDER... --weights WEIGHTS.safetensors --python PYTHON TOOL=PYTHON... \
        --scripts SCRIPTS [--images 100] [--image_size 96] [--seeds 3]

A FOLDER holds pool/CLASS and test/CLASS, or CLASS. Its ten largest classes are used. Each seed draws n training images
with equal classes, and n / 5 validation images. The test images, about 200, are the same for all seeds. All tools see
the same JPEG files, whose shorter side is at most twice the image size. Time is CPU seconds of a tool's processes, from
the folders to the answers on the test images. One row a training; rows that the file has are left out, so a stopped run
goes on.
`--choose` trains the alternatives of `defaults_sides.py` in place of the sides that are compared.

PYTHON is an environment with fastai, timm, and transformers with datasets and evaluate. Tools with an environment of
their own follow as TOOL=PYTHON: lightly-train with timm, and autogluon.multimodal. SCRIPTS holds timm's train.py as
timm_train.py, transformers' run_image_classification.py, and accuracy/accuracy.py of evaluate, which otherwise is
fetched.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from defaults_sides import ALTERNATIVES, SIDES, Side, Trial, read_answers
from PIL import Image, ImageOps

from vit.checkpoints.result import pack
from vit.training.planning.schedule import equal_rounds, fine_tuning_steps

Row = dict[str, float | int | str]
NUM_CLASSES, NUM_TESTED = 10, 200  # classes of a set, and test images, or a little fewer
_KEY = ("data", "weights", "tool", "length", "options", "images", "image_size", "seed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--weights", type=Path, nargs="+", required=True)
    parser.add_argument("--python", nargs="+", required=True)
    parser.add_argument("--scripts", type=Path, required=True)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--image_size", type=int, default=96)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tools", nargs="+", help="only these tools")
    parser.add_argument("--choose", action="store_true")
    given = parser.parse_args()
    sides = [side for side in (ALTERNATIVES if given.choose else SIDES) if side.tool in (given.tools or [side.tool])]
    pythons = dict(word.rpartition("=")[::2] for word in given.python)
    done = {tuple(row[name] for name in _KEY) for row in read_rows(given.rows)}
    with tempfile.TemporaryDirectory(prefix="defaults") as temporary:
        for seed, weights, side, folder in product(range(given.seeds), given.weights, sides, given.folders):
            options = " ".join(side.options)
            key = (folder.name, weights.stem, side.tool, side.length, options, given.images, given.image_size, seed)
            if key in done:
                continue
            images, out = Path(temporary) / str(seed) / folder.name, Path(temporary) / "out"
            if not images.exists():
                lay_out(folder, images, given.images, seed, 2 * given.image_size)
            out.mkdir()
            trial = Trial(
                images, weights.resolve(), given.image_size, seed, default_epochs(given.images), out,
                pythons.get(side.tool) or pythons[""], given.scripts.resolve(),
            )  # fmt: skip
            row = dict(zip(_KEY, key, strict=True)) | measure(side, trial)
            shutil.rmtree(out)
            with given.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, none where it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def default_epochs(num_images: int) -> int:
    """Passes over the training images that a fine-tuning of `vit train` makes by default, rounded."""
    batch = min(64, max(1, num_images // 8))
    rounds, steps = equal_rounds(fine_tuning_steps(num_images, batch))
    return round(rounds * steps * batch / num_images)


def measure(side: Side, trial: Trial) -> Row:
    """The test accuracy of a side, or the last line of the command that failed; and CPU seconds."""
    busy = 0.0
    for command in side.commands(trial):
        status, seconds, last = run(command, trial)
        busy += seconds
        if status:
            return {"failed": last, "cpu": round(busy, 1)}
    truth = {f"{path.parent.name}/{path.name}": path.parent.name for path in (trial.images / "test").glob("*/*")}
    correct = check_answers(truth, read_answers(trial.out))
    bits = pack(correct)
    return {"accuracy": float(correct.mean()), "tested": len(correct), "correct": bits, "cpu": round(busy, 1)}


def check_answers(truth: Mapping[str, str], answers: Mapping[str, str]) -> npt.NDArray[np.bool_]:
    """Whether each test image is right, in the order of their paths; SystemExit where a tool left some out."""
    if truth.keys() != answers.keys():
        raise SystemExit(
            f"{len(truth.keys() ^ answers.keys())} of {len(truth)} test images have no answer, or no image"
        )
    return np.array([answers[path] == truth[path] for path in sorted(truth)])


def run(command: Sequence[str], trial: Trial) -> tuple[int, float, str]:
    """(exit status, CPU seconds with those of its child processes, last line) of a command, on one thread."""
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(trial.out / "hub"), "WANDB_MODE": "disabled"}
    quiet |= {"LIGHTLY_TRAIN_EVENTS_DISABLED": "1", "NO_ALBUMENTATIONS_UPDATE": "1"}
    log = trial.out / "log.txt"
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=trial.scripts, env=os.environ | quiet, stdout=file, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return process.returncode, used.ru_utime + used.ru_stime, lines[-1] if lines else ""


def lay_out(folder: Path, images: Path, num_images: int, seed: int, shorter_side: int) -> None:
    """Write train/, val/ and test/ with JPEG files of one seed's images."""
    pool, tested = split(folder)
    draws = random.Random(seed)
    for files in pool.values():
        draws.shuffle(files)
    names = draws.sample(sorted(pool), len(pool))
    for part, count in {"train": num_images, "val": num_images // 5}.items():
        for number in range(count):
            left = [name for name in names if pool[name]]
            name = left[number % len(left)]
            shrink(pool[name].pop(), images / part / name, shorter_side)
    for name, files in tested.items():
        for file in files:
            shrink(file, images / "test" / name, shorter_side)


def split(folder: Path) -> tuple[dict[str, list[Path]], dict[str, list[Path]]]:
    """The files of each of the largest classes: those to draw from, and the test images, which no seed changes."""
    has_test = (folder / "test").is_dir()
    pool = classes_of(folder / "pool" if has_test else folder)
    largest = sorted(pool, key=lambda name: (-len(pool[name]), name))[:NUM_CLASSES]
    pool, tested, most = {name: pool[name] for name in largest}, {}, NUM_TESTED // len(largest)
    for name, files in pool.items():
        random.Random(0).shuffle(files)
        if has_test:
            tested[name] = sorted((folder / "test" / name).iterdir())[:most]
        else:
            count = min(most, len(files) // 3)
            tested[name], pool[name] = files[:count], files[count:]
    return pool, tested


def classes_of(folder: Path) -> dict[str, list[Path]]:
    """The files of each class of a folder, sorted."""
    return {path.name: sorted(path.iterdir()) for path in sorted(folder.iterdir()) if path.is_dir()}


def shrink(file: Path, folder: Path, shorter_side: int) -> None:
    """Keep a JPEG copy whose shorter side is at most that."""
    folder.mkdir(parents=True, exist_ok=True)
    with Image.open(file) as image:
        picture = ImageOps.exif_transpose(image).convert("RGB")
    scale = min(1.0, shorter_side / min(picture.size))
    width, height = (max(1, round(scale * side)) for side in picture.size)
    picture.resize((width, height), Image.Resampling.BICUBIC).save(folder / f"{file.name}.jpg", quality=95)


if __name__ == "__main__":
    main()
