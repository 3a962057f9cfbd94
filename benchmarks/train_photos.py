"""Training a ViT from a folder of JPEG files, with random crops and mirror images.

Ours: a recipe as `vit train FOLDER` runs it (`vit.training.fit.fit`), in bf16-mixed where the hardware has it. It runs
once with `data.cache: none`, which reads files in every epoch, and once with `data.cache: memory`, which decodes them
before the first step. This filling is not timed: it costs about one epoch's reading.

Theirs: timm's network of the same name with AdamW under autocast in the same precision. A DataLoader with as many
workers as there are cores (--workers) uses Pillow and torchvision's RandomResizedCrop, RandomHorizontalFlip, ToTensor
and Normalize.

The clock runs from step 10 to the last step of one epoch, without a validation. Small images show what reading costs:

    python benchmarks/train_photos.py --photos FOLDER              (JPEG files, in any folders below)
    python benchmarks/train_photos.py --image_size 64
    python benchmarks/train_photos.py --network vit_small_patch16_224 --batch 256 --workers 16       (for a GPU)

Without --photos (or the environment's PHOTOS) the script draws photographs itself, as `predict_folder.py` does.
"""

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from photos import find_photos
from timing import answer, compare
from train_fashion_mnist import WARMUP_STEPS, Measured, Stopwatch

CROP = 0.35  # smallest fraction of the area that a random crop keeps, as in --augment light
NUM_CLASSES = 2  # whose folders take the photos in turn


def ours(arguments: argparse.Namespace, cache: Literal["memory", "none"]) -> float:
    from vit.checkpoints.run import RunDirectory
    from vit.training.fit import fit
    from vit.training.planning.plan import plan_of
    from vit.training.recipes.image_options import AugmentConfig, DataConfig, PreprocessConfig
    from vit.training.recipes.recipe import ModelConfig, OptimConfig, Recipe

    recipe = Recipe(
        data=DataConfig(str(arguments.folder / "train"), validation=0.02, test=0.02, cache=cache),
        model=ModelConfig({"name": arguments.network}, PreprocessConfig(arguments.image_size)),
        augment=AugmentConfig("light", crop=CROP, flip=0.5, shift=0.0),
        optim=OptimConfig(batch_size=arguments.batch, epochs=10),
        wandb="off",
    )
    watch = Stopwatch(arguments.steps, arguments.batch)
    with tempfile.TemporaryDirectory() as name:
        try:
            fit(plan_of(recipe), RunDirectory(Path(name)), [watch])
        except Measured:
            return watch.images_per_second
    raise SystemExit("the training ended early")


def timm(arguments: argparse.Namespace) -> float:
    import torch
    import torch.nn.functional as F
    from timm import create_model
    from torch.utils.data import DataLoader
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    from vit.inference.devices import autocast, choose_device, choose_precision

    bicubic = transforms.InterpolationMode.BICUBIC
    varied = transforms.Compose(
        [
            transforms.RandomResizedCrop(arguments.image_size, (CROP, 1), interpolation=bicubic),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    images, workers = ImageFolder(arguments.folder / "train", varied), arguments.workers
    loader = DataLoader(images, arguments.batch, True, num_workers=workers, drop_last=True, persistent_workers=True)
    device = choose_device()
    network = create_model(arguments.network, num_classes=NUM_CLASSES, img_size=arguments.image_size).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05)
    watch = Stopwatch(arguments.steps, arguments.batch)
    try:
        for step, (inputs, labels) in enumerate(itertools.chain.from_iterable(loader for _ in range(100)), start=1):
            with autocast(choose_precision("auto", device), device):
                loss = F.cross_entropy(network(inputs.to(device)).float(), labels.to(device), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            watch.step(step)
    except Measured:
        return watch.images_per_second
    raise SystemExit("there are too few photos")


SIDES: dict[str, Callable[[argparse.Namespace], float]] = {
    "cached": partial(ours, cache="memory"),
    "uncached": partial(ours, cache="none"),
    "timm": timm,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", default=os.environ.get("PHOTOS"), help="folder of JPEG files; default: draw some")
    parser.add_argument("--images", type=int, default=1500, help="photos; default 1,500")
    parser.add_argument("--image_size", type=int, default=224, help="side of the input in pixels; default 224")
    parser.add_argument("--network", default="vit_tiny_patch16_224", help="ViT of timm and vit; default ViT-Ti/16")
    parser.add_argument("--batch", type=int, default=32, help="images of a step; default 32")
    workers = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, default=workers, help="loader processes of timm; default: one a core")
    parser.add_argument("--steps", type=int, default=30, help="steps of a run, after 10 that warm up; default 30")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side; default 5")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        answer(SIDES[arguments.side](arguments))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = folder / "drawn"
        drawn.mkdir()
        found, photos = find_photos(arguments.photos, drawn, arguments.images)
        if len(found) * 0.95 < (WARMUP_STEPS + arguments.steps) * arguments.batch:
            raise SystemExit(f"{len(found)} photos are less than an epoch of --steps {arguments.steps}")
        for number in range(NUM_CLASSES):
            (folder / "train" / str(number)).mkdir(parents=True)
        for number, path in enumerate(found):
            (folder / "train" / str(number % NUM_CLASSES) / f"{number:05}.jpg").symlink_to(path.resolve())
        what = f"Training {arguments.network} on {photos}, {arguments.image_size} pixels, batches of {arguments.batch}"
        compare("cached", ["uncached", "timm"], arguments.pairs, what, "--folder", name)


if __name__ == "__main__":
    main()
