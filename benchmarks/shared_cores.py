"""Trainings that share the cores: one alone, and two at once, with libgomp's waiting and with that of `vit`.

The sides are whole `vit train` commands in turn. A speed is the sum of the trainings' images per second.

    python benchmarks/shared_cores.py --turns 3
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from timing import Measurement, take_turns

LIBGOMP = "300000"  # what libgomp takes when nothing is set
OPTIMIZERS = {"resnet10_small": "sgd", "vit_nano_patch2_8": "muon"}


def train(network: str, how_many: int, settings: dict[str, str]) -> float:
    """Images per second of `how_many` trainings that begin together, summed."""
    taken = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
    variables = {name: value for name, value in os.environ.items() if name not in taken} | settings
    command = (
        *(sys.executable, "-m", "vit", "train", "digits", "--network", network, "--wandb", "off"),
        *("--optim.optimizer", OPTIMIZERS[network], "--optim.steps", "60"),
    )
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, str(number)) for number in range(how_many)]
        running = [
            subprocess.Popen(
                (*command, "--out", folder), env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            for folder in folders
        ]
        for process in running:
            _, error = process.communicate()
            if process.returncode:
                raise SystemExit(error.decode()[-2000:])
        return sum(_speed(folder) for folder in folders)


def _speed(folder: Path) -> float:
    (path,) = folder.rglob("result.json")
    return float(json.loads(path.read_text())["images_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="turns of each side; default 3")
    parser.add_argument("--network", nargs="*", default=OPTIMIZERS, choices=OPTIMIZERS, help="networks to train")
    arguments = parser.parse_args()
    for network in arguments.network:
        sides = {
            f"{words}, {whose}": partial(train, network, how_many, settings)
            for words, how_many in (("alone", 1), ("two at once", 2))
            for whose, settings in (("vit", {}), ("libgomp", {"GOMP_SPINCOUNT": LIBGOMP}))
        }
        sides["two at once, one thread each"] = partial(train, network, 2, {"OMP_NUM_THREADS": "1"})
        Measurement(f"trainings of {network}, {os.cpu_count()} cores", take_turns(sides, arguments.turns)).show()


if __name__ == "__main__":
    main()
